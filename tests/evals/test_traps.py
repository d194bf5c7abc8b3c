"""The traps of the incident log (what a naive rule would say), each as a job that sets it.

Trap 9, milliwatts with a W behind them, is set for the reader of training logs (tests/collectors/readers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.clocks import align
from argus.analytics.digest import digest_of
from argus.analytics.incident import Incident
from argus.analytics.waits import waits_of
from argus.analytics.window import Window, assemble
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.plan import WindowPlan
from argus.evals.play import Played, play
from argus.evals.scenarios import scenarios
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import Simulation, simulate
from argus.topology.layout import build

DATA = Job(ranks=8, steps=120)
MESH = Job(ranks=32, tp=2, pp=2, ep=4, micro_batches=4, steps=110)


def done(job: Job, *faults: Fault, seed: int = 1) -> Simulation:
    return simulate(job, faults, rng=np.random.default_rng(seed))


def run(job: Job, *faults: Fault, events: Sequence[OutsideEvent] = ()) -> Played:
    return play(done(job, *faults), events=events)


def window(simulation: Simulation, index: int) -> Window:
    parts = next(closed.parts for closed in simulation.windows(WindowPlan()) if closed.index == index)
    return assemble(parts, build(simulation.layouts))


def accused(incidents: Sequence[Incident]) -> set[int]:
    return {rank for incident in incidents for rank in incident.cause.suspects}


def slow(*ranks: int, severity: float = 1.4, **more: object) -> Fault:
    return Fault(kind="compute", ranks=ranks, severity=severity, start_step=60, **more)  # type: ignore[arg-type]


def test_trap_1_the_straggler_has_the_shortest_collective() -> None:
    """Longest collective = bad accuses everybody else."""
    simulation = done(DATA, slow(5))
    seen = window(simulation, 8).collectives
    lasted = [(seen.end_s - seen.entry_s)[seen.rank == rank].sum() for rank in range(8)]
    assert int(np.argmin(lasted)) == 5 and int(np.argmax(lasted)) != 5
    assert accused(play(simulation).incidents) == {5}


@pytest.mark.slow
def test_trap_2_more_than_half_of_the_ranks_slow() -> None:
    """Quartiles, medians and z-scores over the ranks find nobody."""
    job = replace(DATA, ranks=16)
    many = tuple(range(10))
    simulation = done(job, slow(*many))
    own = digest_of(window(simulation, 8)).own_s
    low, middle, high = np.quantile(own, [0.25, 0.5, 0.75])
    assert own.max() < high + 1.5 * (high - low) and own.max() < 1.2 * middle
    assert accused(play(simulation).incidents) == set(many)


@pytest.mark.slow
def test_trap_3_totals_are_equal_over_the_stages() -> None:
    """A sync at the end makes all steps equally long, whoever was slow."""
    job = Job(ranks=16, pp=4, micro_batches=8, steps=110)
    simulation = done(job, slow(13, severity=1.5, phase="backward"))
    seen = window(simulation, 8)
    totals = seen.dur_s.sum(axis=0).mean(axis=1)
    assert totals.max() < 1.01 * totals.min()
    assert accused(play(simulation).incidents) == {13}


@pytest.mark.slow
def test_trap_4_rare_spikes_vanish_in_means() -> None:
    rare = [
        Fault(kind="compile", ranks=(rank,), severity=6.0, start_step=step, end_step=step + 1)
        for step, rank in ((45, 3), (56, 6), (74, 1), (83, 7), (101, 4))
    ]
    played = run(DATA, *rare)
    assert {i.cause.fault_class for i in played.incidents} == {"host.jit"} and not accused(played.incidents)
    spikes = {f.start_step for f in played.findings if f.kind == "spike"}
    assert {56, 74, 83, 101} <= spikes


@pytest.mark.slow
def test_trap_5_two_periodic_marks_on_one_step_hide_no_fault_and_are_none() -> None:
    both = replace(DATA, checkpoint_every=20, eval_every=20, checkpoint_s=3.0)
    assert not run(both).incidents
    assert accused(run(both, slow(2)).incidents) == {2}


@pytest.mark.slow
def test_trap_6_time_that_moved_on_to_the_next_call_names_nobody() -> None:
    """Without one sync the wait shows in the next call: the same lateness, another phase, no new culprit."""
    moved = [run(replace(DATA, buckets=buckets), slow(5)) for buckets in (1, 4)]
    assert [accused(played.incidents) for played in moved] == [{5}, {5}]
    seen = window(done(DATA, slow(5)), 8)
    waits = waits_of(seen)
    grad_sync = seen.wait_s[seen.phases.index("backward")].mean(axis=1)
    assert int(grad_sync.argmin()) == 5 and int(waits.late_s.argmax()) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "node", "text"),
    [
        ("power_cap", "host:h-0000", "SW_POWER_CAP active on GPU 3"),
        ("pcie_gen", "host:h-0000", "GPU 3 link at Gen1"),
        ("ecc", "host:h-0000", "12 correctable ECC errors, none new"),
    ],
)
def test_trap_7_a_counter_alone_accuses_nobody(kind: str, node: str, text: str) -> None:
    event = OutsideEvent(time_s=20.0, node=node, source="dcgm", text=text, kind=kind)
    assert not run(DATA, events=[event]).incidents


@pytest.mark.slow
def test_trap_8_clocks_apart_say_so_and_accuse_nobody() -> None:
    """Entries of two hosts whose clocks are seconds apart look like a rank that is seconds late."""
    job = replace(DATA, ranks_per_host=4)
    jump = Fault(kind="clock_jump", ranks=(4, 5, 6, 7), severity=11.56, start_step=60)
    simulation = done(job, jump)
    raw, aligned = window(simulation, 8), align(window(simulation, 8))
    rows = raw.collectives
    far = [np.ptp(rows.entry_s[rows.call == call]) for call in np.unique(rows.call)[:20]]
    assert min(far) > 11
    assert aligned.clock_method == "collective ends" and aligned.clock_residual_s < 0.01
    assert not play(simulation).incidents


@pytest.mark.slow
def test_trap_10_a_job_that_starts_cold_accuses_no_machine() -> None:
    """A spare that joined cold compiles and fills caches in its first steps, longer than its peers."""
    cold = Fault(kind="compute", ranks=(5,), severity=3.0, start_step=0, end_step=12)
    assert not run(replace(DATA, attempt=1), cold).incidents


@pytest.mark.slow
def test_trap_11_one_fault_seen_through_four_kinds_of_groups_is_one_incident() -> None:
    simulation = done(MESH, slow(13, severity=1.5))
    kinds = {kind for kind, groups in shape_of(MESH).groups.items() if 13 in groups.members}
    assert {"tp", "dp", "ep", "pp"} <= kinds
    (incident,) = play(simulation).incidents
    assert incident.cause.suspects == (13,) and incident.cause.fault_class == "compute.slow"


@pytest.mark.slow
def test_trap_12_a_slow_pair_is_a_path_and_a_host_in_all_slow_pairs_is_that_host() -> None:
    job = Job(ranks=16, pp=4, micro_batches=8, steps=110, ranks_per_host=4)
    pair = Fault(kind="link", group="pp", ranks=(5, 9), severity=1.6, start_step=60)
    found = run(job, pair).incidents
    assert found and {i.cause.fault_class for i in found} == {"link.slow"}
    assert accused(found) <= {1, 5, 9, 13}


@pytest.mark.slow
def test_trap_13_a_withdrawn_theory_stays_on_record_and_the_new_one_opens() -> None:
    """First a stage seems slow; once the fault moves to another rank the old incident closes."""
    first = Fault(kind="compute", ranks=(2,), severity=1.4, start_step=40, end_step=70)
    second = Fault(kind="data", ranks=(6,), severity=1.4, start_step=80)
    one, other = run(DATA, first, second).incidents
    assert one.cause.suspects == (2,) and one.status == "resolved" and one.end_step is not None
    assert other.cause.suspects == (6,) and other.cause.fault_class == "data.slow_loader"
    assert one.end_step < other.onset_step + 10


@pytest.mark.slow
def test_fixture_i1_a_periodic_stall_of_the_loader_is_the_loaders() -> None:
    stall = Fault(kind="data", ranks=(3,), severity=2.0, start_step=60, every=3)
    found = run(DATA, stall).incidents
    assert accused(found) == {3} and {i.cause.fault_class for i in found} == {"data.slow_loader"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper_port_down"])
def test_the_alert_about_a_port_does_not_make_it_the_network(name: str) -> None:
    made = scenarios()[name](seed=0, ranks=16)
    simulation = simulate(made.job, made.faults, rng=np.random.default_rng(0))
    found = play(simulation, events=made.events).incidents
    assert accused(found) == set(made.truth.ranks)
    assert {i.cause.fault_class for i in found} == {"compute.slow"}
