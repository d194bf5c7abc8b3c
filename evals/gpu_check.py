"""What can only be checked on a GPU, in at most eight minutes: `python -m argus.evals.gpu_check`.

Cost of the collectors beside torch.profiler's, CUPTI's records against torch.profiler's on alternating
steps, the raw path against the object path, records a second, bytes a step, a profiler in the middle.
"""

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
from argus.collectors.records.events import RankRecords
from argus.evals.bench.overhead import compare
from argus.evals.stack import clean_env

SCRIPT = Path(__file__).parent / "workloads" / "gpu.py"
LIMIT_S = 480
BLOCKS = 40
NEAR_NS = 1_000  # medians of two profilers agree within a microsecond
NEAR_RATIO = 0.01  # or a hundredth
PAPER_BYTES = 443_000  # Perfetto bytes a rank and step that the paper reports

EXIT_FAILED = 1
EXIT_NO_GPU = 2


@dataclass(frozen=True, kw_only=True)
class KernelMatch:
    """One kernel as two profilers saw it; durations are medians in ns."""

    name: str
    ours: int
    theirs: int
    our_ns: float
    their_ns: float

    @property
    def agrees(self) -> bool:
        """Equal counts, medians within a microsecond or a hundredth."""
        near_ns = max(NEAR_NS, NEAR_RATIO * self.their_ns)
        return self.ours == self.theirs and abs(self.our_ns - self.their_ns) <= near_ns


def match(ours: Mapping[str, Sequence[int]], theirs: Mapping[str, Sequence[int]]) -> list[KernelMatch]:
    """Kernel by kernel; one that only one side saw has a median of 0 on the other."""
    return [
        KernelMatch(
            name=name,
            ours=len(ours.get(name, ())),
            theirs=len(theirs.get(name, ())),
            our_ns=float(np.median(ours[name])) if ours.get(name) else 0.0,
            their_ns=float(np.median(theirs[name])) if theirs.get(name) else 0.0,
        )
        for name in sorted({*ours, *theirs})
    ]


def durations(records: RankRecords, steps: Sequence[int]) -> dict[str, list[int]]:
    """Durations by kernel of the given steps."""
    rows = records.kernels[np.isin(records.kernels["step"], steps)]
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(records.name(int(row["name"])), []).append(int(row["dur_ns"]))
    return found


def counts(records: RankRecords, steps: Sequence[int]) -> list[int]:
    """Kernels in each of the given steps."""
    return [int((records.kernels["step"] == step).sum()) for step in steps]


def figures(measured: Mapping[str, Any], records: RankRecords, *, num_bytes: int) -> dict[str, Any]:
    """The check's result of what the job measured and of what was recorded of it."""
    pairs, middle = measured["pairs"], measured["middle"]
    matches = match(durations(records, pairs["steps"]), pairs["profiler"])
    raw, objects = (path_figures(measured[name], records) for name in ("raw", "objects"))
    arms = {name: vars(compare(measured["blocks"], name)) for name in measured["blocks"][0] if name != "off"}
    checks = {
        "counts and medians agree with torch.profiler": bool(matches) and all(m.agrees for m in matches),
        "raw and objects give the same kernels": raw["per_step"] == objects["per_step"],
        "we stand aside for torch.profiler": middle["stood_aside"] and middle["profiler_events"] > 0,
        "no kernels of ours meanwhile": not any(counts(records, middle["during"])[1:-1]),
        "we come back": all(counts(records, middle["after"])[1:-1]),
    }
    return {
        "gpu": measured["gpu"],
        "torch": measured["torch"],
        "step_ms": float(np.median([row["off"] for row in measured["blocks"]])) * 1e3,
        "arms": arms,
        "kernels": [vars(m) | {"agrees": m.agrees} for m in matches],
        "paths": {"raw": raw, "objects": objects},
        "bytes_per_rank_step": num_bytes / max(len(records.steps), 1),
        "checks": checks,
        "notes": measured["notes"],
        "dropped": measured["dropped"],
        "ok": all(checks.values()),
    }


