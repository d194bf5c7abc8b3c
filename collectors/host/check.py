"""Turn the frames of one rank into records that can be trusted to be well-formed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argus.collectors.host.names import NameTable, Translation
from argus.collectors.records.errors import WireError
from argus.collectors.records.events import Rows
from argus.collectors.records.frames import ROW_KINDS, Frame, Kind
from argus.collectors.records.heartbeat import MAX_GROUPS, Status
from argus.collectors.records.layout import Layout

MAX_STEP = 1 << 53
"""Steps and counts stay exact in JSON."""

MAX_AHEAD_STEPS = 100_000
"""How far a row may run ahead of the steps this connection finished: a minute of absence at 1 ms a step."""

MAX_SPAN_STEPS = 20_000
"""Steps one frame may span; a frame holds about a second."""

MAX_NS = 1 << 62
MAX_DUR_NS = 1 << 53
"""A duration of 104 days; keeps sums over a window inside int64."""

MAX_REASONS = 64
"""Reasons for which a rank may have lost records: each of its collectors may have failed, and some ten more."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One frame's content after the checks; `frame` is what a recording keeps, None if nothing is left."""

    kind: Kind
    frame: Frame | None = None
    layout: Layout | None = None
    status: Status | None = None
    drops: Mapping[str, int] | None = None
    note: str = ""


def first_layout(frame: Frame) -> Layout:
    """The layout every stream begins with. Raises WireError."""
    if frame.kind != Kind.LAYOUT:
        raise WireError(f"a stream begins with LAYOUT, got {frame.kind.name}")
    return Layout.from_json(frame.body)


class Checker:
    """Checks the frames of one connection. `rejected` counts the rows it refused, by reason."""

    def __init__(self, layout: Layout, *, names: NameTable) -> None:
        self._layout = layout
        self._names = names
        self._translation = Translation(names)
        self._high: int | None = None
        self.rejected: Counter[str] = Counter()

    def check(self, frame: Frame) -> Checked:
        """What `frame` says. Raises WireError if the stream cannot be trusted further."""
        if frame.rows is not None:
            return self._rows(frame.kind, frame.rows)
        return self._json(frame.kind, frame.body or {})

    def _json(self, kind: Kind, body: dict[str, Any]) -> Checked:
        match kind:
            case Kind.LAYOUT:
                layout = self._same_rank(Layout.from_json(body))
                return Checked(kind=kind, layout=layout, frame=Frame(kind=kind, body=layout.to_json()))
            case Kind.STRINGS:
                return self._strings(body)
            case Kind.STATUS:
                status = parse_status(body)
                self._advance(status.step)
                return Checked(kind=kind, status=status, frame=Frame(kind=kind, body=status.to_json()))
            case Kind.DROPS:
                drops = parse_counts(body)
                return Checked(kind=kind, drops=drops, frame=Frame(kind=kind, body=dict(drops)))
            case Kind.NOTE:
                return self._note(body)
            case Kind.HOST | Kind.STACKS:
                raise WireError(f"{kind.name} is the host's to say, no rank's")
            case _:
                return Checked(kind=kind, frame=Frame(kind=kind, body={}))

    def _same_rank(self, layout: Layout) -> Layout:
        mine, other = ((x.run, x.attempt, x.rank) for x in (self._layout, layout))
        if mine != other:
            raise WireError(f"a connection is one rank of one attempt: was {mine}, became {other}")
        return layout

    def _strings(self, body: dict[str, Any]) -> Checked:
        before = len(self._names)
        self._translation.extend(body.get("first"), body.get("names"))
        new = self._names.since(before)
        frame = Frame(kind=Kind.STRINGS, body={"first": before, "names": new}) if new else None
        return Checked(kind=Kind.STRINGS, frame=frame)

    def _note(self, body: dict[str, Any]) -> Checked:
        note = body.get("unseen")
        if not isinstance(note, str):
            raise WireError("note.unseen must be a string")
        note = note[:1024].encode("utf-8", "replace").decode()
        return Checked(kind=Kind.NOTE, note=note, frame=Frame(kind=Kind.NOTE, body={"unseen": note}))

    def _rows(self, kind: Kind, rows: Rows) -> Checked:
        name = ROW_KINDS[kind]
        rows = self._keep(rows, self._steps_in_range(rows), "bad_step")
        rows = self._keep(rows, SOUND[name](rows), "bad_value")
        rows = self._keep(rows, self._translation.known(name, rows), "bad_name")
        if not len(rows):
            return Checked(kind=kind)
        if kind == Kind.STEPS:
            self._advance(int(rows["step"].max()))
        return Checked(kind=kind, frame=Frame(kind=kind, rows=self._translation.translate(name, rows)))

    def _keep(self, rows: Rows, mask: NDArray[np.bool_], reason: str) -> Rows:
        if mask.all():
            return rows
        kept = rows[mask]
        self.rejected[reason] += len(rows) - len(kept)
        return kept

    def _steps_in_range(self, rows: Rows) -> NDArray[np.bool_]:
        steps = rows["step"]
        mask = (steps >= 0) & (steps < MAX_STEP)
        if not mask.any():
            return mask
        anchor = self._high if self._high is not None else int(steps[mask].min())
        mask &= steps <= anchor + MAX_AHEAD_STEPS
        mask &= steps < int(steps[mask].min(initial=MAX_STEP)) + MAX_SPAN_STEPS
        return np.asarray(mask, np.bool_)

    def _advance(self, step: int) -> None:
        self._high = step if self._high is None else max(self._high, step)


