"""Step time with collectors on against off, paired blocks in turns of random order in one run."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import theilslopes

from argus.collectors.host.stack_plan import BASELINE_S
from argus.collectors.readers.recording import read
from argus.collectors.records.channels import BLOCK_STEPS as SAMPLE_EVERY
from argus.collectors.records.events import RankRecords
from argus.evals.arms import PROFILERS, SHORT, SINGLE, Part
from argus.evals.bench import Size
from argus.evals.dumper import Dumped, Dumper
from argus.evals.stack import StackError, clean_env

RANKS = 2
BLOCK_STEPS: Mapping[str, int] = {"transformer": 2, "mlp": 2, "moe": 2, "pipeline": 2}
"""The batch of the transformer and of moe is fitted to the machine's hour, so that a step lasts 90 and 60 ms; the others'
is fixed."""

LONG_TURN = 5
"""Blocks in a row where there are many arms. The n-th of an arm's turn is paired with the n-th of the others', a second
apart: on a shared machine that makes the interval of the same steps 1.7 times as wide as pairs of neighbours do."""

KEEP_HEAP = {"MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
"""glibc gives the top of its heap back to the system and faults it in again: 11,000 faults or a third of the MLP's step,
or none of it, by what happens to lie above the gradients. That would tell models apart, not arms."""

SCRIPT = Path(__file__).parents[1] / "workloads" / "overhead.py"
MANY: Mapping[Size, int] = {"smoke": 3, "default": 300, "full": 300}
"""Paired blocks of everything on, on the two workloads with a promise."""

FEW: Mapping[Size, int] = {"smoke": 2, "default": 40, "full": 300}
"""Paired blocks of every other arm and workload."""

MEMORY_STEPS: Mapping[Size, int] = {"smoke": 40, "default": 2000, "full": 2000}
MEMORY_WARM: Mapping[Size, int] = {"smoke": 0, "default": 2000, "full": 2000}
"""Steps of a narrow twin before these: in them heap, rings and pools find their size, ten megabytes of it with everything
on, and that does not go by the width of a layer."""

MEMORY_SETTLE = 200
"""Steps of the model itself that are not counted: its own buffers."""

PROMISED = ("transformer", "mlp")
"""Workloads with a promise; `--pairs` is a look at these."""

TRIM = 0.2  # of the log ratios on each side: other tenants' bursts hit single blocks
RESAMPLES = 4000
BUDGET = 1.02
READY_S = 60.0


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
    names = PROMISED if args.pairs else PROMISED[:1] if size == "smoke" else tuple(BLOCK_STEPS)
    workloads = {name: _workload(name, size=size, pairs=args.pairs) for name in names}
    transformer = workloads["transformer"]
    promised = {name: workloads[name]["channels"] for name in PROMISED if name in workloads}
    return {
        "channels": transformer["channels"],
        "workloads": workloads,
        "baselines": transformer["baselines"],
        "memory": _memory(MEMORY_STEPS[size], warm=MEMORY_WARM[size]),
        "after_stop": {name: channels["stopped"] for name, channels in promised.items()},
        "ok": size == "smoke" or all(channels["all"]["ci95"][1] <= BUDGET for channels in promised.values()),
    }


def plan_of(name: str, *, size: Size) -> list[Part]:
    """What has no promise to keep, then everything on.

    >>> plan_of("mlp", size="default")
    [Part(rounds=40, turn=1, arms=['off', 'stopped']), Part(rounds=300, turn=1, arms=['off', 'all'])]
    """
    few = FEW[size]
    if name not in PROMISED:
        return [Part(few, 1, ["off", "all"])]
    bare, every = ["off", "stopped"], Part(MANY[size], 1, ["off", "all"])
    if name == "mlp":
        return [Part(few, 1, bare), every]
    turn = 1 if size == "smoke" else LONG_TURN
    return [Part(few // turn, turn, ["off", *SINGLE, *PROFILERS]), Part(few, 1, [*bare, "null"]), every]


def table(result: Mapping[str, Any]) -> str:
    """One line per workload and arm, then memory."""
    lines = [
        "| workload | batch | step, ms | arm | ratio to off | 95 % | as timed | pairs | in use | rates |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for name, workload in result["workloads"].items():
        for arm, row in [*workload["channels"].items(), *workload["baselines"].items()]:
            low, high = row["ci95"]
            rates = ", ".join(f"{kind} {value:.2f}" for kind, value in row["rates"].items()) or "—"
            lines.append(
                f"| {name} | {workload['batch']} | {workload['step_ms']:.1f} | {arm} | {row['ratio']:.4f} "
                f"| {low:.4f} – {high:.4f} | {_as_timed(row)} | {row['n']} | {row['in_use']:.4f} | {rates} |"
            )
    memory = result["memory"]
    text = (
        f"Memory over {memory['steps']} steps of one rank of mlp with everything on, after {memory['warm_steps']} of a narrow twin: "
        f"{memory['slope_bytes_per_step']:+.0f} bytes a step, {memory['first_mib']:.0f} MiB at the start. "
        "`stopped` is everything taken out again, `null` a second model that was never observed. The blocks of "
        "`modules`, `kernels` and `stacks` hold more of theirs than a run does: `in use` is what is left of their "
        "cost at one step in 50 and one dump a minute. `all` has them at that rate, its sampled blocks weighed in."
    )
    return "\n".join([*lines, "", text + " " + _told_of_steal(result)])


def _as_timed(row: Mapping[str, Any]) -> str:
    low, high = row["as_timed"]["ci95"]
    return f"{row['as_timed']['ratio']:.4f} ({low:.4f} – {high:.4f})"


def _told_of_steal(result: Mapping[str, Any]) -> str:
    stolen = ", ".join(f"{name} {one['stolen']:.1%}" for name, one in result["workloads"].items())
    return (
        "Ratios are without the processor time that the hypervisor gave to others, whose part in a block's time is a slope "
        f"over all pairs of a workload; `as timed` they are with it. Stolen in a second of a block: {stolen}."
    )


def compare(
    rows: Sequence[Mapping[str, float]],
    arm: str,
    *,
    turns: Sequence[int] | None = None,
    sampled: Collection[int] = (),
    share: float = 0.0,
) -> Arm:
    """Trimmed mean of the pairs' log ratios, with an interval from a bootstrap of whole turns.

    `turns` has the turn of each row; without it each is one of its own. Rows `sampled` make a mean of their own that
    counts for `share`: trimming would leave all of them out.
    """
    found: tuple[dict[int, list[float]], ...] = ({}, {})
    for i, row in enumerate(rows):
        if arm in row:
            turn = turns[i] if turns is not None else i
            found[i in sampled].setdefault(turn, []).append(float(np.log(row[arm] / row["off"])))
    plain, special = ([np.array(logs) for logs in kind.values()] for kind in found)
    weight = share if plain and special else float(not plain)
    rng = np.random.default_rng(0)
    ratio, draws = 0.0, np.zeros(RESAMPLES)
    for part, logs in ((1 - weight, plain), (weight, special)):
        if logs:
            ratio += part * _trimmed(logs)
            chosen = rng.integers(len(logs), size=(RESAMPLES, len(logs)))
            draws += part * np.array([_trimmed([logs[i] for i in row]) for row in chosen.tolist()])
    low, high = np.quantile(draws, (0.025, 0.975))
    return Arm(ratio=ratio, ci95=(float(low), float(high)), n=sum(map(len, [*plain, *special])))


def calmed(
    rows: Sequence[Mapping[str, float]], stolen: Sequence[Mapping[str, float]]
) -> tuple[list[dict[str, float]], float]:
    """Rows as they would be had the hypervisor given no processor to others, and the slope by which that is known.

    `stolen` has the stolen seconds in each second of a block. What a share of them costs is the median slope over all
    pairs of pairs (Theil and Sen) of the logarithm of their ratio over the difference of their shares, arms centred;
    that is most of a shared machine's noise, and no arm's doing.

    >>> rows = [{"off": 1.0, "on": 1.1}, {"off": 1.0, "on": 1.1 * float(np.exp(0.1))}, {"off": 1.0, "on": 1.1}]
    >>> stolen = [{"off": 0.0, "on": 0.0}, {"off": 0.0, "on": 0.2}, {"off": 0.0, "on": 0.0}]
    >>> calm, slope = calmed(rows, stolen)
    >>> [round(row["on"], 3) for row in calm], round(slope, 3)
    ([1.1, 1.1, 1.1], 0.5)
    """
    logs, shares = list[float](), list[float]()
    for arm in sorted({arm for row in rows for arm in row} - {"off"}):
        pairs = [(row, gone) for row, gone in zip(rows, stolen, strict=True) if arm in row]
        log = np.array([np.log(row[arm] / row["off"]) for row, _ in pairs])
        share = np.array([gone[arm] - gone["off"] for _, gone in pairs])
        logs += (log - np.median(log)).tolist()
        shares += (share - np.median(share)).tolist()
    slope = max(float(theilslopes(logs, shares).slope), 0.0) if np.ptp(shares) > 0 else 0.0
    calm = [
        {arm: seconds * float(np.exp(-slope * gone[arm])) for arm, seconds in row.items()}
        for row, gone in zip(rows, stolen, strict=True)
    ]
    return calm, slope


def _trimmed(turns: Sequence[np.ndarray]) -> float:
    """The ratio whose logarithm is the trimmed mean of all the turns' ones."""
    logs = np.sort(np.concatenate(turns))
    cut = int(len(logs) * TRIM)
    return float(np.exp(logs[cut : len(logs) - cut].mean()))


