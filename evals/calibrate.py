"""`argus eval calibrate`: simulated distributions beside recorded ones, and where they differ."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from argus.analytics.window import Floats
from argus.api.cli.errors import CliError
from argus.api.cli.paths import path
from argus.collectors.gather import gather
from argus.collectors.job import join
from argus.collectors.readers import ReaderError
from argus.collectors.records.events import RankRecords
from argus.evals.bench.series import read_file
from argus.evals.calibration import (
    Samples,
    Table,
    call_waits,
    job_series,
    kernel_scatter,
    phase_shares,
    step_noise,
    table,
    transformer_kernels,
)
from argus.evals.scenarios.healthy import scenario
from argus.evals.simulator.job import SHARED, Job
from argus.evals.simulator.simulate import Simulation, simulate

DONE, IN_PART, NOTHING = 0, 1, 2

SERIES = "iteration-time"
PIPELINES = ("straggler-analysis/trace-AR.parquet", "straggler-analysis/trace-SE.parquet")
TRACES = ("kineto/dlrm-8rank-v100.tar.gz", "kineto/hta-2rank")

NOISE = "step noise"
SHARES = "phase share of a step, pipelines"
TRACE_WAITS, PIPELINE_WAITS = "wait share of a call, traces", "wait share of a call, pipelines"
SCATTER = "scatter of a kernel's launches"

NUM_JOBS, STEPS = 24, 300
"""Healthy simulated jobs behind the noise of steps."""

BEGIN, END = "<!-- calibration: begin -->", "<!-- calibration: end -->"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `argus eval calibrate`."""
    parser.add_argument("--data", type=path, required=True, metavar="DIR", help="folder of the recordings")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--seed", type=_seed, default=0, help="of the simulated jobs (default 0)")
    parser.add_argument(
        "--write", type=path, metavar="FILE", help=f"put the table into this page, between {BEGIN} and {END}"
    )


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a seed is a number from 0 on, got {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """0 done, 1 with recordings missing or unreadable, 2 without any of them."""
    if args.write is not None:
        _page_of(args.write)
    real, warnings = recorded(args.data)
    if not real:
        raise CliError(
            f"{args.data} holds none of the recordings, for instance {SERIES} or {PIPELINES[0]}", code=NOTHING
        )
    _say("simulated jobs")
    found = table(real, simulated(args.seed, real))
    text = render(found)
    if args.write is not None:
        before, after = _page_of(args.write)
        args.write.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
    if args.json:
        lines = [line.to_json() for line in found.lines]
        print(json.dumps({"lines": lines, "lacks": found.lacks, "warnings": warnings}))
    else:
        print(text)
    for warning in warnings:
        print(f"argus eval: {warning}", file=sys.stderr)
    return IN_PART if warnings else DONE


def _page_of(path: Path) -> tuple[str, str]:
    """What stands before and after the table. Raises CliError."""
    try:
        before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    except OSError as error:
        raise CliError(f"{path} cannot be read ({error.strerror}): name a page that is there") from None
    _, mark, after = rest.partition(END)
    if not mark:
        raise CliError(f"{path} has no place for the table: put {BEGIN} and {END} on lines of their own")
    return before, after


def _say(what: str) -> None:
    print(f"argus eval: {what}", file=sys.stderr, flush=True)


def recorded(folder: Path) -> tuple[dict[str, Samples], list[str]]:
    """Samples of every part the folder has recordings for, and what could not be read."""
    found: dict[str, Samples] = {}
    warnings: list[str] = []
    read = cache(lambda name: _read(folder, name, warnings))
    parts: list[tuple[str, Callable[[], Samples]]] = [
        (NOISE, lambda: step_noise(_series(folder / SERIES))),
        (SHARES, lambda: phase_shares(one for name in PIPELINES for one in read(name))),
        (TRACE_WAITS, lambda: _together(call_waits(read(name)) for name in TRACES)),
        (PIPELINE_WAITS, lambda: _together(call_waits(read(name)) for name in PIPELINES)),
        (SCATTER, lambda: kernel_scatter(one for name in TRACES for one in read(name))),
    ]
    for part, measure in parts:
        _say(part)
        samples = measure()
        if samples:
            found[part] = samples
        else:
            warnings.append(f"nothing recorded tells the {part}")
    return found, warnings


def _series(folder: Path) -> Iterator[Floats]:
    for file in sorted(folder.glob("*.json")):
        yield from read_file(file).values()


def _read(folder: Path, name: str, warnings: list[str]) -> Sequence[RankRecords]:
    """Ranks of a recording; what is wrong with it becomes a warning."""
    if not (folder / name).exists():
        warnings.append(f"{name} is not there")
        return ()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            return join(gather([folder / name], Path(scratch)).readings).records
    except (ReaderError, ValueError) as error:
        warnings.append(f"{name}: {error}")
        return ()


def simulated(seed: int, parts: Iterable[str]) -> dict[str, Samples]:
    """The same quantities of healthy simulated jobs of the recordings' layouts."""
    rng = np.random.default_rng([seed, 21])
    pipelines = cache(lambda: [simulate(_pipeline(dp=dp, pp=pp), rng=rng) for dp, pp in ((4, 4), (32, 2))])
    made: dict[str, Callable[[], Samples]] = {
        NOISE: lambda: step_noise(job_series(_healthy(seed, rng))),
        SHARES: lambda: phase_shares(one for done in pipelines() for one in done.records),
        PIPELINE_WAITS: lambda: _together(call_waits(done.records) for done in pipelines()),
        TRACE_WAITS: lambda: call_waits(simulate(Job(ranks=8, steps=30, buckets=3), rng=rng).records),
        SCATTER: lambda: _kernels(rng),
    }
    return {part: made[part]() for part in parts}


def _together(jobs: Iterable[Samples]) -> Samples:
    """Calls of different jobs are not the same ones, but of one kind."""
    found: Samples = {}
    for job in jobs:
        for op, values in job.items():
            found.setdefault(op, []).extend(values)
    return found


def _kernels(rng: np.random.Generator) -> Samples:
    """Kernels of the simulator's jobs, and those of a transformer in full."""
    records = simulate(Job(ranks=2, steps=12, kernels=10), rng=rng).records
    return kernel_scatter([*records, transformer_kernels(records[0], rng=rng)])


def _pipeline(*, dp: int, pp: int) -> Job:
    return Job(ranks=dp * pp, pp=pp, micro_batches=8, steps=20, step_s=3.0, length_spread=0.1)


def _healthy(seed: int, rng: np.random.Generator) -> Iterator[Simulation]:
    """GPUs of their own, as the recordings are of."""
    number = seed * NUM_JOBS
    for size in (8, 16, 32) * (NUM_JOBS // 3):
        job = scenario(seed=number, ranks=size, severity=1.1).job
        assert job.noise is not SHARED
        number += 1
        yield simulate(replace(job, steps=STEPS), rng=rng)


def render(found: Table) -> str:
    """The table as Markdown, then what differs and what one side lacks."""
    head = (
        "| part | quantity | recorded p10 / p50 / p90 (n) | simulated p10 / p50 / p90 (n) | alike |",
        "|---|---|---|---|---|",
    )
    rows = [
        f"| {line.part} | {line.name} | {_three(line.real)} ({line.num_real:,}) "
        f"| {_three(line.simulated)} ({line.num_simulated:,}) | {'yes' if line.alike else '**no**'} |"
        for line in found.lines
    ]
    apart = [
        f"- {_differs(line.part, line.name, line.real, line.simulated)}"
        for line in found.lines
        if not line.alike
    ]
    lacks = [f"- {text}" for text in found.lacks]
    return "\n".join((*head, *rows, "", "Where they differ:", "", *(apart or ["- nowhere"]), *lacks))


def _three(values: tuple[float, float, float]) -> str:
    return " / ".join(f"{value:.3g}" for value in values)


def _differs(part: str, name: str, real: tuple[float, ...], made: tuple[float, ...]) -> str:
    if real[1] > 0 and made[1] > 0:
        return f"{part}: the median {name} is {made[1] / real[1]:.2g} times the recorded one"
    return f"{part}: the median {name} is {made[1]:.3g}, recorded {real[1]:.3g}"
