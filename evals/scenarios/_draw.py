"""What every scenario draws alike: the kind of job, the culprit, the onset."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from argus.evals.simulator.groups import layouts, shape_of
from argus.evals.simulator.job import QUIET, SCHEDULES, SHARED, Fault, Job
from argus.evals.truth import Scenario, Truth
from argus.topology.layout import build

STEPS = 200
ONSET = (60, 120)
"""After a baseline of some windows of 10 steps, with more than 10 windows left."""

END_STEP = 180
"""The last two windows are healthy again."""

SHARED_SEVERITY = 1.4
"""On shared CPU cores a smaller fault is inside the natural spread, so those trials get quiet GPUs."""

SHARED_RANKS = 8
"""More ranks than this do not share a machine's cores."""

STAGES = 4
MICRO_BATCHES = 8
"""Of a drawn pipeline: bubbles take a quarter of the step."""

RESTART_STEPS = 120
"""Of an attempt that was stopped to start the next one."""

EXPERT_RANKS = 8
"""Ranks an expert layer is spread over."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A job with one rank and one onset picked from it."""

    job: Job
    rank: int
    onset_step: int

    def scenario(
        self, fault_class: str, *, kind: str, severity: float, end_step: int | None = END_STEP
    ) -> Scenario:
        """The trial in which that rank has a fault of `kind` from the onset on."""
        fault = Fault(kind=kind, ranks=(self.rank,), severity=severity)
        return self.with_fault(fault_class, fault, end_step=end_step)

    def with_fault(
        self,
        fault_class: str,
        fault: Fault,
        *,
        scope: str = "",
        ranks: tuple[int, ...] | None = None,
        onset_step: int | None = None,
        end_step: int | None = END_STEP,
        exonerated: tuple[str, ...] = (),
    ) -> Scenario:
        """The trial with `fault` from the onset on; its truth is the fault's one rank unless said otherwise."""
        onset = self.onset_step if onset_step is None else onset_step
        timed = Fault(**{**vars(fault), "start_step": onset, "end_step": end_step})
        truth = Truth(
            fault_class=fault_class,
            ranks=fault.ranks if ranks is None else ranks,
            scope=scope or f"rank:{fault.ranks[0]}",
            onset_step=onset,
            end_step=end_step,
            exonerated=exonerated,
        )
        return Scenario(job=self.job, faults=(timed,), truth=truth)

    def path_truth(self, truth: Truth, kind: str) -> Truth:
        """The truth of a slow path: the rank's group of a kind is the scope, its members are the root set."""
        groups = shape_of(self.job).groups[kind]
        group = build(layouts(self.job)).named[self.rank, groups.name_of(self.rank)]
        return replace(truth, ranks=group.ranks, scope=f"group:{group.id}")

    def restarted(self, fault_class: str, fault: Fault, *, before: Job) -> Scenario:
        """The trial of a second attempt that is slower than the first as a whole."""
        made = self.with_fault(
            fault_class,
            fault,
            scope=f"run:{self.job.run}",
            ranks=(),
            onset_step=0,
            end_step=None,
            exonerated=("compute.slow", "link.slow", "step.slower"),
        )
        return replace(made, before=before)


def draw(*, seed: int, ranks: int, severity: float, wall_clock: bool = False) -> Draw:
    """A job of `ranks`: GPUs on hosts of 8, or CPU ranks that share one host if the fault is large enough."""
    rng = np.random.default_rng([seed, ranks])
    on_shared = ranks <= SHARED_RANKS and severity >= SHARED_SEVERITY and bool(rng.random() < 0.5)
    job = _shared(ranks) if on_shared else _cluster(rng, ranks, wall_clock=wall_clock)
    return _picked(rng, job)


def draw_cluster(*, seed: int, ranks: int) -> Draw:
    """A job on GPUs of their own without any tensor parallelism."""
    rng = np.random.default_rng([seed, ranks, 1])
    return _picked(rng, _gpus(rng, ranks, tp=1))


