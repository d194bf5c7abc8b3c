"""How a job's times are distributed, measured the same way on recordings and on simulated jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from argus.analytics.kernels.kinds import kind_of
from argus.analytics.window import Floats
from argus.collectors.host.compress import compress
from argus.collectors.records.events import RankRecords
from argus.evals.simulator.kernel_work import dense, launches
from argus.evals.simulator.simulate import Simulation

SIDE = 10
"""Values on either side that a step time's usual level is the median of."""

START_UP, MIN_VALUES = 10, 60
"""First values of a series that are left out, and values that tell a spread."""

TAIL_RATIO = 1.25
"""A step this much longer than the usual level is in the tail."""

MIN_LAUNCHES = 10
"""Of one mode of a kernel on one rank, below which two quantiles say nothing of its scatter."""

Z99 = 2.3263
"""Standard normal quantile: what lies between the median and the 99th percentile of a log-normal, in sigmas."""

WAITED_PHASES = ("pp_recv", "grad_sync", "param_gather", "tp_comm", "pp_send")

Samples = dict[str, list[float]]
"""Values by the name of what was measured."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One quantity: quantiles 10, 50 and 90 % and number of values, recorded and simulated."""

    part: str
    name: str
    real: tuple[float, float, float]
    simulated: tuple[float, float, float]
    num_real: int
    num_simulated: int
    alike: bool

    def to_json(self) -> dict[str, object]:
        """JSON-ready."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class Table:
    """All lines; `lacks` says which quantities one side does not have, `warnings` what could not be read."""

    lines: tuple[Line, ...] = ()
    lacks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())


def table(
    real: Mapping[str, Samples],
    simulated: Mapping[str, Samples],
    *,
    like_ratio: float = 2.0,  # a median off by more is another job's, not another draw's
    like_gap: float = 0.05,  # shares of a step: below this both are small
) -> Table:
    """Recorded beside simulated, part by part."""
    lines, lacks = [], []
    for part in sorted({*real, *simulated}):
        mine, other = real.get(part, {}), simulated.get(part, {})
        for name in sorted({*mine, *other}):
            if name not in mine or name not in other:
                lacks.append(f"{part}: {name} is only {'recorded' if name in mine else 'simulated'}")
                continue
            a, b = _quantiles(mine[name]), _quantiles(other[name])
            ratio = max(a[1], b[1]) / max(min(a[1], b[1]), 1e-12)
            is_share = "share" in part or "share" in name
            alike = ratio <= like_ratio or (is_share and abs(a[1] - b[1]) <= like_gap)
            lines.append(
                Line(
                    part=part,
                    name=name,
                    real=a,
                    simulated=b,
                    num_real=len(mine[name]),
                    num_simulated=len(other[name]),
                    alike=bool(alike),
                )
            )
    return Table(lines=tuple(lines), lacks=tuple(lacks))


def _quantiles(values: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = np.quantile(np.array(values, np.float64), [0.1, 0.5, 0.9])
    return float(low), float(middle), float(high)


def step_noise(series: Iterable[Floats]) -> Samples:
    """Of each series of step times: relative spread about its usual level, the tail's share, and memory.

    Spread is a robust standard deviation of log(step / usual level); memory its correlation from one step to the
    next, the tail cut off.
    """
    found: Samples = defaultdict(list)
    for raw in series:
        values = raw[np.isfinite(raw) & (raw > 0)][START_UP:]
        if len(values) < MIN_VALUES:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, SIDE, mode="edge"), 2 * SIDE + 1)
        logs = np.log(values / np.median(windows, axis=1))
        spread = 1.4826 * float(np.median(np.abs(logs - np.median(logs))))
        found["spread"].append(spread)
        found[f"share over {TAIL_RATIO}x"].append(float((logs > np.log(TAIL_RATIO)).mean()))
        kept = np.clip(logs, -3 * spread, 3 * spread)
        if kept.std() > 0:
            found["memory (lag 1, share)"].append(float(np.corrcoef(kept[1:], kept[:-1])[0, 1]))
    return dict(found)


def phase_shares(records: Iterable[RankRecords]) -> Samples:
    """Of each rank and step: the share of the step that its phases take, calls of all kinds as one."""
    found: Samples = defaultdict(list)
    for one in records:
        length = dict(zip(one.steps["step"].tolist(), _lengths(one), strict=True))
        outer = one.phases[one.phases["depth"] == 0]
        sums: dict[tuple[int, str], float] = defaultdict(float)
        for step, name, dur in zip(
            outer["step"].tolist(), outer["name"].tolist(), outer["dur_ns"].tolist(), strict=True
        ):
            phase = one.names[name]
            sums[step, "calls" if phase in WAITED_PHASES else phase] += dur
        for (step, phase), total in sums.items():
            if length.get(step, 0) > 0 and phase in ("forward", "backward", "calls", "optimizer"):
                found[phase].append(total / length[step])
    return dict(found)


def _lengths(one: RankRecords) -> list[float]:
    return [float(value) for value in one.steps["end_ns"] - one.steps["start_ns"]]


def call_waits(records: Sequence[RankRecords]) -> Samples:
    """Of each rank and collective: the share of its time in the call that it waits for the last to enter."""
    calls: dict[tuple[str, str, int, int], list[tuple[int, int]]] = defaultdict(list)
    sizes = {group.name: len(group.ranks) for one in records for group in one.layout.groups}
    for one in records:
        for row in one.collectives:
            op, group = one.names[int(row["op"])], one.names[int(row["group"])]
            if op not in ("send", "recv"):
                key = (op, group, int(row["step"]), int(row["seq"]))
                calls[key].append((int(row["entry_ns"]), int(row["end_ns"])))
    found: Samples = defaultdict(list)
    for (op, group, _, _), times in calls.items():
        if len(times) < 2 or len(times) != sizes.get(group, len(times)):
            continue
        entry, end = np.array(times, np.float64).T
        waited = (entry.max() - entry) / np.maximum(end.max() - entry, 1.0)
        found[op] += [float(value) for value in np.clip(waited, 0.0, 1.0)]
    return dict(found)


def kernel_scatter(records: Iterable[RankRecords]) -> Samples:
    """Of each mode of each kernel on each rank: spread of its launches, as sigma of a log-normal, by kind."""
    found: Samples = defaultdict(list)
    for one in records:
        if not len(one.kernels):
            continue
        summary = compress(one.kernels, names=one.names, rank=one.layout.rank)
        for row in summary.clusters:
            name, role = summary.kernels[int(row["kernel"])]
            if row["count"] >= MIN_LAUNCHES and row["p50_ns"] > 0:
                sigma = float(np.log(max(row["p99_ns"] / row["p50_ns"], 1.0))) / Z99
                found[kind_of(name, role)].append(sigma)
    return dict(found)


def transformer_kernels(records: RankRecords, *, rng: np.random.Generator, num_steps: int = 1) -> RankRecords:
    """A rank whose kernels are those of a dense transformer in full, thousands of launches a step."""
    rows, names = launches(dense(), rng, num_steps=num_steps)
    return RankRecords(layout=records.layout, names=names, kernels=rows)


def job_series(jobs: Iterable[Simulation]) -> Iterator[Floats]:
    """The slowest rank's time of every step, marked steps as NaN."""
    for done in jobs:
        slowest = (done.end_s - done.start_s).max(axis=1)
        marked = np.zeros(len(slowest), np.bool_)
        for pauses in done.costs.pauses.values():
            marked |= (pauses > 0).any(axis=1)
        yield np.where(marked, np.nan, slowest)
