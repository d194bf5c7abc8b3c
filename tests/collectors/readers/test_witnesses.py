"""Readers of what others saw: scrapes of DCGM exporter and xpu_timer, profiles of py-spy and speedscope."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from argus.collectors.readers import ReaderError, Reading, prometheus_text, py_spy, speedscope
from argus.collectors.readers._fake_logs import dcgm_scrape, folded_stacks, xpu_timer_scrape
from argus.collectors.readers._profiled_stacks import MAX_DUMPS
from tests.collectors.readers.samples import speedscope as speedscope_bytes


def scrape(path: Path, text: str) -> Reading:
    path.write_text(text)
    (reading,) = prometheus_text.read(path)
    return reading


def test_a_gpu_held_down_by_heat_is_a_sign_and_a_power_cap_is_none(tmp_path: Path) -> None:
    reading = scrape(tmp_path / "dcgm.prom", dcgm_scrape(slow=(2,)))
    signs = {(event.node, event.kind) for event in reading.events if event.kind}
    assert signs == {("gpu:GPU-0002", "thermal"), ("gpu:GPU-0002", "clock")}
    notes = [event for event in reading.events if not event.kind]
    assert len(notes) == 7 and all("power cap" in event.text for event in notes)
    assert reading.also["gpu:GPU-0002"] == ("gpu:h-0/00000000:12:00.0", "gpu:h-0/2")


def test_xid_zero_is_none_and_counters_keep_their_value(tmp_path: Path) -> None:
    more = (
        'DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-0001",Hostname="h-0"} 79',
        'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="1",UUID="GPU-0001",Hostname="h-0"} 3 1700000000000',
        'DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="3",UUID="GPU-0003",Hostname="h-0"} 1',
    )
    reading = scrape(tmp_path / "a", dcgm_scrape(more=more))
    by_kind = {event.kind: event for event in reading.events if event.kind}
    assert by_kind["xid"].node == "gpu:GPU-0001" and "79" in by_kind["xid"].text
    assert by_kind["ecc"].value == 3.0 and by_kind["ecc"].time_s == 1_700_000_000.0
    assert by_kind["remap"].node == "gpu:GPU-0003"
    assert sum(event.kind == "xid" for event in reading.events) == 1


@pytest.mark.parametrize("blank", [9223372036854775794, 9.223372036854776e18, 2147483632, 140737488355330.0])
def test_a_value_that_dcgm_marks_as_missing_is_none(tmp_path: Path, blank: float) -> None:
    names = ("XID_ERRORS", "ROW_REMAP_FAILURE", "ECC_DBE_VOL_TOTAL", "THERMAL_VIOLATION", "SM_CLOCK")
    more = [f'DCGM_FI_DEV_{name}{{gpu="1",UUID="GPU-0001",Hostname="h-0"}} {blank}' for name in names]
    reading = scrape(tmp_path / "a", dcgm_scrape(more=more))
    assert not [event for event in reading.events if event.kind]


def test_slow_clocks_of_idle_gpus_and_of_two_alone_say_nothing(tmp_path: Path) -> None:
    idle = dcgm_scrape(slow=(2,)).replace("} 100\n", "} 3\n").replace(" 64\n", " 1\n")
    assert not [event for event in scrape(tmp_path / "a", idle).events if event.kind]
    two = dcgm_scrape(2, slow=(1,)).replace(" 64\n", " 4\n")
    assert not [event for event in scrape(tmp_path / "b", two).events if event.kind]


def test_profiling_metrics_that_stand_at_zero_are_the_exporters(tmp_path: Path) -> None:
    more = ('DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-0000",Hostname="h-0"} 0',)
    texts = [event.text for event in scrape(tmp_path / "a", dcgm_scrape(more=more)).events]
    assert sum("exporter lost them" in text for text in texts) == 1


def test_xpu_timer_tells_who_is_slow_and_who_hangs(tmp_path: Path) -> None:
    reading = scrape(tmp_path / "xpu.prom", xpu_timer_scrape([800, 810, 1300, 805, 800, 790], hung=(4,)))
    assert [(event.node, event.kind) for event in reading.events] == [("rank:4", ""), ("rank:2", "")]
    assert "1300" in reading.events[1].text


@pytest.mark.parametrize(
    "line",
    [
        "DCGM_FI_DEV_GPU_TEMP{gpu=",
        "}{",
        'DCGM_FI_DEV_GPU_TEMP{gpu="0"} hot',
        'a{b="\\',
        "x NaN y z",
        f"x {'1' * 400}",
    ],
)
def test_lines_that_are_no_samples_cost_only_themselves(tmp_path: Path, line: str) -> None:
    reading = scrape(tmp_path / "a.prom", dcgm_scrape(slow=(2,), more=(line,)))
    assert len([event for event in reading.events if event.kind]) == 2
    assert reading.warnings == ("a.prom: 1 lines are no samples and are left out",)


def test_other_scrapes_are_let_be(tmp_path: Path) -> None:
    assert not prometheus_text.sniff(b'node_cpu_seconds_total{cpu="0"} 1\n', "node.prom")
    with pytest.raises(ReaderError, match=r"a\.prom holds no metric"):
        scrape(tmp_path / "a.prom", "up 1\n")


def test_a_raw_profile_is_dumps_in_their_shares(tmp_path: Path) -> None:
    path = tmp_path / "stacks-rank-2.txt"
    path.write_text(folded_stacks())
    (reading,) = py_spy.read(path)
    assert len(reading.stacks) == MAX_DUMPS and {dump.rank for dump in reading.stacks} == {2}
    loading = [dump for dump in reading.stacks if "dataloader" in dump.threads[0].stack]
    assert len(loading) == 0.8 * MAX_DUMPS and {dump.threads[0].kind for dump in loading} == {"main"}


def test_threads_of_a_raw_profile_are_apart(tmp_path: Path) -> None:
    path = tmp_path / "rank1.txt"
    path.write_text(
        'process 12:"python";thread (0x7F1): MainThread;f (a.py:1) 3\nthread (0x7F2): pt_autograd_0;g (b.py:2) 1\n'
    )
    (reading,) = py_spy.read(path)
    kinds = {dump.threads[0].kind: dump.threads[0].stack for dump in reading.stacks}
    assert kinds == {"main": "f (a.py:1)", "autograd": "g (b.py:2)"}


def test_the_main_thread_is_told_from_those_it_began(tmp_path: Path) -> None:
    """As py-spy 0.4 prints them: without names, with --threads, with --subprocesses."""
    path = tmp_path / "rank1.txt"
    path.write_text(
        "<module> (w.py:9);step (w.py:6) 5\n"
        "Thread._bootstrap (threading.py:1002);Thread.run (threading.py:982);side (w.py:8) 3\n"
        'process 7:"/usr/bin/python w.py 2";thread (7);<module> (w.py:1);a (w.py:2) 2\n'
        'process 8:"/usr/bin/python w.py 2";thread (9);b (w.py:2) 2\n'
    )
    (reading,) = py_spy.read(path)
    kinds = {dump.threads[0].stack.split(";")[-1]: dump.threads[0].kind for dump in reading.stacks}
    assert kinds["a (w.py:2)"] == "main" and kinds["b (w.py:2)"] == "other"
    assert kinds["side (w.py:8)"] == "other"


def test_other_text_is_no_profile() -> None:
    assert not py_spy.sniff(b"step 1\nstep 2\n", "rank0.txt")
    assert not py_spy.sniff(b"a b 3\n", "rank0.txt")
    assert py_spy.sniff(folded_stacks().encode(), "x")


@pytest.mark.parametrize("reader", [py_spy, speedscope])
def test_a_profile_of_nobody_is_one_sentence(tmp_path: Path, reader: Any) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(speedscope_bytes() if reader is speedscope else folded_stacks().encode())
    with pytest.raises(ReaderError, match=r"profile\.json: the rank is missing"):
        list(reader.read(path))


def test_speedscope_threads_and_frames(tmp_path: Path) -> None:
    path = tmp_path / "rank0.speedscope.json"
    path.write_bytes(speedscope_bytes())
    (reading,) = speedscope.read(path)
    stacks = {(dump.threads[0].kind, dump.threads[0].stack) for dump in reading.stacks}
    assert stacks == {
        ("main", "main (train.py:0);step (train.py:1)"),
        ("main", "main (train.py:0);load (train.py:2)"),
        ("autograd", "step (train.py:1)"),
    }


def test_an_evented_profile_and_frames_that_are_not_there(tmp_path: Path) -> None:
    raw = json.loads(speedscope_bytes())
    raw["profiles"] = [
        {
            "type": "evented",
            "name": "MainThread",
            "events": [
                {"type": "O", "frame": 0, "at": 0},
                {"type": "O", "frame": 1, "at": 1},
                {"type": "C", "frame": 1, "at": 4},
                {"type": "O", "frame": 99, "at": 4},
                {"type": "C", "frame": 99, "at": 5},
                {"type": "C", "frame": 0, "at": 6},
            ],
        }
    ]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(raw))
    (reading,) = speedscope.read(path)
    shares = dict.fromkeys(("main (train.py:0)", "main (train.py:0);step (train.py:1)"), 0)
    for dump in reading.stacks:
        shares[dump.threads[0].stack] += 1
    assert shares["main (train.py:0);step (train.py:1)"] > shares["main (train.py:0)"] > 0
    assert any("1 samples name frames" in warning for warning in reading.warnings)
