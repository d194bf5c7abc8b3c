"""A simulated job as values: what it is, how noisy it is, what is done to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

SCHEDULES = ("1f1b", "interleaved", "zero_bubble")

FAULT_KINDS = (
    "compute",
    "starved",
    "throttled",
    "data",
    "copy",
    "gc",
    "link",
    "hang",
    "lost",
    "compile",
    "alloc",
    "work",
    "lengths",
    "routing",
    "slow_all",
    "rollout",
    "save",
    "gap",
    "clock_jump",
)
COMPUTE_PHASES = ("", "forward", "backward")


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Natural jitter, as shares of the work it acts on.

    `common` falls on all ranks of a step alike, `rank` on one segment of one rank, `spread` is a rank's
    lasting difference, `drift` a slow wander of about `drift_steps` steps, `daily` a wave of 24 hours over all
    ranks (heat). With `tail_probability` a segment takes `tail_ratio` × a Pareto draw longer. `work_share` of
    the jitter is work that also costs CPU time, the rest is time the thread did not run.
    """

    common: float = 0.01
    rank: float = 0.02
    spread: float = 0.005
    drift: float = 0.005
    drift_steps: int = 30
    daily: float = 0.0
    tail_probability: float = 0.0005
    tail_ratio: float = 0.3
    work_share: float = 0.5


QUIET = Noise()
"""A cluster of GPUs: 1 to 3 % a step."""

