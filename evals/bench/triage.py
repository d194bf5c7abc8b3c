"""From a window's last summary to the incident, at 10,240 ranks: without kernels, and with them."""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from argus.analytics.attempt import Advance, AttemptState, advance
from argus.analytics.clocks import align
from argus.analytics.incident import Incident
from argus.analytics.kernels.engine_local import LocalEngine
from argus.analytics.view import PAST_WINDOWS
from argus.analytics.window import assemble
from argus.api.cli.errors import CliError
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import RankWindow
from argus.evals.bench import Size
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.kernel_blobs import blobs
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import Topology, build

TP, PP = 8, 4
SMOKE_RANKS = 256
KERNELS: Mapping[Size, int] = {"smoke": 20, "default": 300, "full": 300}
REPEATS: Mapping[Size, int] = {"smoke": 1, "default": 3, "full": 7}

HEALTHY, SLOW = 3, 2
"""Windows played: the last one opens the incident, for two of three must show it."""

STEPS = 10
FACTOR = 1.3
SEED = 11

MUST_WALL_S, MUST_L3_S = 2.0, 10.0
"""On two cores; with L3 so many seconds more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The size of the cluster."""
    parser.add_argument("--ranks", type=int, default=10240, help=f"a multiple of {TP * PP * 2}")


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """One job of TP 8 · PP 4, a rank that slows down, the window that makes it an incident.

    `wall_s` is for a window whose ranks do the same calls as in the one before, as a training job does; `new_calls_s` for
    one whose calls are new to the analysis: the first, or one in which something else was done.
    """
    num_ranks = SMOKE_RANKS if size == "smoke" else args.ranks
    if num_ranks < 2 * TP * PP or num_ranks % (TP * PP):
        raise CliError(f"--ranks must be a multiple of {TP * PP}, at least {2 * TP * PP}; got {num_ranks}")
    culprit = num_ranks // 3
    job = Job(ranks=num_ranks, tp=TP, pp=PP, micro_batches=PP, steps=(HEALTHY + SLOW) * STEPS, warmup_steps=0)
    fault = Fault(kind="compute", ranks=(culprit,), start_step=HEALTHY * STEPS, severity=FACTOR)
    done = simulate(job, [fault], rng=np.random.default_rng(SEED))
    topology = build(done.layouts)
    state = AttemptState.start(job.run, job.attempt)
    last: Sequence[RankWindow] = ()
    for closed in done.windows(WindowPlan(first=STEPS)):
        if closed.index < HEALTHY + SLOW - 1:
            state = _look(state, closed.parts, topology).state
        last = closed.parts
    state = _filled(state)
    walls = [_timed(state, last, topology) for _ in range(REPEATS[size])]
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    new_calls = [_timed(state, last, build(done.layouts)) for _ in range(REPEATS[size])]
    with_l3_s = _with_l3(state, last, topology, num_kernels=KERNELS[size], culprit=culprit)
    wall_s = float(np.median([seconds for seconds, _ in walls]))
    named = [list(incident.cause.suspects) for incident in walls[-1][1]]
    limit = size == "smoke" or (wall_s <= MUST_WALL_S and with_l3_s <= wall_s + MUST_L3_S)
    return {
        "num_ranks": num_ranks,
        "num_calls": sum(len(part.collectives) for part in last),
        "wall_s": wall_s,
        "new_calls_s": float(np.median([seconds for seconds, _ in new_calls])),
        "with_l3_s": with_l3_s,
        "peak_rss_mb": rss_mb,
        "named": named,
        "truth": [culprit],
        "ok": limit and named == [[culprit]],
    }


def table(result: Mapping[str, Any]) -> str:
    """One line of figures."""
    return (
        f"{result['num_ranks']:,} ranks, {result['num_calls'] / 1e6:.1f} million rows of calls in the window: incident "
        f"after **{result['wall_s']:.2f} s** from L1 and L2 ({result['new_calls_s']:.2f} s where the calls are not those of "
        f"the window before), {result['with_l3_s']:.2f} s with L3; "
        f"{result['peak_rss_mb']:.0f} MB peak before L3. Named {result['named']}, truth {result['truth']}."
    )


def _filled(state: AttemptState) -> AttemptState:
    """The attempt with as many remembered windows as there can be: the first one over and over."""
    first, fill = state.past[0], PAST_WINDOWS - len(state.past)
    older = tuple(replace(first, index=first.index + n) for n in range(fill))
    ballots = tuple(replace(ballot, window=ballot.window + fill) for ballot in state.ballots)
    newer = tuple(replace(digest, index=digest.index + fill) for digest in state.past)
    return replace(state, past=(*older, *newer), ballots=ballots)


def _look(state: AttemptState, parts: Sequence[RankWindow], topology: Topology) -> Advance:
    """The parts as the attempt's next window, whatever number they were cut with."""
    window = align(assemble(parts, topology))
    index = state.past[-1].index + 1 if state.past else 0
    return advance(state, topology=topology, now_s=0.0, window=replace(window, index=index))


def _timed(
    state: AttemptState, parts: Sequence[RankWindow], topology: Topology
) -> tuple[float, tuple[Incident, ...]]:
    begun = time.perf_counter()
    done = _look(state, parts, topology)
    return time.perf_counter() - begun, done.incidents


def _with_l3(
    state: AttemptState, parts: Sequence[RankWindow], topology: Topology, *, num_kernels: int, culprit: int
) -> float:
    """The same window with the packed kernels of every host."""
    packed = blobs(
        np.random.default_rng(SEED),
        num_ranks=len(parts),
        num_kernels=num_kernels,
        fault={(culprit, -1): FACTOR},
    )
    engine = LocalEngine(workers=os.cpu_count() or 1)
    try:
        begun = time.perf_counter()
        index = state.past[-1].index + 1
        window = replace(align(assemble(parts, topology)), kernels=tuple(packed), index=index)
        advance(state, topology=topology, now_s=0.0, window=window, engine=engine)
        return time.perf_counter() - begun
    finally:
        engine.close()
