"""`argus diff` on a service and on files, and the incident of a run that is slower since a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from argus.analytics.store import queries
from argus.api.cli import main
from argus.api.cli.serve import product_analyses
from argus.api.service import Service
from argus.collectors.readers._fake import fake_trace
from argus.evals.simulator.job import Job
from tests.api.kit import FakeClock, new_service, new_store
from tests.api.served import live, over_http

pytestmark = pytest.mark.slow

FIRST = Job(run="night", ranks=4, steps=120, step_s=0.3)
AGAIN = Job(run="night", attempt=1, ranks=4, steps=120, step_s=0.42, start_s=FIRST.start_s + 500)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    clock = FakeClock(FIRST.start_s)
    store = new_store(tmp_path / "a.sqlite")
    service = new_service(store, clock=clock, analyses=product_analyses(), window_steps=10)
    live(service, clock, FIRST, env={"NCCL_ALGO": "Ring"})
    live(service, clock, AGAIN, env={"NCCL_ALGO": "Tree"})
    yield service
    store.close()


def test_a_restart_that_made_all_slower_is_one_incident(service: Service) -> None:
    with service.store.read() as connection:
        found = queries.incidents(
            connection, run="night", status=None, fault_class=None, limit=10, offset=0
        ).items
        kinds = [
            item["kind"]
            for item in queries.findings(
                connection, attempt_id=2, window=None, level=None, limit=100, offset=0
            ).items
        ]
    assert [(item["class"], item["scope"], item["verdict"]) for item in found] == [
        ("run.changed", "run:night", "LIKELY")
    ]
    assert "NCCL_ALGO" in json.dumps(found[0]["diagnosis"], ensure_ascii=False)
    assert "run_change" in kinds


def test_diff_of_two_attempts(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with over_http(service) as url:
        monkeypatch.setenv("ARGUS_SERVER", url)
        assert main(["diff", "night#0", "night"]) == 1  # no kernels were recorded
        text = capsys.readouterr().out
        assert main(["diff", "night#0", "night#1", "--json"]) == 1
        raw = json.loads(capsys.readouterr().out)
        assert main(["diff", "night#0", "other"]) == 1
        assert capsys.readouterr().err == "argus diff: no run 'other'\n"
        assert main(["diff", "night#x", "night"]) == 2
    assert "NCCL_ALGO: Ring → Tree" in text and "not compared: kernels" in text
    assert {"environment", "step", "phases"} <= {change["section"] for change in raw["changes"]}


def write(folder: Path, *, late_us: float) -> Path:
    folder.mkdir()
    for rank in range(2):
        trace = fake_trace(rank=rank, world_size=2, num_steps=12, late_us=late_us, latest_us=late_us)
        (folder / f"rank{rank}.json").write_text(json.dumps(trace))
    return folder


def test_diff_of_two_folders_of_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = write(tmp_path / "a", late_us=0.0), write(tmp_path / "b", late_us=4000.0)
    assert main(["diff", str(one), str(other), "--json"]) in (0, 1)
    sections = {change["section"] for change in json.loads(capsys.readouterr().out)["changes"]}
    assert "phases" in sections
    assert main(["diff", str(one), str(one)]) in (0, 1)
    assert "nothing differs" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    assert main(["diff", str(tmp_path / "empty"), str(one)]) == 2


def test_a_path_that_is_not_there_is_not_blamed_on_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = str(write(tmp_path / "a", late_us=0.0))
    monkeypatch.setenv("ARGUS_SERVER", "http://127.0.0.1:9")
    for name in (f"{tmp_path}/gone", "./gone", "../gone"):
        assert main(["diff", here, name]) == 2
        assert capsys.readouterr().err == f"argus diff: {name}: no such file or folder\n"
    for name in ("gone.json", "team/gone"):
        assert main(["diff", here, name]) == 2
        assert f"{name}: no such file or folder here, and as a run: no answer" in capsys.readouterr().err
    assert main(["diff", here, "gone"]) == 1
    assert main(["diff", here, "a-run-with-a-long-name" * 12]) == 1


def test_a_run_may_be_called_like_a_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(FIRST.start_s)
    store = new_store(tmp_path / "a.sqlite")
    service = new_service(store, clock=clock, analyses=product_analyses(), window_steps=10)
    live(service, clock, Job(run="team/run.v2", ranks=2, steps=20, step_s=0.3))
    with over_http(service) as url:
        monkeypatch.setenv("ARGUS_SERVER", url)
        assert main(["diff", "team/run.v2#0", "team/run.v2"]) in (0, 1)
    store.close()
    assert "team/run.v2" in capsys.readouterr().out