def slope_of(resident: Sequence[tuple[int, int]]) -> float:
    """Bytes a step, by least squares."""
    seen = np.array(resident, np.float64)
    return float(np.polyfit(seen[:, 0], seen[:, 1], 1)[0])


def _workload(name: str, *, size: Size, pairs: int | None) -> dict[str, Any]:
    begun_s = time.monotonic()
    plan = [Part(pairs, 1, ["off", "all", "stopped", "null"])] if pairs else plan_of(name, size=size)
    with tempfile.TemporaryDirectory(prefix="argus-overhead-") as text:
        directory = Path(text)
        told, dumped = _run(name, directory, plan=plan)
        records = next(iter(read(directory / "recording" / "rank-0.argus"))).records
    rows, share = told["rows"], BLOCK_STEPS[name] / SAMPLE_EVERY
    calm, slope = calmed(rows, told["stolen"])
    measured = {}
    for arm in dict.fromkeys(arm for part in plan for arm in part.arms[1:]):
        is_all = arm == "all"
        sampled = told["sampled"] if is_all else ()
        found, timed = (
            compare(some, arm, turns=told["turns"], sampled=sampled, share=share) for some in (calm, rows)
        )
        num_steps = 1 if arm in SHORT else BLOCK_STEPS[name]
        took_s = sum(row[arm] for row in rows if arm in row) * num_steps
        rates = _rates(records, told["steps"].get(arm, ())) | _dump_rate(dumped.dumps.get(arm, 0), took_s)
        in_use = 1 + (found.ratio - 1) * _share_in_use(arm, rates)
        as_timed = {"ratio": timed.ratio, "ci95": timed.ci95}
        measured[arm] = asdict(found) | {"as_timed": as_timed, "in_use": in_use, "rates": rates}
    return {
        "step_ms": float(np.median([row["off"] for row in rows])) * 1e3,
        "batch": told["batch"],
        "wall_s": time.monotonic() - begun_s,
        "stolen": float(np.mean([share for row in told["stolen"] for share in row.values()])),
        "stolen_slope": slope,
        "channels": {arm: row for arm, row in measured.items() if arm not in PROFILERS},
        "baselines": {arm: row for arm, row in measured.items() if arm in PROFILERS},
    }