SHARED = Noise(
    common=0.08, rank=0.15, spread=0.02, drift=0.03, tail_probability=0.005, tail_ratio=0.5, work_share=0.2
)
"""Several ranks on few CPU cores: the worst of 4 ranks is up to 20 % over the median of a window of 10 steps."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training job on a parallel layout of Megatron's order: tp varies fastest, then cp, dp, pp.

    `step_s` is the work of one step of one rank without any communication; `comm_ratio` of it is what the
    gradient transfers of a step last together, `tp_comm_ratio`, `ep_comm_ratio` and `pp_comm_ratio` those of
    the other groups. With `pp` > 1 a step has `micro_batches` in the order of `schedule`, over `virtual` model
    chunks a stage; `stage_work` scales the compute of each stage. `ep` > 1 makes it a mixture of experts: every
    second piece of compute is an expert's, between two all-to-alls. `length_spread` is the spread of log
    sequence length from one micro-batch to the next, `routing_spread` that of an expert rank's share of
    tokens, which wanders; `tells_work` = the ranks report their work. `gpu` = phases are timed by the GPU's
    clock and the CPU only launches. `kernels` distinct kernels make up forward and backward, none = they are
    not observed. `rollout_ratio` > 0 makes it a loop of reinforcement learning: before its update each rank
    generates for so many `step_s`, by log-normal `rollout_spread` longer or shorter each time, all wait for the last,
    score what came, and hand out the new weights at the end. `env` is what every rank tells of its environment;
    `told_hosts` are the names of the hosts as the ranks tell them, () = the right ones. Times are Unix seconds.
    """

    run: str = "train"
    attempt: int = 0
    ranks: int = 8
    ranks_per_host: int = 8
    tp: int = 1
    cp: int = 1
    pp: int = 1
    ep: int = 1
    micro_batches: int = 1
    schedule: str = "1f1b"
    virtual: int = 1
    stage_work: tuple[float, ...] = ()
    steps: int = 200
    step_s: float = 0.4
    start_s: float = 1_700_000_000.0
    gpu: bool = True
    noise: Noise = QUIET
    comm_ratio: float = 0.1
    tp_comm_ratio: float = 0.06
    ep_comm_ratio: float = 0.08
    pp_comm_ratio: float = 0.02
    comm_noise: float = 0.05
    buckets: int = 4
    bucket_bytes: int = 25 << 20
    length_spread: float = 0.0
    routing_spread: float = 0.0
    tells_work: bool = False
    warmup_steps: int = 3
    checkpoint_every: int = 0
    checkpoint_s: float = 2.0
    eval_every: int = 0
    eval_s: float = 3.0
    gc_every: int = 20
    gc_pause_s: float = 0.002
    clock_offset_s: float = 0.0
    clock_drift: float = 0.0
    missing: tuple[int, ...] = ()
    lost_step_probability: float = 0.0
    kernels: int = 0
    rollout_ratio: float = 0.0
    rollout_spread: float = 0.3
    env: tuple[tuple[str, str], ...] = ()
    told_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        part = self.tp * self.cp * self.pp
        if self.ranks < 2 or part < 1 or self.ranks % part or (self.pp == 1 and self.ranks == part):
            raise ValueError(
                f"ranks must be a multiple of tp × cp × pp with at least two replicas or stages, got {self.ranks} "
                f"ranks, tp {self.tp}, cp {self.cp}, pp {self.pp}"
            )
        if self.steps < 1 or self.buckets < 1 or self.step_s <= 0 or self.micro_batches < 1:
            raise ValueError(
                f"steps, buckets, micro_batches and step_s must be positive, got {self.steps}, {self.buckets}, "
                f"{self.micro_batches}, {self.step_s}"
            )
        if self.told_hosts and len(self.told_hosts) != self.ranks:
            raise ValueError(
                f"told_hosts must name a host for each of {self.ranks} ranks, got {len(self.told_hosts)}"
            )
        self._check_pipeline()

    def _check_pipeline(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}")
        if self.virtual > 1 and (self.schedule != "interleaved" or self.micro_batches % self.pp):
            raise ValueError(
                f"virtual chunks must be interleaved over a multiple of pp micro-batches, got {self.schedule}, "
                f"{self.micro_batches} micro-batches, pp {self.pp}"
            )
        if self.stage_work and len(self.stage_work) != self.pp:
            raise ValueError(f"stage_work must have one value per stage, got {self.stage_work}, pp {self.pp}")

    @property
    def is_pipeline(self) -> bool:
        """Whether a step consists of micro-batches that run through a schedule."""
        return self.pp > 1 or self.micro_batches > 1

    @property
    def grad_kind(self) -> str:
        """Kind of the groups that reduce the gradients of dense layers."""
        return "dp_cp" if self.cp > 1 else "dp"

    def host(self, rank: int) -> str:
        """Name of the host a rank runs on."""
        return f"h-{rank // self.ranks_per_host:04d}"

    def told_host(self, rank: int) -> str:
        """Name of the host a rank says it runs on."""
        return self.told_hosts[rank] if self.told_hosts else self.host(rank)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something done to `ranks` in steps [start_step, end_step), every `every`-th of them.

    `severity` = how many times longer the culprit's own step gets: (severity − 1) × step_s a step, put
    where the fault acts. `compute`: forward and backward or one `phase` of them, CPU time too; if `kernels`
    is given, only kernels with that in their name are slower. `copy`: what is copied to the device. `starved`:
    anywhere in bursts, CPU time flat, in the run queue; `throttled`: the same by a CPU quota. `data`: the wait for the next batch. `gc`: collector pauses. `link`: the
    transfers of the groups of kind `group` the ranks are in ("" = gradients; `pp` = what two neighbours send
    each other). `compile`: backward stands while the host compiles. `alloc`:
    it stands while the allocator frees its cache and tries again, as the runtime tells. `work`: the ranks get so much more to do
    (`group` ep = more tokens for their experts). `lengths` and `routing`: sequence lengths and routed tokens
    spread by severity − 1 over all ranks, anew in every step. The ranks say so if the job tells its work. `slow_all`: every rank's transfers and compute, `ranks` are all of
    them. `rollout`: the rank's generation. `save`: every checkpoint of the rank, by what makes up for the steps in
    between. `gap`: nothing is slower, but what the ranks recorded is lost. `clock_jump`: the ranks' clocks are `severity` seconds ahead. `hang` and `lost` ignore severity: the
    rank never leaves its forward. `grows` = from nothing at `start_step` evenly to its severity at `end_step`.
    None as `end_step` = until the job ends.
    """

    kind: str
    ranks: tuple[int, ...] = field(default=())
    start_step: int = 0
    end_step: int | None = None
    severity: float = 1.5
    phase: str = ""
    kernels: str = ""
    group: str = ""
    every: int = 1
    grows: bool = False

    def __post_init__(self) -> None:
        if self.kind not in FAULT_KINDS:
            raise ValueError(f"no fault {self.kind!r}; there are {', '.join(FAULT_KINDS)}")
        if self.severity < 1.0 or not self.ranks or self.every < 1:
            raise ValueError(f"a fault needs ranks, a period and a severity of at least 1, got {self}")
        if self.phase not in COMPUTE_PHASES:
            raise ValueError(f"phase must be one of {', '.join(COMPUTE_PHASES)}, got {self.phase!r}")

    def steps(self, job: Job) -> slice:
        """The job's steps it acts in."""
        return slice(self.start_step, job.steps if self.end_step is None else self.end_step, self.every)

    def parts(self, job: Job) -> Iterator[Fault]:
        """The fault, or one of each step if it grows."""
        if not self.grows:
            yield self
            return
        steps = range(job.steps)[self.steps(job)]
        for place, step in enumerate(steps, start=1):
            severity = 1 + (self.severity - 1) * place / len(steps)
            yield replace(self, severity=severity, start_step=step, end_step=step + 1, every=1, grows=False)
