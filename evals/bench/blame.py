"""Who held all the others up: one slow rank anywhere in a mesh of TP, PP, DP and EP groups, by the wait graph alone."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from argus.analytics.clocks import align
from argus.analytics.waits import waits_of
from argus.analytics.window import Floats, Ints, assemble
from argus.api.cli.errors import CliError
from argus.collectors.records.plan import WindowPlan
from argus.evals.bench import Size
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import Topology, build

SHAPES: Mapping[str, tuple[int, int, int]] = {
    "TP8·PP4": (8, 4, 1),
    "TP4·EP8": (4, 1, 8),
    "PP8": (1, 8, 1),
    "TP8·PP2·EP8": (8, 2, 8),
}
"""Tensor, pipeline and expert parallelism of the meshes; the rest of the ranks are replicas."""

DRAWS: Mapping[Size, int] = {"smoke": 2, "default": 25, "full": 120}
"""Of each mesh; 473 draws without a miss or with one bound the share at 0.99 with 95 % confidence."""

SMOKE_RANKS = 256
STEPS = 10

PER_JOB = 10
"""Draws of one job: in each of its windows another rank is slow, which spares drawing a job for every draw."""

FACTORS = (1.1, 3.0)
"""How many times longer the slow rank works, drawn evenly on a log scale."""

CLOCK_S = 0.005
"""Hosts' clocks stray by this much."""

SEED = 20
MUST = 0.99


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The size of the job."""
    parser.add_argument("--ranks", type=int, default=4096, help="a multiple of 128")
    parser.add_argument("--minutes", type=float, help="stop drawing after so long, with the count so far")


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Draws of where the slow rank sits and how slow it is, over the meshes."""
    num_ranks = SMOKE_RANKS if size == "smoke" else args.ranks
    if num_ranks < 128 or num_ranks % 128:
        raise CliError(f"--ranks must be a multiple of 128, got {num_ranks}")
    if args.minutes is not None and args.minutes <= 0:
        raise CliError(f"--minutes must be above 0, got {args.minutes}")
    begun = time.perf_counter()
    limit_s = float("inf") if args.minutes is None else 60.0 * args.minutes
    meshes = [Mesh(name, job) for name, job in _jobs(num_ranks)]
    for mesh in _turns(meshes, DRAWS[size]):
        if time.perf_counter() - begun > limit_s and all(one.draws for one in meshes):
            break
        mesh.draw(min(PER_JOB, DRAWS[size] - mesh.draws))
        print(f"blame: {mesh.name} {mesh.first} of {mesh.draws} named first", file=sys.stderr, flush=True)
    rows = [{"mesh": m.name, "draws": m.draws, "first": m.first, "missed": m.missed} for m in meshes]
    first, draws = sum(mesh.first for mesh in meshes), sum(mesh.draws for mesh in meshes)
    return {
        "num_ranks": num_ranks,
        "draws": draws,
        "culprit_first": first / draws,
        "at_least": _lower_bound(first, draws),
        "by_mesh": rows,
        "wall_s": time.perf_counter() - begun,
        "ok": first / draws >= MUST,
    }


def table(result: Mapping[str, Any]) -> str:
    """One row per mesh."""
    head = (
        f"{result['num_ranks']:,} ranks, one of them {FACTORS[0]} to {FACTORS[1]} times slower: culprit first in "
        f"**{result['culprit_first']:.3f}** of {result['draws']} draws (95 % sure of at least {result['at_least']:.3f})."
    )
    lines = [
        head,
        "",
        "| mesh | draws | culprit first |",
        "|---|---|---|",
    ]
    return "\n".join([*lines, *(f"| {r['mesh']} | {r['draws']} | {r['first']} |" for r in result["by_mesh"])])


def _jobs(num_ranks: int) -> Iterator[tuple[str, Job]]:
    for name, (tp, pp, ep) in SHAPES.items():
        job = Job(
            ranks=num_ranks,
            tp=tp,
            pp=pp,
            ep=ep,
            micro_batches=pp,
            steps=STEPS,
            warmup_steps=0,
            clock_offset_s=CLOCK_S,
        )
        yield f"{name}·DP{num_ranks // tp // pp}", job


def _turns(meshes: Sequence[Mesh], draws: int) -> Iterator[Mesh]:
    """The meshes in turn until each has its draws: whenever it is stopped, all have had about as many."""
    while any(mesh.draws < draws for mesh in meshes):
        yield from (mesh for mesh in meshes if mesh.draws < draws)


class Mesh:
    """Draws of one mesh so far: how many, in how many the slow rank came first, and those in which it did not."""

    def __init__(self, name: str, job: Job) -> None:
        self.name, self.job = name, job
        self.draws, self.first = 0, 0
        self.missed: list[dict[str, float]] = []
        self._rng = np.random.default_rng(SEED)
        self._topology: Topology | None = None

    def draw(self, num: int) -> None:
        """So many draws more, of one job."""
        job, rng = self.job, self._rng
        slow = rng.integers(job.ranks, size=num)
        low, high = math.log(FACTORS[0]), math.log(FACTORS[1])
        factors = np.exp(rng.uniform(low, high, num))
        played = simulate(replace(job, steps=num * STEPS), _one_a_window(slow, factors), rng=rng)
        topology = self._topology = self._topology or build(played.layouts)
        for closed in played.windows(WindowPlan(first=STEPS)):
            habit_s = waits_of(align(assemble(closed.parts, topology))).habit_s
            named, rank = int(habit_s.argmax()), int(slow[closed.index])
            self.draws += 1
            self.first += named == rank
            if named != rank:
                factor = float(factors[closed.index])
                self.missed.append({"slow": rank, "factor": factor, "named": named})


def _one_a_window(slow: Ints, factors: Floats) -> list[Fault]:
    return [
        Fault(
            kind="compute",
            ranks=(int(rank),),
            severity=float(factor),
            start_step=index * STEPS,
            end_step=(index + 1) * STEPS,
        )
        for index, (rank, factor) in enumerate(zip(slow, factors, strict=True))
    ]


def _lower_bound(hits: int, draws: int) -> float:
    """One-sided 95 % bound of a share: exact where nothing was missed, Wilson's else."""
    if hits == draws:
        return float(0.05 ** (1 / draws))
    z, share = 1.645, hits / draws
    middle = share + z**2 / (2 * draws)
    spread = z * math.sqrt(share * (1 - share) / draws + z**2 / (4 * draws**2))
    return (middle - spread) / (1 + z**2 / draws)
