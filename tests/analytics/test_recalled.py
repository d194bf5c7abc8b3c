"""What is kept from window to window is used again only for the same, and nobody can write into it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

from argus.analytics.recalled import Recalled, recalled
from argus.analytics.waits import Waits, waits_of
from argus.analytics.window import Ints, Window, assemble
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import Topology, build


@dataclass(frozen=True)
class _Made:
    rows: Ints
    names: tuple[str, ...]


def _topology() -> Topology:
    return Topology(run="r", attempt=0, world_size=1)


def _windows(*, num: int, topology: Topology | None = None) -> tuple[list[Window], Topology]:
    """Windows of a pipeline whose rank 5 gets slow in the third of them."""
    job = Job(ranks=16, tp=2, pp=4, micro_batches=4, steps=num * 6, warmup_steps=0)
    fault = Fault(kind="compute", ranks=(5,), start_step=12, severity=2.0)
    done = simulate(job, [fault], rng=np.random.default_rng(3))
    topology = topology or build(done.layouts)
    return [assemble(closed.parts, topology) for closed in done.windows(WindowPlan(first=6))], topology


def _is_equal(one: Waits, other: Waits) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)
        for name in (
            "late_s",
            "habit_s",
            "waited_s",
            "votes",
            "guilty",
            "last_rank",
            "max_wait_s",
            "wait_s",
            "excess_s",
        )
    )


def test_the_same_is_made_once_and_something_else_anew() -> None:
    topology, made = _topology(), list[int]()

    def sum_of(*numbers: int) -> int:
        values = np.array(numbers)

        def make() -> int:
            made.append(1)
            return int(values.sum())

        return recalled(topology, "sum", (values, "x"), make)

    assert [sum_of(1, 2), sum_of(1, 2), len(made)] == [3, 3, 1]
    assert [sum_of(1, 3), sum_of(1, 2), len(made)] == [4, 3, 3]


@pytest.mark.parametrize(
    "other", [np.array([1.0, 2.0]), np.array([1, 2, 3]), np.array([[1, 2]]), "1 2", None]
)
def test_another_type_or_shape_is_something_else(other: object) -> None:
    topology = _topology()
    assert recalled(topology, "what", (np.array([1, 2]),), lambda: "first") == "first"
    assert recalled(topology, "what", (other,), lambda: "second") == "second"


def test_nobody_can_write_into_what_is_kept() -> None:
    topology, given = _topology(), np.array([1, 2])
    made = recalled(topology, "made", (given,), lambda: (_Made(np.array([3]), ("a",)), np.array([4])))
    for array in (given, made[0].rows, made[1]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


def test_what_may_not_be_kept_is_made_each_time() -> None:
    topology, made = _topology(), list[int]()
    for _ in range(2):
        recalled(topology, "once", (1,), lambda: made.append(1), keeps=lambda _: False)
    assert len(made) == 2


def test_a_copy_of_a_topology_knows_nothing() -> None:
    topology = _topology()
    recalled(topology, "what", (), lambda: np.zeros(1_000_000))
    copy = pickle.loads(pickle.dumps(topology))
    assert len(pickle.dumps(topology)) < 10_000
    assert recalled(copy, "what", (), lambda: "anew") == "anew"
    assert isinstance(pickle.loads(pickle.dumps(Recalled())), Recalled)


def test_windows_seen_one_after_another_are_as_if_each_were_the_first() -> None:
    windows, _ = _windows(num=5)
    after_others = [waits_of(window) for window in windows]
    alone = [waits_of(replace(window, topology=build_anew)) for window, build_anew in _anew(windows)]
    assert all(_is_equal(one, other) for one, other in zip(after_others, alone, strict=True))
    assert int(np.argmax(after_others[-1].late_s)) == 5


def test_calls_that_are_new_to_a_run_are_seen() -> None:
    """The second window lacks a rank, the third has it again, the fourth has its calls in another order."""
    job = Job(ranks=16, tp=2, pp=4, micro_batches=4, steps=24, warmup_steps=0)
    done = simulate(job, [], rng=np.random.default_rng(4))
    closed = [list(window.parts) for window in done.windows(WindowPlan(first=6))]
    closed[1] = closed[1][:-1]
    closed[3] = [*closed[3][:-1], replace(closed[3][-1], collectives=closed[3][-1].collectives[::-1].copy())]
    known = build(done.layouts)
    for parts in closed:
        got, wanted = (waits_of(assemble(parts, topology)) for topology in (known, build(done.layouts)))
        assert _is_equal(got, wanted)
        assert got.skipped == wanted.skipped


def test_groups_of_other_names_are_other_groups() -> None:
    """Of a group that nobody declared, as many members are waited for as were ever seen."""
    job = Job(ranks=16, tp=2, pp=4, micro_batches=4, steps=6, warmup_steps=0)
    done = simulate(job, [], rng=np.random.default_rng(5))
    (closed,) = done.windows(WindowPlan(first=6))
    known = build(done.layouts)
    window = assemble(closed.parts[:-1], known)
    renamed = replace(window, groups=tuple(f"other/{number}" for number in range(len(window.groups))))
    before, after = waits_of(window), waits_of(renamed)
    assert after.skipped == waits_of(replace(renamed, topology=build(done.layouts))).skipped
    assert after.skipped["member missing"] < before.skipped["member missing"]


def _anew(windows: list[Window]) -> list[tuple[Window, Topology]]:
    """Every window with a topology nobody has used."""
    return [(window, pickle.loads(pickle.dumps(window.topology))) for window in windows]
