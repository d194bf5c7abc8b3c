"""L3 from packed kernel summaries to findings, its growth with ranks, and W₁ against pairwise scipy."""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from argus.analytics.detectors.l3_kernel import detect
from argus.analytics.digest import digest_of
from argus.analytics.finding import Finding
from argus.analytics.kernels.digest import digest_kernels
from argus.analytics.kernels.distance import mean_w1, quantile_nodes, quantile_profile
from argus.analytics.kernels.effects import effects_of_all
from argus.analytics.kernels.engine_local import LocalEngine
from argus.analytics.kernels.mixture import Mixture, fit
from argus.analytics.kernels.peers import classes
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.table import open_table
from argus.analytics.view import View
from argus.analytics.window import Window, assemble
from argus.collectors.records.events import STEP
from argus.collectors.records.layout import Layout
from argus.collectors.records.summary import RankWindow
from argus.evals.bench import Size
from argus.evals.simulator.kernel_blobs import blobs
from argus.topology.layout import build

SMOKE = (256, 40)
"""Ranks and kernels of the short form."""

GROWTH: Mapping[Size, Sequence[int]] = {
    "smoke": (64, 256),
    "default": (64, 256, 1024, 4096, 16384),
    "full": (64, 256, 1024, 4096, 16384),
}
GROWTH_KERNELS = 40
PAIRWISE: Mapping[Size, Sequence[int]] = {"smoke": (48,), "default": (64, 256, 1024), "full": (64, 256, 1024)}
NODES = 1000
"""Samples a rank that pairwise scipy is given; its own time grows with them."""

STEPS = 10
JOB_SEED = 3
"""Fixes the kernels, so that the faults can be put into heavy ones."""

MUST_WALL_S, MUST_RSS_MB, MUST_RATIO = 5.0, 4096.0, 1000.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The size of the cluster."""
    parser.add_argument("--ranks", type=int, default=10240)
    parser.add_argument("--kernels", type=int, default=300)


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """One pass at full size, then growth, then the comparison with scipy."""
    num_ranks, num_kernels = SMOKE if size == "smoke" else (args.ranks, args.kernels)
    engine = LocalEngine(workers=os.cpu_count() or 1)
    try:
        one = _pass(num_ranks, num_kernels, engine=engine, repeats=1 if size == "smoke" else 3)
        growth = [
            {"ranks": ranks, **_pass(ranks, GROWTH_KERNELS, engine=engine, repeats=3)}
            for ranks in GROWTH[size]
        ]
    finally:
        engine.close()
    pairs = [_pairwise(ranks) for ranks in PAIRWISE[size]]
    usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    last = pairs[-1]
    ok = one["ranks_flagged"] == one["truth"] and (
        size == "smoke" or (one["wall_s"] <= MUST_WALL_S and sum(usage) / 1024 <= MUST_RSS_MB)
    )
    return {
        **one,
        "num_ranks": num_ranks,
        "num_kernels": num_kernels,
        "peak_rss_mb": sum(usage) / 1024,
        "vs_pairwise_ratio": last["ratio"],
        "vs_pairwise_ranks": last["ranks"],
        "vs_pairwise_ratio_extrapolated": last["ratio"] * num_ranks / last["ranks"],
        "pairwise": pairs,
        "growth": growth,
        "ok": ok,
    }


def table(result: Mapping[str, Any]) -> str:
    """The pass, its growth, the comparison."""
    head = (
        f"{result['num_ranks']:,} ranks × {result['num_kernels']} kernels, packed summaries to findings: "
        f"**{result['wall_s']:.2f} s** wall, {result['cpu_s']:.2f} s CPU, {result['peak_rss_mb']:.0f} MB peak, "
        f"{result['blob_bytes_per_rank'] / 1e3:.1f} KB a rank; flagged {result['ranks_flagged']}, truth "
        f"{result['truth']}."
    )
    lines = [
        head,
        "",
        f"| ranks ({GROWTH_KERNELS} kernels) | wall, s | CPU, s | µs CPU per rank-kernel |",
        "|---|---|---|---|",
    ]
    for row in result["growth"]:
        per = row["cpu_s"] / row["ranks"] / GROWTH_KERNELS * 1e6
        lines.append(f"| {row['ranks']:,} | {row['wall_s']:.3f} | {row['cpu_s']:.3f} | {per:.2f} |")
    lines += [
        "",
        f"| ranks, one kernel | pairwise scipy ({NODES} nodes), s CPU | mean W₁ by sorting, s CPU | ratio | largest difference |",
        "|---|---|---|---|---|",
    ]
    for row in result["pairwise"]:
        lines.append(
            f"| {row['ranks']:,} | {row['scipy_s']:.2f} | {row['ours_s']:.4f} | {row['ratio']:,.0f} "
            f"| {row['difference']:.1e} |"
        )
    extrapolated = result["vs_pairwise_ratio_extrapolated"]
    lines.append(
        f"\nPairs grow with the square of the ranks: at {result['num_ranks']:,} ranks the ratio would be about "
        f"{extrapolated:,.0f} (extrapolated, not measured)."
    )
    return "\n".join(lines)


def _pass(num_ranks: int, num_kernels: int, *, engine: LocalEngine, repeats: int) -> dict[str, Any]:
    """Median time of a window whose predecessors showed the same, the running mean of all of them included."""
    rng = np.random.default_rng(3)
    heaviest, step_ns = _probe(num_kernels)
    fault, truth = _faults(rng, num_ranks, heaviest)
    packed = blobs(rng, num_ranks=num_ranks, num_kernels=num_kernels, fault=fault, job_seed=JOB_SEED)
    window = _window(num_ranks, packed, step_ns=step_ns)
    plain = digest_of(replace(window, kernels=()))
    before = digest_kernels(window, engine=engine)
    assert before is not None
    past = [before.slim()]
    for _ in range(Settings.of):  # enough windows that all of them are asked together
        past = [before.slim(), past[-1].after(past)]
    older = tuple(replace(plain, kernels=one) for one in past)
    walls, cpus = [], []
    found: tuple[Finding, ...] = ()
    for _ in range(repeats):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        digest = digest_kernels(window, engine=engine)
        assert digest is not None
        now = replace(plain, kernels=digest.after(past))
        view = View(
            run="bench",
            attempt=0,
            topology=window.topology,
            now_s=0.0,
            window=window,
            past=older,
            digest=now,
        )
        found = detect(view)
        walls.append(time.perf_counter() - wall_s)
        cpus.append(time.process_time() - cpu_s)
    return {
        "wall_s": float(np.median(walls)),
        "cpu_s": float(np.median(cpus)),
        "ranks_flagged": sorted({rank for finding in found for rank in finding.ranks}),
        "truth": truth,
        "blob_bytes_per_rank": sum(map(len, packed)) / num_ranks,
    }


def _faults(
    rng: np.random.Generator, num_ranks: int, kernels: Sequence[int]
) -> tuple[dict[tuple[int, int], float], list[int]]:
    """One rank slow in all kernels, one in a single kernel, eight of a host in another."""
    picked = rng.choice(num_ranks, 2, replace=False)
    host = int(rng.integers(num_ranks // 8)) * 8
    fault = {(int(picked[0]), -1): 1.08, (int(picked[1]), kernels[0]): 1.10}
    fault |= {(rank, kernels[1]): 1.15 for rank in range(host, host + 8)}
    return fault, sorted({rank for rank, _ in fault})


def _probe(num_kernels: int) -> tuple[list[int], int]:
    """The two kernels that take most of the step in what the same seed generates, and a step's length."""
    probe = open_table(
        blobs(np.random.default_rng(0), num_ranks=8, num_kernels=num_kernels, job_seed=JOB_SEED)
    )
    total = effects_of_all(probe, classes(probe.ranks, np.zeros(8, np.int64))).total_ns
    order = np.argsort(-total.sum(axis=1))
    numbers = [int(probe.text(probe.kernels[int(i)][0]).rpartition("_")[2]) for i in order[:2]]
    return numbers, int(total.sum(axis=0).mean() * 1.1 / STEPS)


