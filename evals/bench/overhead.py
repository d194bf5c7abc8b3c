"""Step time with collectors on against off, paired blocks in random order in one run."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from argus.collectors.readers.recording import read
from argus.collectors.records.events import FLAG_PROFILED
from argus.evals.bench import Size
from argus.evals.stack import StackError, clean_env

RANKS = 2
BLOCK_STEPS: Mapping[str, int] = {"transformer": 2, "mlp": 2, "moe": 3, "pipeline": 3}
"""The steps of transformer and MLP (most of it 50 MB of gradients) last about 90 ms, the others' about 50 ms."""

SINGLE = ("phases", "collectives", "modules")
BASELINES = ("torch.profiler", "torch.profiler with stacks")
SCRIPT = Path(__file__).parents[1] / "workloads" / "overhead.py"
MANY: Mapping[Size, int] = {"smoke": 3, "default": 300, "full": 300}
"""Paired blocks of everything on, on the two workloads with a promise."""

FEW: Mapping[Size, int] = {"smoke": 1, "default": 40, "full": 300}
"""Paired blocks of every other arm and workload."""

MEMORY_STEPS: Mapping[Size, int] = {"smoke": 40, "default": 2000, "full": 2000}
SMOKE_WORKLOADS = ("transformer", "mlp")
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
    """A short look at the promise itself."""
    parser.add_argument(
        "--pairs",
        type=int,
        metavar="N",
        help="only `all`, `stopped` and `null`, N paired blocks, transformer and mlp",
    )


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Ratios per workload; `ok` if the upper bound of all-on keeps the budget (smoke: if it ran)."""
    names = SMOKE_WORKLOADS if size == "smoke" or args.pairs else tuple(BLOCK_STEPS)
    workloads = {name: _workload(name, size=size, pairs=args.pairs) for name in names}
    transformer = workloads["transformer"]
    uppers = [workloads[name]["channels"]["all"]["ci95"][1] for name in ("transformer", "mlp")]
    return {
        "channels": transformer["channels"],
        "workloads": workloads,
        "baselines": transformer["baselines"],
        "memory": _memory(MEMORY_STEPS[size]),
        "after_stop": {name: found["channels"]["stopped"] for name, found in workloads.items()},
        "ok": size == "smoke" or max(uppers) <= BUDGET,
    }


def plan_of(name: str, *, size: Size) -> list[tuple[int, list[str]]]:
    """(rounds, arms) of a workload: all arms in the first rounds, then only what needs many.

    >>> plan_of("mlp", size="default")
    [(40, ['off', 'all', 'stopped', 'null']), (260, ['off', 'all'])]
    """
    arms = ["off", "all", "stopped", "null"]
    if name == "transformer":
        arms += [*SINGLE, *BASELINES]
    rest = MANY[size] - FEW[size] if name in ("transformer", "mlp") else 0
    return [(FEW[size], arms), *([(rest, ["off", "all"])] if rest > 0 else [])]


def table(result: Mapping[str, Any]) -> str:
    """One line per workload and arm, then memory."""
    lines = ["| workload | step, ms | arm | ratio to off | 95 % | pairs | rows a step |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, workload in result["workloads"].items():
        for arm, row in [*workload["channels"].items(), *workload["baselines"].items()]:
            low, high = row["ci95"]
            rates = ", ".join(f"{kind} {value:.2f}" for kind, value in row["rates"].items()) or "—"
            lines.append(
                f"| {name} | {workload['step_ms']:.1f} | {arm} | {row['ratio']:.4f} "
                f"| {low:.4f} – {high:.4f} | {row['n']} | {rates} |"
            )
    memory = result["memory"]
    lines.append("")
    lines.append(
        f"Memory over {memory['steps']} steps of one rank of mlp with everything on: "
        f"{memory['slope_bytes_per_step']:+.0f} bytes a step, {memory['first_mib']:.0f} MiB at the start. "
        "`stopped` is everything taken out again, `null` a second model that was never observed; `modules` times them in every step, in use it is one in 50."
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


def slope_of(resident: Sequence[tuple[int, int]]) -> float:
    """Bytes a step, by least squares over the last three quarters: the first fills caches and pools."""
    late = np.array(resident[len(resident) // 4 :], np.float64)
    return float(np.polyfit(late[:, 0], late[:, 1], 1)[0])


def _workload(name: str, *, size: Size, pairs: int | None) -> dict[str, Any]:
    plan = [(pairs, ["off", "all", "stopped", "null"])] if pairs else plan_of(name, size=size)
    with tempfile.TemporaryDirectory(prefix="argus-overhead-") as text:
        directory = Path(text)
        rows = _run(name, directory, plan=plan)["rows"]
        rates = _rates(directory / "recording")
    arms = plan[0][1][1:]
    measured = {
        arm: asdict(compare([row for row in rows if arm in row], arm))
        | {"rates": rates if arm == "all" else {}}
        for arm in arms
    }
    return {
        "step_ms": float(np.median([row["off"] for row in rows])) * 1e3,
        "channels": {arm: row for arm, row in measured.items() if arm not in BASELINES},
        "baselines": {arm: row for arm, row in measured.items() if arm in BASELINES},
    }


def _memory(steps: int) -> dict[str, Any]:
    """Resident memory of a single rank of the MLP with everything on: without peers its steps take 15 ms."""
    with tempfile.TemporaryDirectory(prefix="argus-overhead-") as text:
        resident = _run("mlp", Path(text), ranks=1, memory_steps=steps)["resident"]
    return {
        "steps": steps,
        "slope_bytes_per_step": slope_of(resident),
        "first_mib": resident[0][1] / 2**20,
        "last_mib": resident[-1][1] / 2**20,
    }


def _run(
    name: str,
    directory: Path,
    *,
    plan: Sequence[tuple[int, list[str]]] = (),
    ranks: int = RANKS,
    memory_steps: int = 0,
) -> dict[str, Any]:
    command = [
        *(sys.executable, "-m", "argus", "run", "--run", f"overhead-{name}"),
        *("--socket", str(directory / "socket" / "processor.sock"), "--record", str(directory / "recording")),
        *("--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)),
        *("--master-addr", "127.0.0.1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"),
        *(str(SCRIPT), "--workload", name, "--plan", json.dumps(plan)),
        *("--block-steps", str(BLOCK_STEPS[name]), "--memory-steps", str(memory_steps)),
        *("--out", str(directory / "blocks.json")),
    ]
    env = clean_env({"ARGUS_GOVERNOR": "0"})  # the blocks are the shadow steps here
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(f"the {name} workload ended with code {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads((directory / "blocks.json").read_text())
    return found


def _rates(recording: Path) -> dict[str, float]:
    """What rank 0 recorded per step in which phases were on, over all arms that have them."""
    records = next(iter(read(recording / "rank-0.argus"))).records
    outermost = records.phases["depth"] == 0
    steps = max(len(np.unique(records.phases["step"][outermost])), 1)
    profiled = int(((records.steps["flags"] & FLAG_PROFILED) != 0).sum())
    return {
        "phases": int(outermost.sum()) / steps,
        "inner phases": int((~outermost).sum()) / steps,
        "collectives": len(records.collectives) / steps,
        "kernels": len(records.kernels) / steps,
        "events": len(records.events) / steps,
        "profiled steps": profiled / max(len(records.steps), 1),
    }
