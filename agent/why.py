"""Why a cause is the one: its evidence in short lines, what speaks most for it first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from argus.agent.claims import CAUSE, LOST, claims_of
from argus.agent.claims import render as render_claim
from argus.agent.wording import clip, counted, phase_name, quantity, ranks, versus
from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause

NOT_IT = 0.1
"""Own work whose excess is below a tenth of the waiting does not explain it."""

_CPU = {
    "host.cpu_starved": "it was not running, not computing more",
    "compute.slow": "it was computing all the while",
}
"""What the CPU time beside the wall time means for the class that `fuse` decided."""

_PAUSES = {"gc": "garbage collection", "compile": "compilation", "loader_wait": "the loader"}
"""What stops a rank for long, by the name of its pauses."""

WHOLE_JOB = ("step.slower", "run.changed")
"""Classes that say no more than that steps are longer."""

_KERNEL_NAME = 44
"""Characters of a kernel's name that a line has room for: templates are longer than a screen."""

_IN_FULL = (
    "alloc_retries",
    "compile_s",
    "half_excess_s",
    "stack_share",
    "thread_run_delay_ratio",
    "throttled_ratio",
    "period_steps",
    "probe_slow",
    "probe_well",
    "event_for",
    "event_against",
)
"""Evidence told by the sentence of its claim."""

AGAINST_STAGES = "against the other stages'"

_OF_HOST, _WORTH_TELLING = ("thread_run_delay_ratio", "throttled_ratio"), 0.01
"""Shares of the time: of a smaller one no step becomes longer."""

MOST_CHANGES = 3
"""What changed since the attempt before, as far as it is listed; `argus diff` has all of it."""


def evidence_of(cause: Cause, name: str) -> Evidence | None:
    """The first evidence of a name."""
    return next((item for item in cause.evidence if item.name == name), None)


def step_of(cause: Cause) -> Evidence | None:
    """The time of a step as it was last told."""
    return evidence_of(cause, "step_now_s") or evidence_of(cause, "step_s")


def reasons(cause: Cause) -> Iterator[str]:
    """The suspect's own time against its peers', what stands behind it, then what it did to the others."""
    yield from _own(cause)
    yield from _pauses(cause)
    yield from _saves(cause)
    yield from _whole_job(cause)
    yield from _stage(cause)
    yield from _work(cause)
    yield from _path(cause)
    yield from _kernels(cause)
    yield from _in_full(cause)
    yield from _replay(cause)
    lag = evidence_of(cause, "start_lag_s")
    if lag is not None:
        yield f"{quantity(lag.value, 's')} behind the median rank when {lag.note} began: look before the trace"
    yield from _lateness(cause)
    yield from _stop(cause)


def _own(cause: Cause) -> Iterator[str]:
    own, total = evidence_of(cause, "self_s"), evidence_of(cause, "own_self_s")
    if own is not None and own.baseline is not None:
        clock = ", GPU time" if "GPU" in own.note else ""
        yield f"{phase_name(cause.phase) if cause.phase else 'own work'} {versus(own.value, own.baseline)} a step{clock}"
    elif total is not None and total.baseline is None:
        yield f"own work {quantity(total.value, total.unit)} a step: no peer to compare with"
    cpu = evidence_of(cause, "cpu_s")
    is_gpu = own is not None and "GPU" in own.note
    if cpu is not None and cpu.baseline is not None and max(cpu.value, cpu.baseline) > 0 and not is_gpu:
        meaning = _CPU.get(cause.fault_class, "")
        yield f"CPU time {versus(cpu.value, cpu.baseline)}{': ' if meaning else ''}{meaning}"
    pause = evidence_of(cause, "gc_pause_s")
    if pause is not None and pause.value > 0 and cause.fault_class == "host.gc":
        yield f"garbage collection {versus(pause.value, pause.baseline or 0.0)} a step"
    if own is None and total is not None and total.baseline is not None:
        waited = evidence_of(cause, "victims_wait_s")
        is_it = waited is None or total.value - total.baseline >= NOT_IT * waited.value
        yield f"own work {versus(total.value, total.baseline)} a step{'' if is_it else ': that is not it'}"


def _pauses(cause: Cause) -> Iterator[str]:
    paused, longest = evidence_of(cause, "pauses"), evidence_of(cause, "longest_pause_s")
    if paused is None or longest is None:
        return
    spread = evidence_of(cause, "paused_ranks")
    where = (
        f" on {counted(round(spread.value), 'ranks')}" if spread is not None and not cause.suspects else ""
    )
    what = _PAUSES.get(paused.note, paused.note)
    yield f"{what} held up {counted(round(paused.value), 'steps')}{where}, for up to {quantity(longest.value, 's')}"


def _saves(cause: Cause) -> Iterator[str]:
    save, late = evidence_of(cause, "save_s"), evidence_of(cause, "late_saves")
    if save is not None and save.baseline is not None:
        yield f"a save {versus(save.value, save.baseline)}"
    if late is not None:
        yield f"the last to end {counted(round(late.value), 'saves')} in a row"


