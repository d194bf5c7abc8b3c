"""`argus demo`: a real job, a real fault from outside, and the incident it makes."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argus.api.cli.errors import CliError
from argus.evals.interrupts import orderly_end
from argus.evals.pause import Pauser
from argus.evals.stack import TRAIN, Stack, StackError
from argus.evals.watch import Progress, card_of, incidents_of, wait_for, wait_for_windows

CLASS_OF = {"slow-rank": "host.cpu_starved", "slow-data": "data.slow_loader", "gc-pause": "host.gc"}
RANKS = 4
# Enough windows behind the start-up for the detectors to have a baseline of their own.
BASELINE_WINDOWS = 12
# A healthy demo watches as many windows as a faulty one lasts.
HEALTHY_WINDOWS = 40
DETECT_S = 90.0
RESOLVE_S = 60.0
START_S = 180.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What this demo does: the fault, the rank it hits and the workload.

    A job without a fault must be silent for `healthy_windows`, one with a fault for `quiet_windows` before it.
    """

    fault: str
    rank: int
    parallel: str
    healthy_windows: int = HEALTHY_WINDOWS
    quiet_windows: int = 0

    @property
    def truth(self) -> dict[str, Any]:
        """The right answer."""
        faulty = self.fault != "none"
        return {"ranks": [self.rank] if faulty else [], "class": CLASS_OF.get(self.fault)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `argus demo`."""
    parser.add_argument(
        "--fault", choices=("slow-rank", "slow-data", "gc-pause", "none"), default="slow-rank"
    )
    parser.add_argument("--rank", type=int, help="the rank to hit; drawn at random when absent")
    parser.add_argument("--workload", choices=("ddp", "fsdp2"), default="ddp")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 only if the right rank and class and nothing else was named."""
    if args.rank is not None and not 0 <= args.rank < RANKS:
        raise CliError(f"--rank must be in [0, {RANKS - 1}], got {args.rank}")
    rank = random.randrange(RANKS) if args.rank is None else args.rank
    plan = Plan(fault=args.fault, rank=rank, parallel=args.workload)
    say = Progress(time.monotonic())
    try:
        with orderly_end():
            result, card = play(plan, say=say)
    except StackError as error:
        raise CliError(str(error), code=1) from None
    print(json.dumps(result) if args.json else card)
    return 0 if result["ok"] else 1


def play(plan: Plan, *, say: Progress) -> tuple[dict[str, Any], str]:
    """Play the demo. Returns the JSON answer and the card to show."""
    with tempfile.TemporaryDirectory(prefix="argus-demo-") as name:
        directory = Path(name)
        script = [str(TRAIN), "--parallel", plan.parallel, "--fault-dir", str(directory / "faults")]
        say("starting the service and a 4-rank training job under `argus run`")
        with Stack(directory=directory, run="demo", ranks=RANKS, script=script) as stack:
            count = BASELINE_WINDOWS + plan.quiet_windows
            wait_for_windows(stack, count=count, timeout_s=START_S, say=say)
            before = [incident["id"] for incident in incidents_of(stack)]
            card = _healthy(stack, plan, say=say) if plan.fault == "none" else _faulty(stack, plan, say=say)
            say("stopping the job, the processor and the service")
            stack.stop_job()
            incidents = incidents_of(stack)
    ok = judge(plan, incidents) and not before
    answer = {"fault": plan.fault, "truth": plan.truth, "incidents": incidents, "ok": ok}
    if before:
        say(f"named before the fault: {', '.join(before)}")
    say("right rank, right class, nothing else" if ok and plan.fault != "none" else f"ok: {ok}")
    return answer, card


def judge(plan: Plan, incidents: list[dict[str, Any]]) -> bool:
    """Whether exactly the truth was named: for a healthy job nothing, else only that rank and class."""
    if plan.fault == "none":
        return not incidents
    right = [
        i for i in incidents if i["suspects"] == plan.truth["ranks"] and i["class"] == plan.truth["class"]
    ]
    return bool(right) and len(right) == len(incidents)


def _healthy(stack: Stack, plan: Plan, *, say: Progress) -> str:
    count = BASELINE_WINDOWS + plan.healthy_windows
    wait_for_windows(stack, count=count, timeout_s=DETECT_S + START_S, say=say)
    found = incidents_of(stack)
    return "\n\n".join(card_of(stack, i) for i in found) or "No fault: every rank kept pace with its peers."


def _faulty(stack: Stack, plan: Plan, *, say: Progress) -> str:
    from argus.evals.demo_agent import asked_about  # the service, which --help need not wait for

    say(f"fault on: {plan.fault} on rank {plan.rank}")
    with _fault(stack, plan):
        incident = wait_for(stack, lambda i: i["status"] == "open", timeout_s=DETECT_S)
        if incident is None:
            say(f"no incident within {DETECT_S:.0f} s")
            return "No incident."
        say(f"incident {incident['id']}: {incident['class']} on rank {incident['suspects']}")
        card = card_of(stack, incident)
        say("an agent looks into it")
        lines = asked_about(stack.directory / "argus.sqlite", incident["id"])
    say("fault off; waiting for the incident to resolve")
    resolved = wait_for(stack, lambda i: i["status"] == "resolved", timeout_s=RESOLVE_S)
    say("incident resolved" if resolved else f"the incident did not resolve within {RESOLVE_S:.0f} s")
    return "\n".join([card, "", *lines])


@contextlib.contextmanager
def _fault(stack: Stack, plan: Plan) -> Iterator[None]:
    hit: AbstractContextManager[object]
    if plan.fault == "slow-rank":
        hit = Pauser(stack.rank_pid(plan.rank))
    else:
        hit = _fault_file(stack.directory / "faults" / plan.fault, plan.rank)
    with hit:
        yield


@contextlib.contextmanager
def _fault_file(path: Path, rank: int) -> Iterator[None]:
    path.write_text(str(rank))
    try:
        yield
    finally:
        path.unlink()
