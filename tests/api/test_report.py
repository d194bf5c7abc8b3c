"""`argus report` on a service, on traces, as text, JSON and a page of HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from argus.api.cli import main
from argus.api.cli.serve import product_analyses
from argus.api.losses_page import page
from argus.collectors.readers._fake import fake_trace
from argus.evals.simulator.job import Fault, Job
from tests.api.kit import FakeClock, new_service, new_store
from tests.api.served import live, over_http

JOB = Job(run="night", ranks=8, steps=200, step_s=0.4)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    clock = FakeClock(JOB.start_s)
    store = new_store(tmp_path / "a.sqlite")
    service = new_service(store, clock=clock, analyses=product_analyses(), window_steps=10)
    live(service, clock, JOB, [Fault(kind="compute", ranks=(3,), start_step=100, end_step=150, severity=1.5)])
    with over_http(service) as url:
        monkeypatch.setenv("ARGUS_SERVER", url)
        yield url
    store.close()


@pytest.mark.slow
@pytest.mark.usefixtures("url")
def test_a_run_of_the_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "night.html"
    assert main(["report", "--run", "night", "--json", "--html", str(file)]) == 1
    raw = json.loads(capsys.readouterr().out)
    lost = raw["by_class"]["compute.slow"]
    assert lost["hours"] == pytest.approx(50 * 0.17 * 8 / 3600, rel=0.3)
    assert raw["lost"]["hours"] == pytest.approx(lost["hours"] + raw["unexplained"]["hours"])
    assert 0.05 < raw["lost"]["share"] < 0.2 and raw["num_incidents"] == 1
    methods = {gain["name"]: gain["method"] for gain in raw["gains"]}
    assert methods["exposed communication"] == "replay of the calls"
    assert methods["garbage collection"].startswith("at most")
    text = file.read_text(encoding="utf-8")
    assert "compute.slow" in text and "http" not in text.replace("<!doctype html>", "")
    assert main(["report", "--run", "night"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("Run night used") and "every step pays" in out
    assert main(["report", "--run", "other"]) == 1
    assert capsys.readouterr().err == "argus report: no run 'other'\n"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        self.tags.append(tag)


def test_the_page_trusts_no_text() -> None:
    loss = {"hours": 1.0, "share": 0.5, "far_hours": 0.5, "far_share": 0.2}
    evil = "<script>alert(1)</script><img src=x onerror=y>"
    gain = {
        "name": evil,
        "share": 0.1,
        "gain_s_per_step": 0.1,
        "gpu_hours_per_day": 9999.0,
        "method": evil,
        "note": evil,
    }
    report = {
        "run": evil,
        "paragraph": evil,
        "lost": loss,
        "by_class": {evil: loss},
        "unexplained": loss,
        "gains": [gain],
        "lacks": [evil],
    }
    tags = Tags()
    tags.feed(page(report))
    assert not {"script", "img", "link", "iframe"} & set(tags.tags)


@pytest.mark.slow
def test_traces_are_reported_and_what_they_lack_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(2):
        trace = fake_trace(rank=rank, world_size=2, num_steps=12)
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    assert main(["report", str(tmp_path), "--json"]) == 1
    raw = json.loads(capsys.readouterr().out)
    assert raw["world_size"] == 2 and raw["num_steps"] > 0 and "recompiles" in raw["lacks"]


def test_what_is_wrong_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for words in ([], ["--run", "x", str(tmp_path)], [str(tmp_path / "empty")], [str(tmp_path / "gone")]):
        assert main(["report", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