def path_figures(one: Mapping[str, Any], records: RankRecords) -> dict[str, Any]:
    """Cost of one way to read buffers; the first and last step may be cut by the switch."""
    per_step = counts(records, one["steps"][1:-1])
    return {
        "per_step": sorted(set(per_step)),
        "records_per_s": one["records"] / one["seconds"],
        "decode_us_per_record": one["decode_ns"] / max(one["records"], 1) / 1e3,
        "buffers": one["buffers"],
    }


def table(result: Mapping[str, Any]) -> str:
    """The figures as Markdown."""
    lines = [f"{result['gpu']}, torch {result['torch']}, step {result['step_ms']:.1f} ms", ""]
    lines += ["| arm | ratio to off | 95 % | blocks |", "|---|---|---|---|"]
    for name, arm in result["arms"].items():
        low, high = arm["ci95"]
        lines.append(f"| {name} | {arm['ratio']:.4f} | {low:.4f} – {high:.4f} | {arm['n']} |")
    lines += ["", "| path | records/s | decoding, µs a record | kernels a step |", "|---|---|---|---|"]
    for name, path in result["paths"].items():
        cost = path["decode_us_per_record"]
        lines.append(f"| {name} | {path['records_per_s']:.0f} | {cost:.2f} | {path['per_step']} |")
    agreeing = sum(kernel["agrees"] for kernel in result["kernels"])
    lines += ["", f"{agreeing} of {len(result['kernels'])} kernels agree with torch.profiler"]
    ratio = result["bytes_per_rank_step"] / PAPER_BYTES
    lines.append(f"{result['bytes_per_rank_step']:.0f} bytes a rank and step, {ratio:.2f} × the paper's")
    lines += [f"{'yes' if ok else 'NO '}  {name}" for name, ok in result["checks"].items()]
    return "\n".join(lines)


def run_job(directory: Path, *, num_blocks: int) -> dict[str, Any]:
    """The workload under `argus run`, with a recording. Raises RuntimeError if it failed."""
    command = [
        *(sys.executable, "-m", "argus", "run", "--run", "gpu-check"),
        *("--socket", str(directory / "socket" / "processor.sock"), "--record", str(directory / "recording")),
        *("--", sys.executable, str(SCRIPT), "--blocks", str(num_blocks)),
        *("--out", str(directory / "measured.json")),
    ]
    done = subprocess.run(
        command, env=clean_env(), capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    if done.returncode:
        raise RuntimeError(f"the workload ended with code {done.returncode}:\n{done.stderr[-4000:]}")
    measured: dict[str, Any] = json.loads((directory / "measured.json").read_text())
    return measured


def why_not() -> str:
    """Why the check cannot run here, empty if it can."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return "" if torch.cuda.is_available() else "this machine has no GPU that torch can use"


def main(argv: Sequence[str] | None = None) -> int:
    """Check; 0 if all holds, 1 if not, 2 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="paired blocks (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON there too")
    args = parser.parse_args(argv)
    reason = why_not()
    if reason:
        print(f"gpu_check: {reason}; run it where there is one.", file=sys.stderr)
        return EXIT_NO_GPU
    with tempfile.TemporaryDirectory(prefix="argus-gpu-check-") as text:
        directory = Path(text)
        try:
            measured = run_job(directory, num_blocks=args.blocks)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"gpu_check: {error}", file=sys.stderr)
            return EXIT_FAILED
        recording = directory / "recording" / "rank-0.argus"
        records = next(iter(read(recording))).records
        result = figures(measured, records, num_bytes=recording.stat().st_size)
    print(table(result))
    print(json.dumps(result))
    if args.json:
        args.json.write_text(json.dumps(result))
    return 0 if result["ok"] else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
