"""Jobs that are damaged, not sick: missing ranks, restarts, late joiners, clock jumps, shrinking, garbage rows.

Whatever arrives: no exception, and nobody is accused who is not slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.clocks import align
from argus.analytics.incident import Incident
from argus.analytics.window import Bools, assemble
from argus.collectors.records.events import Rows
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import RankWindow
from argus.evals.simulator.job import Fault
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build
from tests.analytics.mesh_kit import mesh

NUM_WINDOWS, NUM_STEPS = 6, 6
MESH = mesh(ranks=32, tp=4, pp=2, micro_batches=2)
CULPRIT = 13

Damage = Callable[[int, Sequence[RankWindow], np.random.Generator], Sequence[RankWindow]]
"""Window number, what came of it, a generator → what is left of it."""


def played(damages: Sequence[Damage], *, seed: int, slow: float = 1.0) -> tuple[Incident, ...]:
    """Incidents of a mesh whose windows were damaged; the culprit slows down after two windows."""
    rng = np.random.default_rng(seed)
    job = replace(MESH, steps=NUM_WINDOWS * NUM_STEPS)
    faults = [Fault(kind="compute", ranks=(CULPRIT,), severity=slow, start_step=2 * NUM_STEPS)]
    done = simulate(job, faults if slow > 1.0 else (), rng=rng)
    topology, state = build(done.layouts), AttemptState.start(MESH.run, 0)
    for number, whole in enumerate(done.windows(WindowPlan(first=NUM_STEPS))):
        parts: Sequence[RankWindow] = whole.parts
        for damage in damages:
            parts = damage(number, parts, rng)
        if parts:
            state = advance(
                state, topology=topology, now_s=0.0, window=align(assemble(parts, topology))
            ).state
    return state.incidents


def missing(*ranks: int) -> Damage:
    """These ranks never report."""
    return lambda number, parts, rng: [part for part in parts if part.rank not in ranks]


def late(*ranks: int) -> Damage:
    """These ranks join in the third window."""
    return lambda number, parts, rng: [part for part in parts if number >= 2 or part.rank not in ranks]


def shrinks(number: int, parts: Sequence[RankWindow], rng: np.random.Generator) -> Sequence[RankWindow]:
    """From the fourth window on the last replica of every stage is gone."""
    return [part for part in parts if number < 3 or part.rank % 16 < 12]


def restart(number: int, parts: Sequence[RankWindow], rng: np.random.Generator) -> Sequence[RankWindow]:
    """The first steps of the fourth window never happened; the others have new sequence numbers."""
    if number != 3:
        return parts
    first = parts[0].first_step + 2
    return [
        replace(_kept(part, lambda rows: rows["step"] >= first), collectives=_fresh(part, first))
        for part in parts
    ]


def _fresh(part: RankWindow, first: int) -> Rows:
    rows = part.collectives[part.collectives["step"] >= first].copy()
    for group in np.unique(rows["group"]):
        mine = rows["group"] == group
        rows["seq"][mine] -= rows["seq"][mine].min()
    return rows


def torn(number: int, parts: Sequence[RankWindow], rng: np.random.Generator) -> Sequence[RankWindow]:
    """A tenth of the ranks have lost a step or two of some windows."""
    if number % 2:
        return parts
    hit = set(rng.choice(len(parts), max(len(parts) // 10, 1), replace=False).tolist())
    lost = parts[0].first_step + int(rng.integers(NUM_STEPS))
    return [
        _kept(part, lambda rows: rows["step"] != lost) if n in hit else part for n, part in enumerate(parts)
    ]


def _kept(part: RankWindow, chosen: Callable[[Rows], Bools]) -> RankWindow:
    names = ("steps", "cells", "collectives")
    return replace(part, **{name: getattr(part, name)[chosen(getattr(part, name))] for name in names})


def jumps(seconds: float) -> Damage:
    """In the fourth window the clock of one host is set in the middle of a step."""

    def damage(number: int, parts: Sequence[RankWindow], rng: np.random.Generator) -> Sequence[RankWindow]:
        return [_jumped(part, seconds) if number == 3 and part.rank // 4 == 2 else part for part in parts]

    return damage


def _jumped(part: RankWindow, seconds: float) -> RankWindow:
    steps, rows = part.steps.copy(), part.collectives.copy()
    middle = int(steps["start_ns"][NUM_STEPS // 2] + steps["end_ns"][NUM_STEPS // 2]) // 2
    for table, columns in ((steps, ("start_ns", "end_ns")), (rows, ("entry_ns", "end_ns"))):
        for column in columns:
            table[column][table[column] > middle] += int(seconds * 1e9)
    return replace(part, steps=steps, collectives=rows)


def garbage(number: int, parts: Sequence[RankWindow], rng: np.random.Generator) -> Sequence[RankWindow]:
    """Rows that no collector should send: twice the same, ending before they begin, of unknown names and peers."""
    if number < 2 or not parts:
        return parts
    victim = int(rng.integers(len(parts)))
    rows = parts[victim].collectives.copy()
    if not len(rows):
        return parts
    some = rng.choice(len(rows), max(len(rows) // 8, 1), replace=False)
    for column, value in (
        ("end_ns", 0),
        ("op", 4_000_000_000),
        ("group", 77_777),
        ("peer", 9_999),
        ("seq", -5),
    ):
        rows[column][some[rng.random(len(some)) < 0.3]] = value
    broken = replace(parts[victim], collectives=np.concatenate([rows, rows[:3]]))
    return [broken if n == victim else part for n, part in enumerate(parts)]


DAMAGES: dict[str, Damage] = {
    "missing": missing(5, 22),
    "late": late(3, 30),
    "shrinks": shrinks,
    "restart": restart,
    "torn": torn,
    "jumps": jumps(7.0),
    "jumps back": jumps(-3.0),
    "garbage": garbage,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_job_accuses_nobody(name: str) -> None:
    assert played([DAMAGES[name]], seed=1) == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DAMAGES if name != "shrinks"])
def test_a_slow_rank_is_still_the_only_one_accused(name: str) -> None:
    incidents = played([DAMAGES[name]], seed=2, slow=1.5)
    assert [incident.cause.suspects for incident in incidents] == [(CULPRIT,)]


@pytest.mark.slow
@given(
    names=st.lists(st.sampled_from(sorted(DAMAGES)), min_size=2, max_size=4, unique=True),
    seed=st.integers(0, 10**6),
    slow=st.sampled_from([1.0, 1.5]),
)
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_several_damages_at_once_raise_nothing_and_accuse_no_other(
    names: list[str], seed: int, slow: float
) -> None:
    incidents = played([DAMAGES[name] for name in names], seed=seed, slow=slow)
    accused = {rank for incident in incidents for rank in incident.cause.suspects}
    assert accused <= ({CULPRIT} if slow > 1.0 else set())
