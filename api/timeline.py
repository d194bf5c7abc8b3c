"""Records of several ranks as one clock-aligned timeline for Perfetto."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from argus.analytics.clocks import align
from argus.analytics.window import assemble
from argus.api.lanes import lanes_of
from argus.api.perfetto import Slice, Track, Value, encode_trace
from argus.collectors.host.window import cut
from argus.collectors.records.events import CLOCK_GPU, RankRecords
from argus.collectors.records.plan import MAX_STEPS, WindowPlan
from argus.topology.layout import Topology, build

_ROOT = 1 << 20
"""Uuid distance between ranks: far more rows than one rank has."""


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """How the ranks came on one clock: nanoseconds to take from each rank's times."""

    method: str
    residual_us: float | None
    num_calls: int
    shift_ns: Mapping[int, int]


@dataclass(kw_only=True)
class _Rows:
    """The rows of one rank by name, made when first used."""

    root: int
    tracks: dict[str, Track] = field(default_factory=dict)

    def uuid(self, name: str) -> int:
        if name not in self.tracks:
            uuid = self.root + len(self.tracks) + 1
            self.tracks[name] = Track(uuid=uuid, name=name, parent=self.root)
        return self.tracks[name].uuid


def timeline(
    ranks: Sequence[RankRecords], *, stacks: Iterable[Mapping[str, Any]] = (), metadata: Mapping[str, Value]
) -> bytes:
    """A `.pftrace` of the ranks: one process each; rows for steps, phases, groups, kernels, stacks."""
    topology = build([records.layout for records in ranks])
    alignment = aligned(ranks, topology)
    tracks: list[Track] = []
    slices: list[Slice] = []
    dumps = list(stacks)
    for records in sorted(ranks, key=lambda records: records.layout.rank):
        rank = records.layout.rank
        rows = _Rows(root=(rank + 1) * _ROOT)
        mine = [dump for dump in dumps if dump.get("rank") == rank]
        slices += _rank_slices(records, rows, shift_ns=alignment.shift_ns.get(rank, 0), dumps=mine)
        tracks.append(Track(uuid=rows.root, name=_title(records, topology), pid=rank + 1))
        tracks += rows.tracks.values()
    told: dict[str, Value] = {
        **metadata,
        "argus-alignment-method": alignment.method,
        "argus-alignment-residual-us": "unknown" if alignment.residual_us is None else alignment.residual_us,
        "argus-alignment-n": alignment.num_calls,
    }
    return encode_trace(tracks, slices, metadata=told)


def aligned(ranks: Sequence[RankRecords], topology: Topology) -> Alignment:
    """Offsets from the ends of collectives; none where one window cannot hold the steps."""
    steps = np.concatenate([records.steps["step"] for records in ranks])
    if not len(steps) or int(steps.max()) - int(steps.min()) >= MAX_STEPS:
        return Alignment(method="none", residual_us=None, num_calls=0, shift_ns={})
    first = int(steps.min())
    plan = WindowPlan(first=int(steps.max()) - first + 1, origin=first)
    before = assemble([window for records in ranks for window in cut(records, plan)], topology)
    after = align(before)
    moved_s = before.collectives.entry_s - after.collectives.entry_s
    shift_ns = {
        rank: round(float(np.median(moved_s[before.collectives.rank == rank])) * 1e9)
        for rank in np.unique(before.collectives.rank).tolist()
    }
    residual = float(after.clock_residual_s) * 1e6
    return Alignment(
        method=after.clock_method,
        residual_us=residual if np.isfinite(residual) else None,
        num_calls=len(moved_s),
        shift_ns=shift_ns,
    )


def _title(records: RankRecords, topology: Topology) -> str:
    layout = records.layout
    coords = " ".join(f"{name}{index}" for name, index in topology.coordinates_of(layout.rank).items())
    parts = (f"rank {layout.rank}", layout.host, layout.device, coords)
    return " · ".join(part for part in parts if part)


def _rank_slices(
    records: RankRecords, rows: _Rows, *, shift_ns: int, dumps: Sequence[Mapping[str, Any]]
) -> list[Slice]:
    slices = [
        Slice(
            track=rows.uuid("steps"),
            name=f"step {step['step']}",
            start_ns=int(step["start_ns"]) - shift_ns,
            dur_ns=int(step["end_ns"] - step["start_ns"]),
            args={"user_step": int(step["user_step"]), "flags": int(step["flags"])},
        )
        for step in records.steps
    ]
    slices += _phases(records, rows, shift_ns=shift_ns)
    slices += _collectives(records, rows, shift_ns=shift_ns)
    slices += _kernels(records, rows, shift_ns=shift_ns)
    slices += _events(records, rows, shift_ns=shift_ns)
    return slices + _stacks(rows, dumps, shift_ns=shift_ns)


