"""The data of `argus serve --demo`: simulated jobs that a service has lived through by the one path, up to now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from argus.analytics.store import orders, queries
from argus.analytics.store.documents import dump
from argus.analytics.store.engine import open_store
from argus.api.captures import capture_incident
from argus.api.cli.serve import product_analyses
from argus.api.migrate import upgrade
from argus.api.service import Service, make_service
from argus.api.settings import Settings
from argus.collectors.records.cost import Cost
from argus.collectors.records.events import DTYPES, RankRecords
from argus.collectors.records.stacks import StackDump, Thread, encode_stacks
from argus.collectors.records.upload import encode_windows
from argus.evals.moments import Moment, moments
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import Simulation, simulate

NOTICE = (
    "Demo: simulated jobs, as they stood when this service was started. Nothing here reaches a cluster; "
    "argus serve without --demo watches yours."
)
DAY_S = 86_400.0
HOUR_S = 3600.0
NIGHTS = 10
SHOWN_STEPS, SLOW_STEP_S = 220, 1.9
"""How much of the running job is over, about: its steps with everything they wait for."""

WINDOW_STEPS = 10
Say = Callable[[str], None]

OVERHEAD = {
    "stacks": Cost(ratio=1.0012, low=0.9991, high=1.0034, n=412),
    "phases": Cost(ratio=1.0031, low=1.0008, high=1.0055, n=405),
    "collectives": Cost(ratio=1.0044, low=1.0017, high=1.0072, n=398),
}
"""What a host would have measured of its collectors: a simulation has none."""


@dataclass(kw_only=True)
class Clock:
    """The time in the demo; it stands still once the data is there, so that nothing in it grows old."""

    now_s: float

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True, kw_only=True)
class Part:
    """One job of the demo: `until_s` is when the demo stops looking, infinite = after the job's end."""

    job: Job
    faults: tuple[Fault, ...]
    seed: int
    until_s: float = float("inf")
    with_stacks: bool = False
    site: str = "h"

    def host(self, rank: int) -> str:
        """Name of the host a rank runs on: jobs of different sites share no machine."""
        return self.job.host(rank).replace("h-", f"{self.site}-")

    def device(self, device: str) -> str:
        """UUID of a GPU of the site."""
        return device.replace("GPU-00", f"GPU-{ord(self.site):02x}") if device else ""


CLUSTER = """\
hosts:
  h-[0000-0001]: {leaf: leaf-1, rack: r-1}
  h-[0002-0003]: {leaf: leaf-2, rack: r-2}
  m-[0000-0003]: {leaf: leaf-3, rack: r-3}
switches:
  leaf-1: {kind: leaf, up: [spine-1]}
  leaf-2: {kind: leaf, up: [spine-1]}
  leaf-3: {kind: leaf, up: [spine-1]}
  spine-1: {kind: spine}
"""
"""The demo's switches, as a topology.yaml."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the service is to be given: a database, the cluster's file, a line to show, the time."""

    db: str
    topology: str
    notice: str
    clock: Clock


def make_demo(folder: Path, *, now_s: float, say: Say = lambda text: None) -> Demo:
    """Fill a new database in a folder."""
    db, topology = folder / "demo.sqlite", folder / "topology.yaml"
    topology.write_text(CLUSTER, encoding="utf-8")
    clock = Clock(now_s=now_s - 30 * DAY_S)
    store = open_store(str(db))
    upgrade(store)
    settings = Settings(window_steps=WINDOW_STEPS, settle_s=0.0)
    service = make_service(settings=settings, store=store, analyses=product_analyses(), clock=clock)
    for part in parts(now_s):
        say(f"living through {part.job.run}: {part.job.ranks} ranks, {part.job.steps} steps")
        live(service, clock, part)
    clock.now_s = now_s
    while service.worker.turn(now_s):
        pass
    store.close()
    return Demo(db=str(db), topology=str(topology), notice=NOTICE, clock=clock)


def parts(now_s: float) -> tuple[Part, ...]:
    """The jobs in the order of their time."""
    nights = [_night(now_s, number) for number in range(NIGHTS)]
    return (*nights, _experts(now_s), _vision(now_s), _pretrain(now_s))


def _night(now_s: float, number: int) -> Part:
    """A short job on the same machines every night, with one GPU that gets worse."""
    job = Job(
        run=f"nightly-{number + 1:02d}",
        ranks=8,
        steps=50,
        step_s=0.8,
        start_s=now_s - (NIGHTS - number) * DAY_S - 5 * HOUR_S,
    )
    fault = Fault(kind="compute", ranks=(5,), severity=1.02 + 0.025 * number)
    return Part(job=job, faults=(fault,), seed=number, site="n")


def _experts(now_s: float) -> Part:
    """A mixture of experts whose path between two hosts was slow for a while yesterday."""
    job = Job(run="moe-finetune", ranks=32, ep=8, steps=160, step_s=0.6, start_s=now_s - 20 * HOUR_S)
    fault = Fault(
        kind="link", ranks=tuple(range(8, 16)), group="ep", severity=1.6, start_step=70, end_step=130
    )
    return Part(job=job, faults=(fault,), seed=21, site="m")