def parse_status(body: object) -> Status:
    """A STATUS body with bounded numbers. Raises WireError."""
    status = Status.from_json(body)
    numbers = (status.ts_ns, status.phase_since_ns, status.step_since_ns, status.step_p50_ns)
    if not all(-MAX_NS <= n <= MAX_NS for n in numbers) or not -1 <= status.step < MAX_STEP:
        raise WireError(f"status of step {status.step!r:.40}: out of range")
    if len(status.groups) > MAX_GROUPS:
        raise WireError(f"status of {len(status.groups)} groups, the limit is {MAX_GROUPS}")
    if not all(0 <= n < MAX_STEP for pair in status.groups.values() for n in pair):
        raise WireError("status.groups must map a group to two counts")
    return replace(status, groups=dict(status.groups))


def parse_counts(body: Mapping[str, Any]) -> dict[str, int]:
    """A DROPS body. Raises WireError."""
    if len(body) > MAX_REASONS:
        raise WireError(f"drops for {len(body)} reasons, the limit is {MAX_REASONS}")
    if not all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < MAX_STEP for v in body.values()):
        raise WireError("drops must map reasons to counts")
    return {reason[:64].encode("utf-8", "replace").decode(): count for reason, count in body.items()}


def _spans(rows: Rows, start: str, *durations: str) -> NDArray[np.bool_]:
    mask = (rows[start] >= 0) & (rows[start] < MAX_NS)
    for column in durations:
        # CPU time is -1 where it could not be observed.
        mask &= (rows[column] >= (-1 if column == "cpu_ns" else 0)) & (rows[column] < MAX_DUR_NS)
    return np.asarray(mask, np.bool_)


def _sound_steps(rows: Rows) -> NDArray[np.bool_]:
    mask = _spans(rows, "start_ns", "cpu_ns") & (rows["end_ns"] < MAX_NS) & (rows["user_step"] < MAX_STEP)
    return np.asarray(mask & (rows["end_ns"] >= rows["start_ns"]) & (rows["user_step"] >= -1), np.bool_)


def _sound_phases(rows: Rows) -> NDArray[np.bool_]:
    return np.asarray(
        _spans(rows, "start_ns", "dur_ns", "wait_ns", "cpu_ns") & (rows["clock"] <= 1), np.bool_
    )


def _sound_collectives(rows: Rows) -> NDArray[np.bool_]:
    mask = _spans(rows, "entry_ns", "blocked_ns", "cpu_ns") & (rows["end_ns"] < MAX_NS)
    mask &= (rows["end_ns"] >= rows["entry_ns"]) & (rows["bytes"] >= 0)
    return np.asarray(mask & (rows["seq"] >= 0) & (rows["seq"] < MAX_STEP) & (rows["peer"] >= -1), np.bool_)


def _sound_kernels(rows: Rows) -> NDArray[np.bool_]:
    mask = _spans(rows, "start_ns", "dur_ns") & _spans(rows, "launch_ns")
    return np.asarray(mask & (rows["seq"] >= 0) & (rows["seq"] < MAX_STEP), np.bool_)


def _sound_events(rows: Rows) -> NDArray[np.bool_]:
    return np.asarray(_spans(rows, "start_ns", "dur_ns") & np.isfinite(rows["value"]), np.bool_)


SOUND: Mapping[str, Callable[[Rows], NDArray[np.bool_]]] = {
    "steps": _sound_steps,
    "phases": _sound_phases,
    "collectives": _sound_collectives,
    "kernels": _sound_kernels,
    "events": _sound_events,
}
"""Which rows of a kind hold possible values; each returns shape (row,)."""
