"""Every GPU day by day: its own time per phase and kernel kind over that of ranks doing the same work."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from argus.analytics.detectors.l2_self_time import NOT_WORK
from argus.analytics.digest import FLOOR_SHARE
from argus.analytics.kernels.kinds import COMM, kind_of
from argus.analytics.kernels.table import dense, open_table
from argus.analytics.numbers import WindowNumbers
from argus.analytics.outside import unit_of
from argus.analytics.peers import across_models, classes_of_kind, peer_medians, work_classes
from argus.analytics.run_facts import KERNEL_CHUNK
from argus.analytics.window import Floats, Ints
from argus.topology.layout import Topology

DAY_S = 86_400

CLIP = math.log(2.0)
"""A window that is twice as slow or worse counts as twice: one long stop must not make a day."""

SCALES_WITH_WORK = ("forward", "backward")
"""Phases whose time is proportional to the units of work; the rest costs the same for any."""

OWN = "own"
"""Subject of all own work of a rank together."""


@dataclass(frozen=True, kw_only=True)
class UnitDays:
    """Rows to be added to the store, arrays of equal length: `sum_log` over `num` windows.

    `unit` indexes `units` = (host, device), `subject` indexes `subjects`.
    """

    units: tuple[tuple[str, str], ...]
    subjects: tuple[str, ...]
    unit: Ints
    subject: Ints
    day: Ints
    num: Ints
    sum_log: Floats

    def __len__(self) -> int:
        return len(self.day)


def day_of(time_s: float) -> int:
    """Day since 1970 in UTC."""
    return int(time_s // DAY_S)


@dataclass(kw_only=True)
class Rolling:
    """Windows of an attempt added up, day by day, not written anywhere yet."""

    topology: Topology
    totals: dict[tuple[str, int], tuple[Floats, Ints]] = field(default_factory=dict)

    def add(self, numbers: WindowNumbers, *, time_s: float) -> None:
        """Add a window that ended at a Unix time; ranks without peers or host are left out."""
        units, at = self._units
        place = np.array([at.get(int(rank), -1) for rank in numbers.ranks], np.int64)
        for subject, dev in _deviations(self.topology, numbers):
            key = (subject, day_of(time_s))
            sums, counts = self.totals.setdefault(key, (np.zeros(len(units)), np.zeros(len(units), np.int64)))
            here = np.isfinite(dev) & (place >= 0)
            np.add.at(sums, place[here], np.clip(dev[here], -CLIP, CLIP))
            np.add.at(counts, place[here], 1)

    def rows(self) -> UnitDays:
        """What was added, as rows for the store."""
        return _rows(self._units[0], self.totals)

    @cached_property
    def _units(self) -> tuple[tuple[tuple[str, str], ...], dict[int, int]]:
        return _units(self.topology)


def kernel_days(
    topology: Topology, blobs: Sequence[bytes], *, names: Mapping[int, str], time_s: float
) -> UnitDays:
    """Rows of one window's kernels, a subject for each kind. Raises WireError on a damaged blob."""
    table = open_table(blobs, texts=names)
    busy: dict[str, Floats] = {}
    for first in range(0, len(table.kernels), KERNEL_CHUNK):
        for kernel in dense(table, first, last=min(first + KERNEL_CHUNK, len(table.kernels))):
            kind = kind_of(table.text(kernel.key[0]), table.text(kernel.key[1]))
            if kind == COMM:
                continue
            mean = np.where(np.isfinite(kernel.log_mean), kernel.log_mean, kernel.log_p50)
            took = (kernel.count * np.exp(mean.astype(np.float64))).sum(axis=0)
            busy[kind] = busy.get(kind, np.zeros(len(table.ranks))) + took
    units, at = _units(topology)
    place = np.array([at.get(int(rank), -1) for rank in table.ranks], np.int64)
    total: dict[tuple[str, int], tuple[Floats, Ints]] = {}
    for kind, took in busy.items():
        seen = np.where(took > 0, took, np.nan)
        dev = np.log(seen / peer_medians(seen, classes_of_kind(topology, table.ranks, kind=kind)))
        here = np.isfinite(dev) & (place >= 0)
        sums, counts = np.zeros(len(units)), np.zeros(len(units), np.int64)
        np.add.at(sums, place[here], np.clip(dev[here], -CLIP, CLIP))
        np.add.at(counts, place[here], 1)
        total[f"kernel:{kind}", day_of(time_s)] = (sums, counts)
    return _rows(units, total)


def _deviations(topology: Topology, numbers: WindowNumbers) -> list[tuple[str, Floats]]:
    """Logarithm of own time over the peers', by subject, for each rank of the window."""
    classes = work_classes(topology, numbers.ranks)
    step_s = numbers.typical_step_s
    if step_s is None:
        return []
    floor = FLOOR_SHARE * step_s
    own = np.zeros(len(numbers.ranks))
    found = []
    for index, phase in enumerate(numbers.phases):
        if phase in NOT_WORK:
            continue
        mine = np.maximum(numbers.phase_s[index] - numbers.wait_s[index], 0.0)
        if phase in SCALES_WITH_WORK:
            mine = _per_work(mine, numbers.work, classes)
        own = own + mine
        found.append((f"phase:{phase}", mine))
    if found:
        found.append((OWN, own))
    return [(name, np.log((mine + floor) / (peer_medians(mine, classes) + floor))) for name, mine in found]


def _per_work(took: Floats, work: Floats, classes: Ints) -> Floats:
    """Time for the class's median amount of work, where every member of the class told its own."""
    result = took.copy()
    for number in np.unique(classes):
        members = classes == number
        if np.isfinite(work[members]).all():
            result[members] = took[members] * np.median(work[members]) / work[members]
    return result


def _units(topology: Topology) -> tuple[tuple[tuple[str, str], ...], dict[int, int]]:
    """The GPUs of ranks whose host is known, and each rank's place among them.

    A GPU that is compared with other models only is left out: what it differs by is not its own.
    """
    apart = across_models(topology)
    of = {
        rank: unit_of(topology, rank)
        for rank in topology.ranks
        if topology.host_of(rank) and rank not in apart
    }
    units = tuple(dict.fromkeys(of.values()))
    place = {unit: index for index, unit in enumerate(units)}
    return units, {rank: place[unit] for rank, unit in of.items()}


def _rows(
    units: tuple[tuple[str, str], ...], total: Mapping[tuple[str, int], tuple[Floats, Ints]]
) -> UnitDays:
    subjects = tuple(dict.fromkeys(subject for subject, _ in total))
    columns: list[list[Ints]] = [[], [], [], []]
    sums: list[Floats] = []
    for (subject, day), (logs, counts) in total.items():
        here = np.flatnonzero(counts)
        fixed = [np.full(len(here), value, np.int64) for value in (subjects.index(subject), day)]
        for column, part in zip(columns, (here, *fixed, counts[here]), strict=True):
            column.append(part)
        sums.append(logs[here])
    unit, which, days, num = (np.concatenate([np.empty(0, np.int64), *column]) for column in columns)
    return UnitDays(
        units=units,
        subjects=subjects,
        unit=unit,
        subject=which,
        day=days,
        num=num,
        sum_log=np.concatenate([np.empty(0), *sums]),
    )
