"""What a window says of its host: counters read all along, in the window's own time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.collectors.host.process_use import Counts
from argus.collectors.host.use_track import Read, UseTrack, rates_in
from argus.collectors.records.errors import WireError
from argus.collectors.records.events import COLLECTIVE, EVENT, STEP
from argus.collectors.records.host_sample import HostSample, KernelEvent, PartState
from argus.collectors.records.pack import pack, unpack
from argus.collectors.records.summary import PHASE_CELL, RankWindow

KEY = ("run", 0, 3)


def read(ts_s: float, *, delay_s: float = 0.0, some_s: float = 0.0, pid: int = 7) -> Read:
    counts = Counts(whole={"cpu_s": ts_s / 2}, run_delay_s={pid: delay_s, pid + 1: delay_s / 4})
    return Read(ts_s=ts_s, numbers={"cpu_some_s": some_s}, ranks={(KEY, pid): counts})


def window(start_s: float, end_s: float) -> RankWindow:
    steps = np.zeros(1, STEP)
    steps["start_ns"], steps["end_ns"] = round(start_s * 1e9), round(end_s * 1e9)
    return RankWindow(run="run", attempt=0, rank=3, window=0, first_step=0, num_steps=1, steps=steps)


READS = [read(100.0 + 2 * i, delay_s=float(max(0, i - 3)), some_s=0.5 * i) for i in range(10)]


def test_growth_per_second_between_the_reads_around_the_window() -> None:
    rates = rates_in(READS, KEY, start_s=106.5, end_s=109.5)
    assert rates == {
        "cpu_ratio": 0.5,
        "run_delay_ratio": pytest.approx(0.625),
        "thread_run_delay_ratio": 0.5,
        "host_cpu_some_ratio": 0.25,
    }
    assert rates_in(READS, KEY, start_s=100.0, end_s=106.0)["thread_run_delay_ratio"] == 0.0


@pytest.mark.parametrize(("start_s", "end_s"), [(90.0, 101.0), (117.5, 125.0), (200.0, 210.0), (10.0, 20.0)])
def test_a_window_that_was_mostly_not_read_has_nothing(start_s: float, end_s: float) -> None:
    assert rates_in(READS, KEY, start_s=start_s, end_s=end_s) == {}


def test_a_rank_that_was_restarted_meanwhile_has_only_its_host() -> None:
    reads = [read(100.0), read(102.0, pid=9)]
    assert set(rates_in(reads, KEY, start_s=100.0, end_s=102.0)) == {"host_cpu_some_ratio"}
    assert (
        rates_in([], KEY, start_s=0.0, end_s=1.0) == {}
        and rates_in(READS[:1], KEY, start_s=0.0, end_s=1.0) == {}
    )


def test_a_clock_set_back_begins_anew() -> None:
    track = UseTrack()
    for one in (*READS, read(50.0), read(52.0)):
        track.add_read(one)
    [before] = track.equip([window(100.0, 110.0)], devices={})
    [after] = track.equip([window(50.0, 52.0)], devices={})
    assert before.use == {} and after.use["cpu_ratio"] == 0.5


def test_the_ranks_own_gpu_and_what_its_host_stated() -> None:
    track = UseTrack()
    gpus = tuple(
        PartState(name=name, numbers={"sm_clock_mhz": clock, "remapped_rows": 1.0}, flags=flags)
        for name, clock, flags in (("GPU-a", 1980.0, ()), ("GPU-b", 1200.0, ("hw_thermal",)))
    )
    ports = (PartState(name="mlx5_0/1", numbers={"symbol_error": 7.0, "link_downed": 0.0}, flags=("down",)),)
    events = (KernelEvent(ts_s=105.0, kind="xid", code=79, device="0000:10:1c"),)
    sample = HostSample(host="h", start_s=100.0, end_s=110.0, gpus=gpus, ports=ports, events=events)
    track.add_sample(replace(sample, start_s=10.0, end_s=20.0, events=()))
    track.add_sample(sample)
    [hot] = track.equip([window(101.0, 109.0)], devices={KEY: "GPU-b"})
    assert hot.use == {"gpu_sm_clock_mhz": 1200.0}
    assert hot.marks == (
        "gpu hw_thermal",
        "xid 79 0000:10:1c",
        "port mlx5_0/1 down",
        "port mlx5_0/1 symbol_error",
    )
    [none] = track.equip([window(101.0, 109.0)], devices={})
    assert none.use == {} and "gpu hw_thermal" not in none.marks


@pytest.mark.parametrize(
    "use", [[], {"a": "b"}, {"a": float("nan")}, {"a": -1.0}, {"a": True}, {f"n{i}": 1.0 for i in range(99)}]
)
def test_nonsense_is_refused(use: object) -> None:
    dtypes = {"steps": STEP}
    full = window(1.0, 2.0).to_bytes()
    dtypes |= {"cells": PHASE_CELL, "details": PHASE_CELL, "collectives": COLLECTIVE, "events": EVENT}
    meta, arrays = unpack(full, dtypes)

    def remade(use: object) -> bytes:
        return pack({**meta, "use": use}, {name: (name, arrays[name]) for name in dtypes})

    with pytest.raises(WireError):
        RankWindow.from_bytes(remade(use))
    assert RankWindow.from_bytes(remade({"a": 1})).use == {"a": 1.0}
