"""Kernel summaries: bytes against trace text and packed binary, W₁ error beside it, events per second."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.distance import matrix, quantile_profile
from argus.analytics.kernels.mixture import Mixture, fit, quantile
from argus.api.cli.paths import path
from argus.collectors.host.compress import compress
from argus.collectors.records.events import Rows
from argus.collectors.records.kernel_blob import encode
from argus.collectors.records.kernel_read import open_blob, summaries_of
from argus.collectors.records.kernels import RAW_EVENT_BYTES, KernelSummary, cut_name
from argus.evals.bench import Size
from argus.evals.kernel_text import read_traces, text_bytes
from argus.evals.simulator.kernel_work import dense, launches, moe

STEPS: Mapping[Size, int] = {"smoke": 2, "default": 10, "full": 10}
SLOWDOWNS = (1.05, 1.1, 1.2, 1.5)
HEALTHY = 4
DEVICE_SPREAD = 0.01
SCIPY_GROUPS: Mapping[Size, int] = {"smoke": 2, "default": 12, "full": 40}
PAIR_SAMPLES = 20_000

MUST = {"ratio_text": 3700.0, "ratio_binary": 100.0, "w1_median": 0.02, "events_per_s_per_core": 1e6}


@dataclass(frozen=True, kw_only=True)
class _Host:
    """Records of the ranks of one host over a window, and the trace text of all of them."""

    rows: Sequence[Rows]
    names: Sequence[Sequence[str]]
    text: float
    slowdown: Sequence[float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where real traces lie."""
    parser.add_argument(
        "--traces", type=path, metavar="DIR", help="also measure profiler traces in this folder"
    )


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Top-level figures are those of the worst generated case."""
    rng = np.random.default_rng(7)
    cases = {
        name: _measure(_generate(sites, rng, num_steps=STEPS[size]), size=size)
        for name, sites in (("dense", dense()), ("moe", moe()))
    }
    worst = {
        key: max((case[key] for case in cases.values()), default=0.0)
        for key in ("raw_text_bytes", "raw_binary_bytes", "summary_bytes", "recon_rel")
    }
    worst |= {
        key: min(case[key] for case in cases.values())
        for key in ("ratio_text", "ratio_binary", "events_per_s_per_core", "scipy_events_per_s_per_core")
    }
    w1 = max((case["w1_rel_error"] for case in cases.values()), key=lambda error: error["median"])
    traces = _real(args.traces) if args.traces else {}
    ok = (
        worst["ratio_text"] >= MUST["ratio_text"] * STEPS[size] / STEPS["default"]
        and worst["ratio_binary"] >= MUST["ratio_binary"] * STEPS[size] / STEPS["default"]
        and w1["median"] <= MUST["w1_median"]
        and (size == "smoke" or worst["events_per_s_per_core"] >= MUST["events_per_s_per_core"])
    )
    return {**worst, "w1_rel_error": w1, "num_steps": STEPS[size], "cases": {**cases, **traces}, "ok": ok}


def table(result: Mapping[str, Any]) -> str:
    """One line per case; bytes are per rank and window."""
    lines = [
        "| case | events | text, MB | summary, KB | ÷ text | ÷ 24 B | W₁ error median / p95 | recon | M events/s | scipy |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, case in result["cases"].items():
        w1 = case["w1_rel_error"]
        error = f"{w1['median']:.2%} / {w1['p95']:.2%}" if w1 else "—"
        lines.append(
            f"| {name} | {case['events']:,} | {case['raw_text_bytes'] / 1e6:.1f} | {case['summary_bytes'] / 1e3:.2f} "
            f"| {case['ratio_text']:,.0f} | {case['ratio_binary']:,.0f} | {error} | {case['recon_rel']:.2%} "
            f"| {case['events_per_s_per_core'] / 1e6:.1f} | {case['scipy_events_per_s_per_core'] / 1e6:.3f} |"
        )
    return "\n".join(lines)


def _generate(sites: Sequence[Any], rng: np.random.Generator, *, num_steps: int) -> _Host:
    factors = [1.0] * HEALTHY + list(SLOWDOWNS)
    parts = [
        launches(sites, rng, num_steps=num_steps, speed=factor * (1 + DEVICE_SPREAD * rng.normal()))
        for factor in factors
    ]
    rows, names = parts[0]
    one_step = rows[rows["step"] == 0]
    return _Host(
        rows=[rows for rows, _ in parts],
        names=[names for _, names in parts],
        text=text_bytes(one_step, names) * num_steps,
        slowdown=factors,
    )


def _measure(host: _Host, *, size: Size) -> dict[str, Any]:
    import zstandard

    num_ranks, events = len(host.rows), sum(len(rows) for rows in host.rows)
    times = []
    for _ in range(1 if size == "smoke" else 3):
        start = time.process_time()
        summaries = [
            compress(rows, names=names, rank=rank)
            for rank, (rows, names) in enumerate(zip(host.rows, host.names, strict=True))
        ]
        blob = encode(summaries)
        upload = len(zstandard.compress(blob, 3))
        times.append(time.process_time() - start)
    known = len(zstandard.compress(encode(summaries, names={}), 3))
    opened = open_blob(blob)
    back = summaries_of(opened, texts=opened.texts())
    errors, recon = _fidelity(host, back)
    binary = RAW_EVENT_BYTES * events
    return {
        "events": events // num_ranks,
        "kernel_names": len({name for name, _ in summaries[0].kernels}),
        "clusters": len(summaries[0].clusters),
        "raw_text_bytes": host.text,
        "raw_binary_bytes": binary / num_ranks,
        "summary_bytes": upload / num_ranks,
        "summary_bytes_names_known": known / num_ranks,
        "stored_bytes": len(blob) / num_ranks,
        "ratio_text": host.text * num_ranks / upload,
        "ratio_binary": binary / upload,
        "w1_rel_error": errors,
        "recon_rel": recon,
        "events_per_s_per_core": events / sorted(times)[len(times) // 2],
        "scipy_events_per_s_per_core": _scipy_speed(host, groups=SCIPY_GROUPS[size]),
    }


def _fidelity(host: _Host, back: Sequence[KernelSummary]) -> tuple[dict[str, float], float]:
    """Errors of W₁ over kernels and pairs with an injected difference, and mean reconstruction error."""
    from scipy.stats import wasserstein_distance

    errors: list[float] = []
    recon: list[float] = []
    samples = [_durations(rows, names) for rows, names in zip(host.rows, host.names, strict=True)]
    shapes = [_mixtures(summary) for summary in back]
    for pair in shapes[0]:
        raw = [some[pair] for some in samples]
        shape = _stack([some[pair] for some in shapes])
        ours = matrix(quantile_profile(shape))
        nodes = quantile(shape, (np.arange(2000) + 0.5) / 2000)
        for rank in (0, len(raw) - 1):
            recon.append(wasserstein_distance(raw[rank], nodes[rank]) / raw[rank].mean())
        for i in range(len(raw)):
            for j in range(i):
                if host.slowdown[i] == host.slowdown[j]:
                    continue
                true = wasserstein_distance(raw[i][:PAIR_SAMPLES], raw[j][:PAIR_SAMPLES])
                if len(raw[i]) <= PAIR_SAMPLES:
                    errors.append(abs(float(ours[i, j]) - true) / true)
    if not errors:
        return {}, float(np.mean(recon))
    median, p95, worst = np.quantile(errors, [0.5, 0.95, 1.0])
    return {"median": float(median), "p95": float(p95), "max": float(worst)}, float(np.mean(recon))


def _durations(rows: Rows, names: Sequence[str]) -> dict[tuple[str, str], NDArray[np.float64]]:
    key = rows["name"].astype(np.int64) << 32 | rows["role"]
    order = np.argsort(key, kind="stable")
    seen, first = np.unique(key[order], return_index=True)
    parts = np.split(rows["dur_ns"][order].astype(np.float64), first[1:])
    return {
        (cut_name(names[int(k) >> 32]), names[int(k) & 0xFFFFFFFF]): part
        for k, part in zip(seen, parts, strict=True)
    }


def _mixtures(summary: KernelSummary) -> dict[tuple[str, str], Rows]:
    clusters = summary.clusters
    return {pair: clusters[clusters["kernel"] == i] for i, pair in enumerate(summary.kernels)}


def _stack(parts: Sequence[Rows]) -> Mixture:
    shape = (len(parts), max(len(part) for part in parts))
    columns = {name: np.zeros(shape) for name in ("count", "p50_ns", "p99_ns", "max_ns", "mean_ns")}
    for i, part in enumerate(parts):
        count: NDArray[np.float64] = part["count"].astype(np.float64)
        total: NDArray[np.float64] = part["sum_ns"].astype(np.float64)
        columns["count"][i, : len(part)] = count
        columns["mean_ns"][i, : len(part)] = np.log(total / count)
        for name in ("p50_ns", "p99_ns", "max_ns"):
            columns[name][i, : len(part)] = np.log(part[name])
    return fit(
        columns["count"].astype(np.int64),
        columns["p50_ns"],
        log_p99=columns["p99_ns"],
        log_max=columns["max_ns"],
        log_mean=columns["mean_ns"],
    )


def _scipy_speed(host: _Host, *, groups: int) -> float:
    """Events per second of the same summary written straight down with scipy."""
    from scipy.signal import argrelmin
    from scipy.stats import gaussian_kde

    parts = list(_durations(host.rows[0], host.names[0]).values())
    parts = [part for part in parts[:: max(1, len(parts) // groups)] if len(part) > 8 and np.ptp(part) > 0]
    start = time.process_time()
    for part in parts:
        logs = np.log(part)
        grid = np.linspace(logs.min(), logs.max(), 512)
        valley = grid[argrelmin(gaussian_kde(logs)(grid))[0]]
        for piece in np.split(np.sort(part), np.searchsorted(np.sort(logs), valley)):
            if len(piece):
                np.quantile(piece, [0.5, 0.99])
    return float(sum(map(len, parts)) / max(time.process_time() - start, 1e-9))


def _real(folder: Path) -> dict[str, Any]:
    """Each trace file alone: one step, so what there is to repeat is little."""
    import zstandard

    out = {}
    for name, (rows, names, text) in read_traces(folder).items():
        if not len(rows):
            continue
        start = time.process_time()
        summary = compress(rows, names=names, rank=0)
        blob = encode([summary])
        spent = time.process_time() - start
        upload = len(zstandard.compress(blob, 3))
        opened = open_blob(blob)
        host = _Host(rows=[rows], names=[names], text=text, slowdown=[1.0])
        _, recon = _fidelity(host, summaries_of(opened, texts=opened.texts()))
        out[name] = {
            "events": len(rows),
            "kernel_names": len(summary.kernels),
            "raw_text_bytes": text,
            "raw_binary_bytes": RAW_EVENT_BYTES * len(rows),
            "summary_bytes": upload,
            "ratio_text": text / upload,
            "ratio_binary": RAW_EVENT_BYTES * len(rows) / upload,
            "w1_rel_error": {},
            "recon_rel": recon,
            "events_per_s_per_core": len(rows) / max(spent, 1e-9),
            "scipy_events_per_s_per_core": _scipy_speed(host, groups=8),
        }
    return out