def _window(num_ranks: int, packed: Sequence[bytes], *, step_ns: int) -> Window:
    """A window of that many ranks with steps and kernels and nothing else."""
    layouts = [
        Layout(run="bench", attempt=0, rank=rank, world_size=num_ranks, host=f"h-{rank // 8:04d}")
        for rank in range(num_ranks)
    ]
    steps = np.zeros(STEPS, STEP)
    steps["step"] = np.arange(STEPS)
    steps["end_ns"] = (np.arange(STEPS) + 1) * step_ns
    steps["start_ns"] = np.arange(STEPS) * step_ns
    parts = [
        RankWindow(run="bench", attempt=0, rank=rank, window=1, first_step=0, num_steps=STEPS, steps=steps)
        for rank in range(num_ranks)
    ]
    return replace(assemble(parts, build(layouts)), kernels=tuple(packed))


def _pairwise(num_ranks: int) -> dict[str, Any]:
    """Mean W₁ of every rank to all others: scipy over pairs, and by sorting strata; CPU time, each on one core."""
    from scipy.stats import wasserstein_distance

    shape = _mixtures(num_ranks)
    nodes = quantile_nodes(shape, nodes=NODES)
    start = time.process_time()
    total = np.zeros(num_ranks)
    for i in range(num_ranks):
        for j in range(i):
            distance = wasserstein_distance(nodes[i], nodes[j])
            total[i] += distance
            total[j] += distance
    scipy_s = time.process_time() - start
    times = []
    for _ in range(5):
        start = time.process_time()
        ours = mean_w1(quantile_profile(shape))
        times.append(time.process_time() - start)
    theirs = total / (num_ranks - 1)
    return {
        "ranks": num_ranks,
        "scipy_s": scipy_s,
        "ours_s": float(np.median(times)),
        "ratio": scipy_s / float(np.median(times)),
        "difference": float(np.abs(ours / theirs - 1.0).max()),
    }


def _mixtures(num_ranks: int) -> Mixture:
    """Two modes each, in slightly other places and proportions."""
    rng = np.random.default_rng(5)
    device = 0.01 * rng.normal(size=(num_ranks, 1))
    p50 = np.log([[1e4, 3e4]]) + device
    sigma = 0.03 * np.exp(0.1 * rng.normal(size=(num_ranks, 2)))
    count = np.full((num_ranks, 2), 500)
    return fit(
        count,
        p50,
        log_p99=p50 + 2.33 * sigma,
        log_max=p50 + 3.1 * sigma,
        log_mean=p50 + sigma**2 / 2,
    )
