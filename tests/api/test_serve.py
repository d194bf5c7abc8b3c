"""`argus serve` as a process: addresses, signals, and what survives kill -9."""

from __future__ import annotations

import fcntl
import random
import socket
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import select

from argus.analytics.store.engine import open_store
from argus.analytics.store.tables import RANK_WINDOWS
from argus.api.cli import main
from argus.api.cli.errors import CliError
from argus.api.cli.serve import serve
from argus.api.cli.serve_store import claimed
from argus.api.settings import Settings
from tests.api.kit import FAKE_ANALYSES, layouts_body, make_window, upload
from tests.api.process import Running, start, wait_for


def refused(**settings: str | int) -> CliError:
    """What `argus serve` says instead of listening."""
    with pytest.raises(CliError) as refusal:
        serve(Settings(**settings), analyses=FAKE_ANALYSES)  # type: ignore[arg-type]
    assert len(str(refusal.value).splitlines()) == 1
    return refusal.value


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.invalid"])
def test_another_address_needs_a_key(host: str, tmp_path: Path) -> None:
    said = refused(host=host, port=0, db=str(tmp_path / "a.sqlite"))
    assert said.code == 2 and "ARGUS_KEY" in str(said)
    assert not (tmp_path / "a.sqlite").exists()


def test_a_taken_port_is_said_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = refused(port=port, db=str(tmp_path / "a.sqlite"))
    assert said.code == 1 and str(port) in str(said)


@pytest.mark.parametrize("db", ["broken.sqlite", "none/a.sqlite", "mysql://user:pass@host/db"])
def test_a_database_that_cannot_be_opened_is_said_in_a_sentence(db: str, tmp_path: Path) -> None:
    (tmp_path / "broken.sqlite").write_bytes(b"this is no database" * 100)
    said = refused(port=0, db=db if "://" in db else str(tmp_path / db))
    assert said.code == 1 and "database" in str(said) and "pass" not in str(said)


def test_a_secret_that_no_call_back_can_be_signed_with_is_said_at_once(tmp_path: Path) -> None:
    said = refused(port=0, db=str(tmp_path / "a.sqlite"), callback_secret="whsec_no base64")
    assert said.code == 2 and "ARGUS_CALLBACK_SECRET" in str(said) and "no base64" not in str(said)


def test_a_database_in_use_is_left_alone(tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    with (tmp_path / "a.sqlite.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        said = refused(port=0, db=str(db))
    assert said.code == 1 and "another argus serve" in str(said) and not db.exists()


@pytest.mark.parametrize("other", ["{0}", "sqlite:///{0}", "{1}"], ids=["path", "URL", "link"])
def test_one_file_has_one_service_however_it_is_named(tmp_path: Path, other: str) -> None:
    file, link = tmp_path / "a.sqlite", tmp_path / "link.sqlite"
    link.symlink_to(file)
    second = claimed(other.format(file, link))
    with claimed(str(file)), pytest.raises(CliError, match="another argus serve"), second:
        pass


@pytest.mark.slow
def test_sigterm_ends_in_order(tmp_path: Path) -> None:
    service = start(tmp_path / "a.sqlite", module=("-m", "argus", "serve"), ARGUS_KEY="k")
    assert service.get("/healthz") == {"status": "ok"}
    assert service.post("/v1/ingest/layouts", layouts_body())[0] == 401
    assert service.terminate() == 0


def test_an_unknown_command_line_value_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["serve", "--port", "eighty"])
    assert end.value.code == 2 and "invalid int value" in capsys.readouterr().err


def feed(service: Running, acknowledged: set[tuple[int, int]], todo: list[int]) -> None:
    """Upload the windows in `todo` rank pair by rank pair until the service is gone."""
    while todo:
        window = todo[0]
        for host in (0, 1):
            ranks = (2 * host, 2 * host + 1)
            rows = [make_window(r, window, factor=2.0 if r == 1 and window >= 1 else 1.0) for r in ranks]
            status, answer = service.post("/v1/ingest/windows", upload(*rows))
            if status != 200:
                return
            assert answer["accepted"] + answer["duplicates"] == 2 and not answer["rejected"]
            acknowledged.update((rank, window) for rank in ranks)
        todo.pop(0)


@pytest.mark.slow
@pytest.mark.long
def test_kill_9_loses_nothing_acknowledged_and_repeats_nothing(tmp_path: Path) -> None:
    db, rng = tmp_path / "a.sqlite", random.Random(3)
    acknowledged: set[tuple[int, int]] = set()
    todo = list(range(2000))
    settings = {"ARGUS_SETTLE_S": "0", "ARGUS_GRACE_S": "60"}
    for number in range(4):
        service = start(db, **settings)
        assert service.post("/v1/ingest/layouts", layouts_body())[0] == 200
        feeding = threading.Thread(target=feed, args=(service, acknowledged, todo))
        feeding.start()
        goal = len(acknowledged) + rng.randint(10, 60)
        wait_for(lambda goal=goal: len(acknowledged) >= goal)  # type: ignore[misc]
        time.sleep(rng.random() * 0.05)
        service.kill()
        feeding.join()
        assert number or acknowledged
    service = start(db, **settings)
    last = todo[0]
    del todo[1:]
    feed(service, acknowledged, todo)
    wait_for(lambda: service.get("/v1/runs/job")["attempts"][0]["windows"] == last + 1)
    found = service.get("/v1/incidents")
    assert found["total"] == 1 and found["items"][0]["suspects"] == [1]
    told = service.get(f"/v1/incidents/{found['items'][0]['id']}")["events"]
    assert [event["what"] for event in told] == ["opened"]
    findings = service.get("/v1/runs/job/findings?limit=1000")["items"]
    assert sorted(item["window"] for item in findings) == list(range(1, last + 1))
    assert service.terminate() == 0
    store = open_store(str(db))
    with store.read() as connection:
        kept = connection.execute(select(RANK_WINDOWS.c.rank, RANK_WINDOWS.c.window)).all()
    store.close()
    assert set(map(tuple, kept)) >= acknowledged and len(kept) == len(set(kept))