def _phases(records: RankRecords, rows: _Rows, *, shift_ns: int) -> list[Slice]:
    names = [
        "phases (gpu)" if row["clock"] == CLOCK_GPU else "phases" if row["depth"] == 0 else "phases, inside"
        for row in records.phases
    ]
    slices = [
        Slice(
            track=0,
            name=records.name(int(row["native"])) or records.name(int(row["name"])),
            start_ns=int(row["start_ns"]) - shift_ns,
            dur_ns=int(row["dur_ns"]),
            args={
                "phase": records.name(int(row["name"])),
                "step": int(row["step"]),
                "wait_us": int(row["wait_ns"]) // 1000,
                "cpu_us": int(row["cpu_ns"]) // 1000,
            },
        )
        for row in records.phases
    ]
    return _placed(slices, names, rows)


def _collectives(records: RankRecords, rows: _Rows, *, shift_ns: int) -> list[Slice]:
    groups = {group.name: group for group in records.layout.groups}
    names, slices = [], []
    for row in records.collectives:
        group = records.name(int(row["group"]))
        info, op = groups.get(group), records.name(int(row["op"]))
        desc, members = (info.desc or group, info.ranks) if info else (group, ())
        names.append(f"nccl {desc}")
        place = (desc, members, op, int(row["seq"]))
        slices.append(
            Slice(
                track=0,
                name=op,
                start_ns=int(row["entry_ns"]) - shift_ns,
                dur_ns=int(row["end_ns"] - row["entry_ns"]),
                args={
                    "seq": int(row["seq"]),
                    "bytes": int(row["bytes"]),
                    "step": int(row["step"]),
                    "peer": int(row["peer"]),
                    "blocked_us": int(row["blocked_ns"]) // 1000,
                },
                flow=_flow(place) if int(row["peer"]) < 0 else 0,
            )
        )
    return _placed(slices, names, rows)


def _kernels(records: RankRecords, rows: _Rows, *, shift_ns: int) -> list[Slice]:
    names = [f"{records.name(int(row['role'])) or 'kernels'} stream" for row in records.kernels]
    slices = [
        Slice(
            track=0,
            name=records.name(int(row["name"])),
            start_ns=int(row["start_ns"]) - shift_ns,
            dur_ns=int(row["dur_ns"]),
            args={"step": int(row["step"]), "phase": records.name(int(row["phase"]))},
        )
        for row in records.kernels
    ]
    return _placed(slices, names, rows)


def _events(records: RankRecords, rows: _Rows, *, shift_ns: int) -> list[Slice]:
    slices = [
        Slice(
            track=0,
            name=records.name(int(row["kind"])),
            start_ns=int(row["start_ns"]) - shift_ns,
            dur_ns=int(row["dur_ns"]),
            args={"value": float(row["value"]), "step": int(row["step"])},
        )
        for row in records.events
    ]
    return _placed(slices, ["runtime"] * len(slices), rows)


def _stacks(rows: _Rows, dumps: Sequence[Mapping[str, Any]], *, shift_ns: int) -> list[Slice]:
    return [
        Slice(
            track=rows.uuid("cpu stacks"),
            name=str(thread["stack"]).split(";")[-1] or f"{thread['kind']} {thread['state']}",
            start_ns=int(float(dump["ts_s"]) * 1e9) - shift_ns,
            dur_ns=None,
            args={
                "thread": f"{thread['kind']} {thread['name']}",
                "state": str(thread["state"]),
                "wchan": str(thread["wchan"]),
                "gil": int(thread["has_gil"]),
                "stack": str(thread["stack"]).replace(";", "\n"),
                "reason": str(dump["reason"]),
            },
        )
        for dump in dumps
        for thread in dump["threads"]
    ]


def _placed(slices: Sequence[Slice], names: Sequence[str], rows: _Rows) -> list[Slice]:
    """Each slice on the row of its name; those that would not nest go to a second row of that name."""
    placed = []
    for name in dict.fromkeys(names):
        mine = [item for item, other in zip(slices, names, strict=True) if other == name]
        spans = [(item.start_ns, item.start_ns + max(item.dur_ns or 0, 1)) for item in mine]
        for item, lane in zip(mine, lanes_of(spans), strict=True):
            track = rows.uuid(name if not lane else f"{name} #{lane + 1}")
            placed.append(
                Slice(
                    track=track,
                    name=item.name,
                    start_ns=item.start_ns,
                    dur_ns=item.dur_ns,
                    args=item.args,
                    flow=item.flow,
                )
            )
    return placed


def _flow(place: tuple[object, ...]) -> int:
    """The same number for the same call on every rank."""
    return int.from_bytes(hashlib.blake2b(repr(place).encode(), digest_size=8).digest(), "big") | 1