def draw_pipeline(*, seed: int, ranks: int, replicas: int | None = None, stages: int = STAGES) -> Draw:
    """A pipeline of `stages` or, for few ranks, as many as there are; the schedule is drawn.

    `replicas` None = all ranks that are left are replicas, else they are tensor-parallel.
    """
    rng = np.random.default_rng([seed, ranks, 2])
    pp = min(stages, ranks)
    tp = 1 if replicas is None else max(ranks // (pp * replicas), 1)
    schedule = str(rng.choice(SCHEDULES))
    plain = _gpus(rng, ranks, tp=1)
    job = Job(
        **{
            **vars(plain),
            "pp": pp,
            "tp": tp,
            "micro_batches": MICRO_BATCHES,
            "schedule": schedule,
            "virtual": 2 if schedule == "interleaved" else 1,
        }
    )
    return _picked(rng, job)


def draw_experts(*, seed: int, ranks: int, tells_work: bool = True) -> Draw:
    """A mixture of experts with even routing but for a little."""
    rng = np.random.default_rng([seed, ranks, 3])
    ep = min(EXPERT_RANKS, ranks)
    plain = _gpus(rng, ranks, tp=1)
    job = Job(**{**vars(plain), "ep": ep, "routing_spread": 0.02, "tells_work": tells_work})
    return _picked(rng, job)


def draw_tensor(*, seed: int, ranks: int) -> Draw:
    """Tensor parallelism of four on hosts of eight, or of two where that would leave no replica."""
    rng = np.random.default_rng([seed, ranks, 10])
    return _picked(rng, _gpus(rng, ranks, tp=_part(ranks)))


def draw_context(*, seed: int, ranks: int) -> Draw:
    """Context parallelism of four or two."""
    rng = np.random.default_rng([seed, ranks, 11])
    return _picked(rng, replace(_gpus(rng, ranks, tp=1), cp=_part(ranks)))


def draw_loop(*, seed: int, ranks: int, spread: float) -> Draw:
    """A loop of reinforcement learning: generating takes as long as training, by `spread` longer or shorter."""
    rng = np.random.default_rng([seed, ranks, 12])
    job = replace(_gpus(rng, ranks, tp=1), rollout_ratio=1.0, rollout_spread=spread)
    return _picked(rng, job)


def draw_restart(*, seed: int, ranks: int, env: tuple[tuple[str, str], ...]) -> tuple[Draw, Job]:
    """A second attempt with `env` in its environment, and the first without it."""
    rng = np.random.default_rng([seed, ranks, 13])
    before = replace(_gpus(rng, ranks, tp=1), steps=RESTART_STEPS)
    lasted_s = 2 * before.steps * before.step_s
    job = replace(before, attempt=1, steps=STEPS, start_s=before.start_s + lasted_s, env=env)
    return _picked(rng, job), before


def _part(ranks: int) -> int:
    """Ranks a layer is split over so that two replicas are left."""
    return next((size for size in (4, 2) if ranks % size == 0 and ranks // size >= 2), 1)


def _picked(rng: np.random.Generator, job: Job) -> Draw:
    return Draw(job=job, rank=int(rng.integers(job.ranks)), onset_step=int(rng.integers(*ONSET)))


def _shared(ranks: int) -> Job:
    return Job(
        ranks=ranks, ranks_per_host=ranks, steps=STEPS, step_s=0.06, gpu=False, noise=SHARED, comm_ratio=0.25
    )


def _cluster(rng: np.random.Generator, ranks: int, *, wall_clock: bool) -> Job:
    return Job(
        ranks=ranks,
        tp=2 if ranks >= 8 and ranks % 2 == 0 and rng.random() < 0.3 else 1,
        steps=STEPS,
        step_s=float(rng.uniform(0.2, 1.5)),
        gpu=not wall_clock and bool(rng.random() < 0.7),
        noise=QUIET,
        checkpoint_every=int(rng.choice([0, 50])),
        clock_offset_s=0.001,
    )


def _gpus(rng: np.random.Generator, ranks: int, *, tp: int) -> Job:
    return Job(
        ranks=ranks,
        tp=tp,
        steps=STEPS,
        step_s=float(rng.uniform(0.2, 1.5)),
        noise=QUIET,
        checkpoint_every=int(rng.choice([0, 50])),
        clock_offset_s=0.001,
    )
