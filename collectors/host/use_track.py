"""What the kernel did to each rank and to the host in the time of one window, from counters read all along."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from argus.collectors.host.pressure import difference
from argus.collectors.host.process_use import Counts, use_between
from argus.collectors.records.host_look import HostLook
from argus.collectors.records.host_sample import HostSample, PartState
from argus.collectors.records.summary import RankWindow

Key = tuple[str, int, int]
"""Run, attempt, rank."""

READ_S = 2.0
"""Between two reads: a window of ten seconds has five, at under a millisecond for a rank of 50 threads."""

KEPT_READS = 60
"""Two minutes: a window lasts at most one, and is cut seconds after its end."""

SAMPLE_LAG_S = 30.0
"""How long after its time a sample of the devices comes at the latest: three of its periods."""

MIN_OVERLAP = 0.5
"""Of a window that the reads must cover to speak of it."""

RANK_RATES = {
    "cpu_s": "cpu_ratio",
    "run_delay_s": "run_delay_ratio",
    "thread_run_delay_s": "thread_run_delay_ratio",
    "throttled_s": "throttled_ratio",
    "major_faults": "major_faults_per_s",
}
HOST_RATES = {
    "cpu_some_s": "host_cpu_some_ratio",
    "memory_full_s": "host_memory_full_ratio",
    "io_full_s": "host_io_full_ratio",
    "cpu_steal_s": "host_steal_ratio",
}
"""Counters to what a window carries: growth per second of wall time."""

GPU_NUMBERS = ("sm_clock_mhz", "power_watts", "temperature_celsius", "pcie_generation", "pcie_width")
PORT_ERRORS = ("symbol_error", "link_downed", "local_ack_timeout_err", "packet_seq_err", "rnr_nak_retry_err")


@dataclass(frozen=True, kw_only=True)
class Read:
    """The counters at one moment (Unix seconds of the host)."""

    ts_s: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[tuple[Key, int], Counts] = field(default_factory=dict)


class UseTrack:
    """Written by the thread that reads, asked by the loop that cuts: both see whole tuples."""

    def __init__(self) -> None:
        self._reads: tuple[Read, ...] = ()
        self._samples: tuple[HostSample, ...] = ()

    def add_read(self, read: Read) -> None:
        """Keep the counters; a clock that was set back begins anew."""
        kept = self._reads[-KEPT_READS + 1 :]
        self._reads = (*(kept if not kept or kept[-1].ts_s < read.ts_s else ()), read)

    def add_sample(self, sample: HostSample) -> None:
        """Keep what the host's parts said."""
        self._samples = (*self._samples[-11:], sample)

    def equip(self, windows: Iterable[RankWindow], *, devices: Mapping[Key, str]) -> list[RankWindow]:
        """The windows, each with what was seen in its time; `devices` are the ranks' GPUs."""
        return [
            equipped(
                window,
                reads=self._reads,
                samples=self._samples,
                device=devices.get((window.run, window.attempt, window.rank), ""),
            )
            for window in windows
        ]


def equipped(
    window: RankWindow, *, reads: Sequence[Read], samples: Sequence[HostSample], device: str
) -> RankWindow:
    """The window with what its host saw in its time; `device` is the rank's GPU."""
    if not len(window.steps):
        return window
    key = (window.run, window.attempt, window.rank)
    start_s = float(window.steps["start_ns"].min()) * 1e-9
    end_s = float(window.steps["end_ns"].max()) * 1e-9
    rates = rates_in(reads, key, start_s=start_s, end_s=end_s)
    within = [s for s in samples if s.start_s < end_s and s.end_s > start_s]
    gpu = _part(within, device)
    return replace(
        window,
        use={**rates, **{f"gpu_{n}": gpu.numbers[n] for n in GPU_NUMBERS if gpu and n in gpu.numbers}},
        marks=_marks(within, gpu),
    )


def equipped_from(window: RankWindow, looks: Sequence[HostLook], *, device: str) -> RankWindow:
    """The same of what a recording kept of the rank, `looks` in order of time."""
    if not len(window.steps):
        return window
    key = (window.run, window.attempt, window.rank)
    start_s = float(window.steps["start_ns"].min()) * 1e-9
    end_s = float(window.steps["end_ns"].max()) * 1e-9
    first = max(bisect_right(looks, start_s, key=_when) - 1, 0)
    last = bisect_left(looks, end_s, key=_when) + 1
    reads = [
        Read(
            ts_s=look.ts_s,
            numbers=look.host,
            ranks={(key, look.pid): Counts(whole=dict(look.whole), run_delay_s=dict(look.run_delay_s))},
        )
        for look in looks[first:last]
    ]
    told = looks[first : bisect_left(looks, end_s + SAMPLE_LAG_S, key=_when)]
    samples = [look.sample for look in told if look.sample is not None]
    return equipped(window, reads=reads, samples=samples, device=device)


def _when(look: HostLook) -> float:
    return look.ts_s


def rates_in(reads: Sequence[Read], key: Key, *, start_s: float, end_s: float) -> dict[str, float]:
    """Growth per second of a rank's and its host's counters over a span; empty if too little of it was read."""
    before = [read for read in reads if read.ts_s <= start_s]
    after = [read for read in reads if read.ts_s >= end_s]
    if not reads:
        return {}
    low, high = before[-1] if before else reads[0], after[0] if after else reads[-1]
    seen_s = min(high.ts_s, end_s) - max(low.ts_s, start_s)
    span_s = high.ts_s - low.ts_s
    if span_s <= 0 or seen_s < MIN_OVERLAP * (end_s - start_s):
        return {}
    grown = difference(high.numbers, low.numbers)
    rates = {rate: grown[name] / span_s for name, rate in HOST_RATES.items() if name in grown}
    for (rank, pid), now in high.ranks.items():
        if rank == key and (rank, pid) in low.ranks:
            use = use_between(now, low.ranks[rank, pid])
            rates |= {rate: use[name] / span_s for name, rate in RANK_RATES.items() if name in use}
    return rates


def _part(samples: Sequence[HostSample], device: str) -> PartState | None:
    """The rank's own GPU in the latest sample; its flags are those of all of them."""
    found = [part for sample in samples for part in sample.gpus if device and part.name == device]
    if not found:
        return None
    flags = tuple(sorted({flag for part in found for flag in part.flags}))
    return replace(found[-1], flags=flags)


def _marks(samples: Sequence[HostSample], gpu: PartState | None) -> tuple[str, ...]:
    """What the host's parts state in words: throttle reasons, ports down or with errors, kernel log."""
    marks = [f"gpu {flag}" for flag in gpu.flags] if gpu else []
    for sample in samples:
        marks += [f"{event.kind} {event.code} {event.device}".strip() for event in sample.events]
        for port in sample.ports:
            marks += [f"port {port.name} {flag}" for flag in port.flags]
            marks += [f"port {port.name} {name}" for name in PORT_ERRORS if port.numbers.get(name, 0.0) > 0]
    return tuple(dict.fromkeys(marks))