def _share_in_use(arm: str, rates: Mapping[str, float]) -> float:
    """How much of an arm's rate a run has; 1 for what is in every step."""
    if arm in ("modules", "kernels"):
        return 1 / SAMPLE_EVERY
    rate = rates.get("dumps a minute and rank", 0.0)
    return min(60.0 / BASELINE_S / rate, 1.0) if arm == "stacks" and rate else 1.0


def _memory(steps: int, *, warm: int) -> dict[str, Any]:
    """Resident memory of a single rank of the MLP with everything on: without peers and with one sample a step is short."""
    with tempfile.TemporaryDirectory(prefix="argus-overhead-") as text:
        told = _run("mlp", Path(text), ranks=1, memory_steps=MEMORY_SETTLE + steps, warm_steps=warm)[0]
    resident = [(step, size) for step, size in told["resident"] if step >= MEMORY_SETTLE]
    return {
        "steps": steps,
        "warm_steps": warm,
        "slope_bytes_per_step": slope_of(resident),
        "first_mib": resident[0][1] / 2**20,
        "last_mib": resident[-1][1] / 2**20,
    }


def _run(
    name: str,
    directory: Path,
    *,
    plan: Sequence[Part] = (),
    ranks: int = RANKS,
    memory_steps: int = 0,
    warm_steps: int = 0,
) -> tuple[dict[str, Any], Dumped]:
    """The workload's own figures, and what was dumped. The processor leaves the dumps of blocks to us."""
    socket = directory / "socket" / "processor.sock"
    command = [
        *(sys.executable, "-m", "argus", "run", "--run", f"overhead-{name}", "--no-processor"),
        *("--socket", str(socket), "--", sys.executable, "-m", "torch.distributed.run"),
        *("--nproc-per-node", str(ranks), "--master-addr", "127.0.0.1", "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", "127.0.0.1:0", str(SCRIPT), "--workload", name, "--plan", json.dumps(plan)),
        *("--block-steps", str(BLOCK_STEPS[name]), "--memory-steps", str(memory_steps)),
        *("--warm-steps", str(warm_steps)),
        *("--out", str(directory / "blocks.json")),
    ]
    env = clean_env({"ARGUS_GOVERNOR": "0"} | KEEP_HEAP)  # the blocks are the shadow steps here
    with _processor(directory, socket, has_stacks=not plan), Dumper(directory, num_ranks=ranks) as dumper:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(f"the {name} workload ended with code {done.returncode}:\n{done.stderr[-2000:]}")
    if dumper.done.errors:
        raise StackError(
            f"stack dumps of {name} failed ({dumper.done.errors}); is py-spy installed and allowed?"
        )
    told: dict[str, Any] = json.loads((directory / "blocks.json").read_text())
    return told, dumper.done


