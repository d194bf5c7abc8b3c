"""A simulated job as values: what it is, how noisy it is, what is done to it."""

from __future__ import annotations

from dataclasses import dataclass, field

FAULT_KINDS = ("compute", "starved", "data", "gc", "link", "hang", "lost")


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Natural jitter, as shares of the work it acts on.

    `common` falls on all ranks of a step alike, `rank` on one segment of one rank, `spread` is a rank's
    lasting difference, `drift` a slow wander of about `drift_steps` steps. With `tail_probability` a
    segment takes `tail_ratio` × a Pareto draw longer. `work_share` of the jitter is work that also costs
    CPU time, the rest is time the thread did not run.
    """

    common: float = 0.01
    rank: float = 0.02
    spread: float = 0.005
    drift: float = 0.005
    drift_steps: int = 30
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
    """A data-parallel job, also tensor-parallel if `tp` > 1; rank = dp coordinate × tp + tp coordinate.

    `step_s` is the work of one step without any communication; `comm_ratio` of it is what the gradient
    transfers of a step last together, `tp_comm_ratio` those of the tensor-parallel calls. `gpu` = phases
    are timed by the GPU's clock and the CPU only launches. `kernels` distinct kernels make up forward and
    backward, none = they are not observed. Times are Unix seconds.
    """

    run: str = "train"
    attempt: int = 0
    ranks: int = 8
    ranks_per_host: int = 8
    tp: int = 1
    steps: int = 200
    step_s: float = 0.4
    start_s: float = 1_700_000_000.0
    gpu: bool = True
    noise: Noise = QUIET
    comm_ratio: float = 0.1
    tp_comm_ratio: float = 0.06
    comm_noise: float = 0.05
    buckets: int = 4
    bucket_bytes: int = 25 << 20
    warmup_steps: int = 3
    checkpoint_every: int = 0
    checkpoint_s: float = 2.0
    gc_every: int = 20
    gc_pause_s: float = 0.002
    clock_offset_s: float = 0.0
    missing: tuple[int, ...] = ()
    lost_step_probability: float = 0.0
    kernels: int = 0

    def __post_init__(self) -> None:
        if self.ranks < 2 or self.tp < 1 or self.ranks % self.tp or self.ranks == self.tp:
            raise ValueError(
                f"ranks must be a multiple of tp with at least two replicas, got {self.ranks} ranks, tp {self.tp}"
            )
        if self.steps < 1 or self.buckets < 1 or self.step_s <= 0:
            raise ValueError(
                f"steps, buckets and step_s must be positive, got {self.steps}, {self.buckets}, {self.step_s}"
            )

    def host(self, rank: int) -> str:
        """Name of the host a rank runs on."""
        return f"h-{rank // self.ranks_per_host:04d}"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something done to `ranks` in steps [start_step, end_step); None = until the job ends.

    `severity` = how many times longer the culprit's own step gets: (severity − 1) × step_s a step, put
    where the fault acts. `compute`: forward and backward, CPU time too. `starved`: anywhere in bursts,
    CPU time flat. `data`: the wait for the next batch. `gc`: collector pauses. `link`: the gradient
    transfers of the groups the ranks are in. `hang` and `lost` ignore it: the rank never leaves its forward.
    """

    kind: str
    ranks: tuple[int, ...] = field(default=())
    start_step: int = 0
    end_step: int | None = None
    severity: float = 1.5

    def __post_init__(self) -> None:
        if self.kind not in FAULT_KINDS:
            raise ValueError(f"no fault {self.kind!r}; there are {', '.join(FAULT_KINDS)}")
        if self.severity < 1.0 or not self.ranks:
            raise ValueError(f"a fault needs ranks and a severity of at least 1, got {self}")

    def steps(self, job: Job) -> slice:
        """The job's steps it acts in."""
        return slice(self.start_step, job.steps if self.end_step is None else self.end_step)
