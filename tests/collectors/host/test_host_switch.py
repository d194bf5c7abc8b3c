"""Switched off: by the service, by hand with a file; said in heartbeats, undone in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from argus.collectors.host.counters import Counters
from argus.collectors.host.fake_host import RUN
from argus.collectors.host.fake_host import start as start_host
from argus.collectors.host.fake_service import FakeService, serve
from argus.collectors.host.notices import Notices
from argus.collectors.host.reporting import make_report
from argus.collectors.host.switches import Switches, parse_switches
from argus.collectors.records.errors import WireError
from argus.collectors.records.report import Report
from argus.collectors.records.switch import is_off, off_file


def test_a_file_switches_one_run_or_all(tmp_path: Path) -> None:
    socket = tmp_path / "p.sock"
    assert not is_off(socket, "a")
    off_file(socket, "a").touch()
    assert is_off(socket, "a") and not is_off(socket, "b")
    off_file(socket).touch()
    assert is_off(socket, "b")


def test_a_name_that_is_no_text_is_switched_like_any_other(tmp_path: Path) -> None:
    switches = Switches(tmp_path / "p.sock", notices=Notices(lambda _text: None))
    switches.follow({"night\ud800": True})
    assert switches.is_off("night\ud800") and not switches.is_off("night")


def test_what_the_service_switched_is_undone_at_the_end_but_not_what_a_person_did(tmp_path: Path) -> None:
    socket, said = tmp_path / "p.sock", list[str]()
    switches = Switches(socket, notices=Notices(said.append))
    off_file(socket, "mine").touch()
    switches.follow({"theirs": True, "mine": True})
    assert switches.is_off("theirs") and switches.is_off("mine")
    switches.close()
    assert not switches.is_off("theirs") and switches.is_off("mine")
    switches.follow({"mine": False})
    assert not switches.is_off("mine")
    assert said == ["run theirs is switched off", "run theirs is switched on again"]


@pytest.mark.parametrize("raw", [None, [], {"a": 1}, {1: True}, "x", {str(i): True for i in range(300)}])
def test_answers_that_make_no_sense_switch_nothing(raw: object) -> None:
    assert parse_switches(raw) == {}


@pytest.mark.slow
def test_the_service_switches_a_run_and_hears_of_it(tmp_path: Path) -> None:
    with serve(FakeService(switches={RUN: True})) as service:
        host = start_host(tmp_path, url=service.url)
        rank = host.connect(0)
        rank.play(0, 3)
        rank.status(3)
        try:
            assert host.wait_for(lambda: is_off(host.path, RUN))
            assert service.wait_for(lambda s: any(report.off == (RUN,) for report in s.reports))
            service.switches = {RUN: False}
            assert host.wait_for(lambda: not is_off(host.path, RUN))
            service.switches = {RUN: True}
            assert host.wait_for(lambda: is_off(host.path, RUN))
        finally:
            host.stop()
    assert not is_off(host.path, RUN) and service.reports[-1].num_ranks == 1


def test_a_report_names_losses_and_survives_the_wire() -> None:
    counters = Counters()
    counters.add("argus_collector_dropped_events_total", "rank", amount=3)
    counters.set("argus_collector_ranks", 8)
    report = make_report(counters, host="h", started_s=1.0, parts={"stacks": "denied"}, off=["r"])
    assert report.dropped == {"dropped_events rank": 3.0} and report.num_ranks == 8
    assert Report.from_json(report.to_json()) == report


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {"host": "h", "cpu_s": float("nan")},
        {"host": "h", "parts": []},
        {"host": "h", "off": "all"},
        {"host": "h", "dropped": {"x": "y"}},
        {"host": "h", "num_ranks": True},
    ],
)
def test_a_report_that_is_none_is_refused(raw: object) -> None:
    with pytest.raises(WireError):
        Report.from_json(raw)


def test_a_report_names_no_more_runs_than_the_service_reads() -> None:
    runs = [f"run {number}" for number in range(1000)]
    report = make_report(Counters(), host="h", started_s=1.0, parts={}, off=runs)
    assert Report.from_json(report.to_json()).off == tuple(runs[: len(report.off)])