def _vision(now_s: float) -> Part:
    """One host's ranks, one of which waited for its data two hours ago."""
    job = Job(run="vision-ddp", ranks=8, gpu=False, steps=150, step_s=0.4, start_s=now_s - 2 * HOUR_S)
    fault = Fault(kind="data", ranks=(3,), severity=1.5, start_step=70, end_step=120)
    return Part(job=job, faults=(fault,), seed=22, with_stacks=True, site="v")


def _pretrain(now_s: float) -> Part:
    """A pipeline that is running now, with a GPU that computes slower since some minutes."""
    job = Job(
        run="llm-pretrain",
        ranks=32,
        pp=4,
        micro_batches=8,
        steps=300,
        step_s=1.2,
        checkpoint_every=100,
        checkpoint_s=3.0,
        kernels=10,
    )
    fault = Fault(kind="compute", ranks=(21,), severity=1.4, start_step=150)
    lasted_s = SHOWN_STEPS * SLOW_STEP_S
    return Part(job=replace(job, start_s=now_s - lasted_s), faults=(fault,), seed=23, until_s=now_s)


def live(service: Service, clock: Clock, part: Part) -> None:
    """Let the service live through a job."""
    done = simulate(part.job, part.faults, rng=np.random.default_rng(part.seed))
    layouts = [replace(one, host=part.host(one.rank), device=part.device(one.device)) for one in done.layouts]
    clock.now_s = part.job.start_s
    service.receive_layouts(dump({"layouts": [item.to_json() for item in layouts]}).encode())
    for moment in _until(moments(done), part.until_s):
        clock.now_s = moment.now_s
        if moment.parts:
            windows = (replace(one, host=part.host(one.rank), overhead=OVERHEAD) for one in moment.parts)
            service.receive_windows(encode_windows(one.to_bytes() for one in windows))
        if moment.beats:
            beats = [replace(beat, host=part.host(beat.rank)).to_json() for beat in moment.beats]
            service.receive_heartbeats(dump({"host": part.host(0), "heartbeats": beats}).encode())
        if part.with_stacks and moment.parts:
            _observe(service, part, moment)
        while service.worker.turn(clock.now_s):
            pass
    if part.with_stacks:
        _capture(service, done)


def _until(all_moments: Iterator[Moment], until_s: float) -> Iterator[Moment]:
    for moment in all_moments:
        if moment.now_s > until_s:
            return
        yield moment


OUTER = "main (train.py:88);fit (train.py:61)"
READING = f"{OUTER};__next__ (dataloader.py:701);_get_data (dataloader.py:1283);get (queue.py:180);read_shard (shards.py:42);read (nfs.py:19)"
WAITING = f"{OUTER};training_step (train.py:47);backward (_tensor.py:581);all_reduce (distributed_c10d.py:2501);wait (work.py:12)"
FORWARD = f"{OUTER};training_step (train.py:44);forward (model.py:130);scaled_dot_product_attention (functional.py:5560)"


def _observe(service: Service, part: Part, moment: Moment) -> None:
    """What the hosts saw of the threads while a step of the fault was open, and their steady dumps."""
    fault, step = part.faults[0], moment.parts[0].first_step
    is_slow = fault.start_step <= step < (fault.end_step or part.job.steps)
    dumps = [_dump(part, rank, moment, is_slow=is_slow) for rank in range(part.job.ranks)]
    body = {"host": part.host(0), **encode_stacks(dumps), "samples": []}
    service.receive_observations(dump(body).encode())


def _dump(part: Part, rank: int, moment: Moment, *, is_slow: bool) -> StackDump:
    is_culprit = rank in part.faults[0].ranks
    stack = FORWARD if not is_slow else READING if is_culprit else WAITING
    return StackDump(
        run=part.job.run,
        attempt=part.job.attempt,
        rank=rank,
        host=part.host(rank),
        ts_s=moment.now_s,
        step=moment.parts[0].first_step,
        open_s=0.5 if is_slow else 0.0,
        reason="baseline" if not is_slow else "slow_step" if is_culprit else "peer",
        threads=(
            Thread(kind="main", name="MainThread", state="D" if is_slow and is_culprit else "S", stack=stack),
        ),
    )


def _capture(service: Service, done: Simulation) -> None:
    """The raw records of its first incident, as its hosts would have sent them."""
    import zstandard

    with service.store.read() as connection:
        found = queries.incidents(
            connection, run=done.job.run, status=None, fault_class=None, limit=1, offset=0
        )
    for incident in found.items:
        made = capture_incident(service, incident["id"])
        assert made is not None
        for records in done.records:
            if records.layout.rank in made["ranks"]:
                cut = _steps(records, first=made["first_step"], end=made["end_step"])
                body = zstandard.compress(b"".join(rank_frames(cut)))
                with service.store.write() as connection:
                    orders.add_part(
                        connection, made["id"], records.layout.rank, body=body, now_s=service.clock()
                    )


def _steps(records: RankRecords, *, first: int, end: int) -> RankRecords:
    kept = {name: getattr(records, name) for name in DTYPES}
    inside = {name: rows[(rows["step"] >= first) & (rows["step"] < end)] for name, rows in kept.items()}
    return replace(records, **inside)