def _whole_job(cause: Cause) -> Iterator[str]:
    step = step_of(cause)
    is_told = cause.fault_class in WHOLE_JOB or evidence_of(cause, "step_now_s") is not None
    if is_told and step is not None and step.baseline is not None:
        yield f"a step takes {versus(step.value, step.baseline, unit=step.unit, name='after')}"
    for name, said in (("own_s", "own work of the median rank"), ("in_calls_s", "its time in calls")):
        part = evidence_of(cause, name)
        if part is not None and part.baseline is not None:
            yield f"{said} {versus(part.value, part.baseline, name='after')} a step"
    changes = [item.note for item in cause.evidence if item.name == "changed"]
    if changes:
        more = f"; and {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
        yield f"changed since the attempt before: {'; '.join(changes[:MOST_CHANGES])}{more}"
    past, together = evidence_of(cause, "own_past_s"), evidence_of(cause, "slow_ranks")
    if past is not None and past.baseline is not None:
        yield f"their own work {versus(past.value, past.baseline, name='after')} a step"
    if together is not None:
        yield f"{counted(round(together.value), 'ranks')} became slow together"


def _stage(cause: Cause) -> Iterator[str]:
    if not cause.scope.startswith("stage:"):
        return
    for name, said in (("stage_compute_s", "computing"), ("micro_batch_s", "one micro-batch")):
        part = evidence_of(cause, name)
        if part is not None and part.baseline is not None:
            each = " a step" if name == "stage_compute_s" else ""
            yield f"{said} {versus(part.value, part.baseline, name=AGAINST_STAGES)}{each}"


def _work(cause: Cause) -> Iterator[str]:
    explained = evidence_of(cause, "explained")
    if explained is not None:
        yield f"the work they had explains {quantity(explained.value, 'share')} of what makes their times differ"
    for item in cause.evidence:
        if item.name == "lost_by_unit_s":
            yield f"{quantity(item.value, 's')} a step follow {item.note}"


def _kernels(cause: Cause) -> Iterator[str]:
    worst, lost = evidence_of(cause, "kernel_ratio"), evidence_of(cause, "kernel_lost_s")
    if worst is None or evidence_of(cause, "transfer_s") is not None:
        return
    breadth = f"; slower: {lost.note}" if lost is not None and lost.note else ""
    yield f"kernel {clip(worst.note, _KERNEL_NAME)} takes {quantity(worst.value, 'x')} its peers' time{breadth}"


def _in_full(cause: Cause) -> Iterator[str]:
    items = [
        item
        for item in cause.evidence
        if item.name in _IN_FULL and not (item.name in _OF_HOST and item.value < _WORTH_TELLING)
    ]
    documents = {CAUSE: {"evidence": [asdict(item) for item in items]}}
    for claim in claims_of(items):
        said = render_claim(claim.to_json(), documents).removesuffix(".")
        yield f"{said[:1].lower()}{said[1:]}"


def _replay(cause: Cause) -> Iterator[str]:
    """What a step would gain; of several causes that delay the same steps its part of that."""
    gain, by_itself = evidence_of(cause, "replay_gain_s"), evidence_of(cause, "by_itself_s")
    if gain is not None and by_itself is None:
        yield f"replay of the step: it would be {quantity(gain.value, 's')} shorter if this were healthy"
    elif gain is not None and by_itself is not None:
        yield (
            f"replay of the step: its part of the delay is {quantity(gain.value, 's')}, and "
            f"{quantity(by_itself.value, 's')} if the other causes were healed"
        )


def _lateness(cause: Cause) -> Iterator[str]:
    last = evidence_of(cause, "last_share")
    if last is not None and last.value > 0:
        yield f"last to enter {quantity(last.value, 'share')} of its collectives"


def _path(cause: Cause) -> Iterator[str]:
    transfer = evidence_of(cause, "transfer_s")
    if transfer is not None and transfer.baseline is not None:
        yield f"transfers of {transfer.note} {versus(transfer.value, transfer.baseline, name='against')} a step"
    clean = evidence_of(cause, "own_ratio")
    if clean is not None:
        yield f"its members' own work is {quantity(clean.value, 'x')} of before, and nobody enters late"


def _stop(cause: Cause) -> Iterator[str]:
    unlike = evidence_of(cause, "call_differs") or evidence_of(cause, "call_not_started")
    if unlike is not None:
        yield unlike.note
    stalled, usual = evidence_of(cause, "stalled_s"), evidence_of(cause, "median_step_s")
    if stalled is not None:
        against = f", a step usually takes {quantity(usual.value, 's')}" if usual else ""
        yield f"no step ended for {quantity(stalled.value, 's')}{against}"
    lost = [item for item in cause.evidence if item.name == LOST]
    for note in dict.fromkeys(item.note for item in lost):
        yield f"{ranks([int(item.value) for item in lost if item.note == note])} {note}"
    for item in cause.evidence:
        if item.name == "left":
            yield f"rank {item.value:.0f} {item.note}"
        elif item.name in ("entered", "completed") and item.baseline is not None:
            yield f"{item.name} {counted(round(item.value), 'calls')}, the furthest member {item.baseline:,.0f} ({item.note})"
