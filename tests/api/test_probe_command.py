"""`argus probe` for real: processes of this machine as hosts, gloo between them, the result in the service."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from argus.analytics.store import queries
from argus.api.cli import main
from tests.api.kit import FakeClock, layouts_body, make_window, service_at, upload
from tests.api.served import over_http

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def test_commands_are_shown_and_nothing_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--hosts", "h-1,localhost", "--peers", "h-2", "--via", "ssh", "--dry-run"]) == 0
    far, near, peer = capsys.readouterr().out.splitlines()
    assert far.startswith("ssh -o BatchMode=yes h-1 ") and "--rank 0" in far and "--master h-1:29711" in far
    assert near.startswith(sys.executable) and peer.startswith("ssh -o BatchMode=yes h-2 ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the suspects"),
        (["--hosts", "h-1"], "another host"),
        (["--hosts", "h-1", "--launch", "ssh {nobody}"], "must be words with {host} and {command}"),
        (["--hosts", "h-1", "--launch", "ssh {host.at}"], "must be words with {host} and {command}"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", *words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


@pytest.mark.slow
def test_a_host_whose_name_is_an_option_is_not_given_to_ssh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = FakeClock()
    with service_at(tmp_path / "a.sqlite", clock=clock) as service, over_http(service) as url:
        layouts = json.loads(layouts_body(6))
        layouts["layouts"][3]["host"] = "-oProxyCommand=touch x"
        service.receive_layouts(json.dumps(layouts).encode())
        service.receive_windows(upload(*(make_window(r, 0, factor=2.0 if r == 3 else 1.0) for r in range(6))))
        service.worker.turn(clock.now_s)
        with service.store.read() as connection:
            (incident,) = queries.incidents(
                connection, run=None, status=None, fault_class=None, limit=10, offset=0
            ).items
        words = ["probe", "--incident", incident["id"], "--via", "ssh", "--dry-run", "--while-running"]
        assert main([*words, "--server", url]) == 2
        told = capsys.readouterr()
        assert "is no name of a host" in told.err and not told.out


def test_a_host_that_cannot_be_started_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["probe", "--hosts", "h-1", "--launch", "/nowhere/ssh {host} {command}", "--no-post"]
    assert main(words) == 2
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.long
def test_a_probe_of_three_hosts_is_told_to_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service, over_http(service) as url:
        service.receive_layouts(layouts_body(6))
        words = ["probe", "--hosts", "h-0", "--peers", "h-1,h-2", "--launch", "sh -c {command}"]
        words += ["--seconds", "0.6", "--device", "cpu", "--python", sys.executable, "--port", free_port()]
        assert main([*words, "--server", url, "--json"]) == 0
        raw = json.loads(capsys.readouterr().out)
        told = {(verdict["host"], verdict["test"]) for verdict in raw["verdicts"]}
        assert told == {(f"h-{i}", test) for i in range(3) for test in ("gemm", "copy", "allreduce")}
        assert raw["posted"] == 9 and raw["warnings"] == []
        with service.store.read() as connection:
            from argus.analytics.store.events import list_events

            found = list_events(connection, nodes=["host:h-0"], limit=10, offset=0)
        assert {item["kind"] for item in found.items} == {"probe_gemm", "probe_copy", "probe_allreduce"}
        assert all(item["value"] > 0 for item in found.items)


@pytest.mark.slow
def test_an_incident_gives_suspects_and_healthy_hosts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = FakeClock()
    with service_at(tmp_path / "a.sqlite", clock=clock) as service, over_http(service) as url:
        service.receive_layouts(layouts_body(6))
        service.receive_windows(upload(*(make_window(r, 0, factor=2.0 if r == 3 else 1.0) for r in range(6))))
        service.worker.turn(clock.now_s)
        with service.store.read() as connection:
            (incident,) = queries.incidents(
                connection, run=None, status=None, fault_class=None, limit=10, offset=0
            ).items
        words = ["probe", "--incident", incident["id"], "--via", "ssh", "--dry-run", "--server", url]
        assert main(words) == 2
        assert "is live and a probe would slow it down" in capsys.readouterr().err
        assert main([*words, "--while-running"]) == 0
        hosts = [line.split()[3] for line in capsys.readouterr().out.splitlines()]
        assert hosts == ["h-1", "h-0", "h-2"]
