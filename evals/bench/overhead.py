"""Step time with every collector on against off, paired blocks in random order in one run."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from argus.collectors.readers.recording import read
from argus.evals.bench import Size
from argus.evals.stack import StackError, clean_env

RANKS = 2
WORKLOADS = ("transformer", "mlp")
TRIPLES: Mapping[Size, int] = {"smoke": 6, "default": 300, "full": 300}
# The transformer's step lasts about 100 ms, the MLP's about 15 ms.
BLOCK_STEPS: Mapping[str, int] = {"transformer": 2, "mlp": 10}
SCRIPT = Path(__file__).parents[1] / "workloads" / "overhead.py"
TRIM = 0.2  # of the log ratios on each side: other tenants' bursts hit single blocks
RESAMPLES = 4000
BUDGET = 1.02


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm against off."""

    ratio: float
    ci95: tuple[float, float]
    n: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Ratios per workload; `ok` if the upper bound of all-on keeps the budget (smoke: if it ran)."""
    workloads = {name: _workload(name, triples=TRIPLES[size]) for name in WORKLOADS}
    uppers = [w["channels"]["all"]["ci95"][1] for w in workloads.values()]
    return {
        "channels": workloads["transformer"]["channels"],
        "workloads": workloads,
        "baselines": {},
        "ok": size == "smoke" or max(uppers) <= BUDGET,
    }


def table(result: Mapping[str, Any]) -> str:
    """One line per workload and arm."""
    lines = ["| workload | step, ms | arm | ratio to off | 95 % | pairs | phases, collectives a step |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, workload in result["workloads"].items():
        for arm, row in workload["channels"].items():
            low, high = row["ci95"]
            rates = ", ".join(f"{value:.1f}" for value in row["rates"].values()) or "—"
            lines.append(
                f"| {name} | {workload['step_ms']:.1f} | {arm} | {row['ratio']:.4f} "
                f"| {low:.4f} – {high:.4f} | {row['n']} | {rates} |"
            )
    return "\n".join(lines)


def compare(rows: Sequence[Mapping[str, float]], arm: str) -> Arm:
    """Trimmed mean of the pairs' log ratios, with a bootstrap interval."""
    logs = np.log([row[arm] / row["off"] for row in rows])
    rng = np.random.default_rng(0)
    draws = rng.choice(logs, (RESAMPLES, len(logs)))
    low, high = np.quantile(_trimmed(draws), (0.025, 0.975))
    ratio = float(np.exp(_trimmed(logs[None])[0]))
    return Arm(ratio=ratio, ci95=(float(np.exp(low)), float(np.exp(high))), n=len(logs))


def _trimmed(rows: np.ndarray) -> np.ndarray:
    cut = int(rows.shape[1] * TRIM)
    ordered = np.sort(rows, axis=1)
    kept: np.ndarray = ordered[:, cut : rows.shape[1] - cut].mean(axis=1)
    return kept


def _workload(name: str, *, triples: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="argus-overhead-") as text:
        directory = Path(text)
        _run(name, directory, triples=triples)
        rows = json.loads((directory / "blocks.json").read_text())
        rates = _rates(directory / "recording")
    on, null = compare(rows, "on"), compare(rows, "null")
    return {
        "step_ms": float(np.median([row["off"] for row in rows])) * 1e3,
        "channels": {
            "all": {"ratio": on.ratio, "ci95": on.ci95, "n": on.n, "rates": rates},
            "none (noise of the method)": {"ratio": null.ratio, "ci95": null.ci95, "n": null.n, "rates": {}},
        },
    }


def _run(name: str, directory: Path, *, triples: int) -> None:
    command = [
        *(sys.executable, "-m", "argus", "run", "--run", f"overhead-{name}"),
        *("--socket", str(directory / "socket" / "processor.sock"), "--record", str(directory / "recording")),
        *("--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)),
        *("--master-addr", "127.0.0.1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"),
        *(str(SCRIPT), "--workload", name, "--triples", str(triples)),
        *("--block-steps", str(BLOCK_STEPS[name]), "--out", str(directory / "blocks.json")),
    ]
    done = subprocess.run(command, env=clean_env(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(f"the {name} workload ended with code {done.returncode}:\n{done.stderr[-2000:]}")


def _rates(recording: Path) -> dict[str, float]:
    """What was recorded per observed step of rank 0."""
    records = next(iter(read(recording / "rank-0.argus"))).records
    seen = np.unique(records.phases["step"][records.phases["depth"] == 0])
    steps = max(len(seen), 1)
    return {"phases": len(records.phases) / steps, "collectives": len(records.collectives) / steps}
