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
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from argus.api.timeline import timeline
from argus.collectors.readers import ReaderError
from argus.collectors.readers.recording import read
from argus.collectors.records.events import DTYPES, RankRecords
from argus.evals.bench.overhead import compare
from argus.evals.stack import clean_env

SCRIPT = Path(__file__).parent / "workloads" / "gpu.py"
JOB_S = 440.0
"""Of the eight minutes: the rest is for starting, reading and the figures."""

WRITTEN_S, QUIET_S = 20.0, 2.0
"""How long the processor may go on writing, and how long a file that grows no more is watched."""

BLOCKS = 40
SHOWN = 20  # kernels that disagree; all are in the JSON
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


def figures(measured: Mapping[str, Any], records: RankRecords) -> dict[str, Any]:
    """The check's result of what the job measured and of what was recorded of it; a part that is missing fails."""
    pairs, middle, blocks = (measured.get(name, {}) for name in ("pairs", "middle", "blocks"))
    matches = match(durations(records, pairs["steps"]), pairs["profiler"]) if pairs else []
    paths = {name: path_figures(measured[name], records) for name in ("raw", "objects") if name in measured}
    arms = {name: vars(compare(blocks, name)) for name in blocks[0] if name != "off"} if blocks else {}
    per_step = [path["per_step"] for path in paths.values()]
    checks = {
        "counts and medians agree with torch.profiler": bool(matches) and all(m.agrees for m in matches),
        "the raw path reads what it is given": "raw" in paths and paths["raw"]["how"] == "raw",
        "raw and objects give the same kernels": len(per_step) == 2 and per_step[0] == per_step[1] != [0],
        "we stand aside for torch.profiler": bool(middle)
        and middle["stood_aside"]
        and middle["profiler_events"] > 0,
        "no kernels of ours meanwhile": bool(middle) and not any(counts(records, middle["during"])[1:-1]),
        "we come back": bool(middle) and all(counts(records, middle["after"])[1:-1]),
        "the cost was measured": bool(blocks),
        "the job ended in order": "job" not in measured["failed"],
    }
    return {
        "gpu": measured["gpu"],
        "torch": measured["torch"],
        "step_ms": float(np.median([row["off"] for row in blocks])) * 1e3 if blocks else None,
        "arms": arms,
        "kernels": [vars(m) | {"agrees": m.agrees} for m in matches],
        "paths": paths,
        "bytes_per_rank_step": perfetto_bytes(records, measured["raw"]["steps"]) if "raw" in paths else None,
        "paper_bytes_per_rank_step": PAPER_BYTES,
        "seconds": {name[:-2]: took for name, took in measured.items() if name.endswith("_s")},
        "checks": checks,
        "failed": measured["failed"],
        "notes": measured["notes"],
        "dropped": measured["dropped"],
        "ok": all(checks.values()),
    }


def perfetto_bytes(records: RankRecords, steps: Sequence[int]) -> float:
    """Bytes a step of the file that `argus capture` makes of these steps."""
    rows = {kind: getattr(records, kind) for kind in DTYPES}
    part = replace(records, **{kind: some[np.isin(some["step"], steps)] for kind, some in rows.items()})
    return len(timeline([part], metadata={})) / max(len(steps), 1)


def path_figures(one: Mapping[str, Any], records: RankRecords) -> dict[str, Any]:
    """Cost of one way to read buffers; the first and last step may be cut by the switch."""
    per_step = counts(records, one["steps"][1:-1])
    return {
        "per_step": sorted(set(per_step)),
        "how": one["how"],
        "records_per_s": one["records"] / one["seconds"],
        "decode_us_per_record": one["decode_ns"] / max(one["records"], 1) / 1e3,
        "buffers": one["buffers"],
    }