@contextmanager
def _processor(directory: Path, socket: Path, *, has_stacks: bool) -> Iterator[None]:
    """A processor that records, with its default settings but for the stacks; ended in order."""
    command = [
        *(sys.executable, "-m", "argus", "processor", "--socket", str(socket), "--metrics-port", "-1"),
        *("--record", str(directory / "recording"), *([] if has_stacks else ["--no-stacks"])),
    ]
    log = directory / "processor.log"
    socket.parent.mkdir(mode=0o700)
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=clean_env(), stdout=file, stderr=file)
    try:
        end_s = time.monotonic() + READY_S
        while "listens" not in log.read_text():
            if process.poll() is not None or time.monotonic() > end_s:
                raise StackError(f"the processor did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        try:
            process.wait(READY_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _rates(records: RankRecords, blocks: Sequence[Sequence[int]]) -> dict[str, float]:
    """What rank 0 recorded a step in the timed blocks of an arm, given as (first, after the last); {} of none."""
    steps = np.array([step for first, end in blocks for step in range(first, end)], np.int64)
    if not np.isin(records.steps["step"], steps).any():
        return {}
    phases = records.phases[np.isin(records.phases["step"], steps)]
    outermost = int((phases["depth"] == 0).sum())
    rows = {"phases": outermost, "inner phases": len(phases) - outermost}
    for kind in ("collectives", "kernels", "events"):
        rows[kind] = int(np.isin(getattr(records, kind)["step"], steps).sum())
    rows["steps with operators"] = len(np.intersect1d(records.kernels["step"], steps))
    return {kind: num / len(steps) for kind, num in rows.items()}


def _dump_rate(num: int, took_s: float) -> dict[str, float]:
    """Dumps a minute and rank in blocks that took so long together; {} if there was none."""
    return {"dumps a minute and rank": 60.0 * num / took_s} if num and took_s else {}