def table(result: Mapping[str, Any]) -> str:
    """The figures as Markdown."""
    step = "unknown" if result["step_ms"] is None else f"{result['step_ms']:.1f} ms"
    lines = [f"{result['gpu']}, torch {result['torch']}, step {step}", ""]
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
    lines += [_disagreement(kernel) for kernel in result["kernels"] if not kernel["agrees"]][:SHOWN]
    if result["bytes_per_rank_step"] is not None:
        ratio = result["bytes_per_rank_step"] / PAPER_BYTES
        lines.append(f"{result['bytes_per_rank_step']:.0f} bytes a rank and step, {ratio:.2f} × the paper's")
    lines += [f"{name} failed: {why}" for name, why in result["failed"].items()]
    lines += [f"{'yes' if ok else 'NO '}  {name}" for name, ok in result["checks"].items()]
    return "\n".join(lines)


def _disagreement(kernel: Mapping[str, Any]) -> str:
    return (
        f"  {kernel['name']}: {kernel['ours']} launches of {kernel['our_ns']:.0f} ns, "
        f"torch.profiler {kernel['theirs']} of {kernel['their_ns']:.0f} ns"
    )


def run_job(directory: Path, *, num_blocks: int, is_dry: bool) -> dict[str, Any]:
    """The workload under `argus run`, with a recording. Raises RuntimeError if it measured nothing."""
    out = directory / "measured.json"
    command = [
        *(sys.executable, "-m", "argus", "run", "--run", "gpu-check"),
        *("--socket", str(directory / "socket" / "processor.sock"), "--record", str(directory / "recording")),
        *("--", sys.executable, str(SCRIPT), "--blocks", str(num_blocks), "--out", str(out)),
        *(["--dry-run"] if is_dry else []),
    ]
    env = clean_env({"ARGUS_GOVERNOR": "0"} | ({"ARGUS_OPERATOR_STEPS": "0"} if is_dry else {}))
    why = ""
    with (directory / "job.log").open("wb") as log:
        try:
            done = subprocess.run(command, env=env, stdout=log, stderr=log, check=False, timeout=JOB_S)
            why = f"the workload ended with code {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            why = f"the workload did not end within {JOB_S:.0f} s"
    said = (directory / "job.log").read_text(errors="replace")[-4000:]
    if not out.exists():
        raise RuntimeError(f"{why or 'the workload measured nothing'}:\n{said}")
    measured: dict[str, Any] = json.loads(out.read_text())
    if why:
        measured["failed"]["job"] = f"{why}: {said[-1000:]}"
    return measured


def recorded(path: Path, *, now_s: Callable[[], float]) -> RankRecords:
    """What was recorded, once the processor writes no more. Raises ReaderError and OSError."""
    end_s, size = now_s() + WRITTEN_S, -1
    while now_s() < end_s and size != path.stat().st_size:
        size = path.stat().st_size
        time.sleep(QUIET_S)
    return next(iter(read(path))).records


def why_not() -> str:
    """Why the check cannot run here, empty if it can."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "this machine has no GPU that torch can use"
    if find_spec("cupti") is None:
        return "cupti-python is not installed: pip install 'argus-triage[gpu]'"
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Check; 0 if all holds, 1 if not, 2 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="paired blocks (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON there too")
    parser.add_argument(
        "--dry-run", action="store_true", help="go the whole way on a CPU with a stand-in for CUPTI"
    )
    args = parser.parse_args(argv)
    reason = "" if args.dry_run else why_not()
    if reason:
        print(f"gpu_check: {reason}; run it where there is one.", file=sys.stderr)
        return EXIT_NO_GPU
    with tempfile.TemporaryDirectory(prefix="argus-gpu-check-") as text:
        directory = Path(text)
        try:
            measured = run_job(directory, num_blocks=args.blocks, is_dry=args.dry_run)
            records = recorded(directory / "recording" / "rank-0.argus", now_s=time.monotonic)
        except (RuntimeError, OSError, ReaderError) as error:
            print(f"gpu_check: {error}", file=sys.stderr)
            return EXIT_FAILED
        result = figures(measured, records)
    print(table(result))
    print(json.dumps(result))
    if args.json:
        args.json.write_text(json.dumps(result))
    return 0 if result["ok"] else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
