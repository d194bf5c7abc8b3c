"""Sentences whose numbers are pointers into the evidence, and the rendering of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argus.agent.diagnosis import Claim, Value
from argus.agent.evidence import NoSuchPlace, at_pointer
from argus.agent.wording import SECONDS_A, quantity, ranks_as
from argus.analytics.finding import Evidence, Finding

CAUSE = "cause"
"""Name of the decision's own evidence in pointers; it is the diagnosis' list `evidence`."""

LOST = "lost"
"""Evidence of a rank that is gone: its value is the rank. There is one for each, thousands with a rack."""

OWN_ERRORS = "own_errors"
"""Evidence of ranks that are gone by an error of their own program: how many."""


@dataclass(frozen=True, kw_only=True)
class _Form:
    """How one kind of evidence is said: {v} is its value, {b} its baseline, {note} its note."""

    text: str
    unit: str = "s"
    with_baseline: str = ""


FORMS: Mapping[str, _Form] = {
    "self_s": _Form(
        text="Own work in {note} takes {v} a step.",
        with_baseline="Own work in {note} takes {v} a step, the peers' {b}.",
    ),
    "own_self_s": _Form(
        text="All own work of a step takes {v}.",
        with_baseline="All own work of a step takes {v}, the peers' {b}.",
    ),
    "cpu_s": _Form(
        text="The thread got {v} of CPU time in {note}.",
        with_baseline="The thread got {v} of CPU time in {note}, the peers' {b}.",
    ),
    "gc_pause_s": _Form(
        text="Garbage collection pauses it for {v} a step.",
        with_baseline="Garbage collection pauses it for {v} a step, its peers for {b}.",
    ),
    "caused_wait_s": _Form(
        text="The others wait {v} a step because it enters late.",
        with_baseline="The others wait {v} a step because it enters late; for a usual rank they wait {b}.",
    ),
    "last_share": _Form(text="It is the last to enter in {v} of its collectives.", unit="share"),
    "victims_wait_s": _Form(text="The victims wait {v} a step {note}."),
    "transfer_s": _Form(
        text="Transfers of {note} take {v} a step.",
        with_baseline="Transfers of {note} take {v} a step against {b}.",
    ),
    "start_lag_s": _Form(text="It was {v} behind the median rank when {note} began."),
    "own_ratio": _Form(text="The members' own work is {v} of what it was.", unit="x"),
    "replay_gain_s": _Form(
        text="By replay of its calls a step is {v} longer for it.",
        with_baseline="By replay of the pipeline a step would be {v} shorter if it were healthy; its own excess is {b}.",
    ),
    "by_itself_s": _Form(text="With the other causes healed the step would still be {v} longer for it."),
    "step_s": _Form(text="A step takes {v}.", with_baseline="A step takes {v}, before it took {b}."),
    "step_now_s": _Form(
        text="By now a step takes {v}.",
        with_baseline="By now a step takes {v}; for as much work it took {b} before.",
    ),
    "cpu_ratio": _Form(text="The member that got least CPU time got {v} of what it used to.", unit="share"),
    "unclean": _Form(text="A member cannot be called clean: {note}."),
    "step_votes": _Form(text="It cost most, or half of that, in {v} of the steps.", unit="share"),
    "compile_s": _Form(
        text="It compiles for {v} a step.", with_baseline="It compiles for {v} a step, a usual rank for {b}."
    ),
    "alloc_retries": _Form(
        text="It had to retry {v}.",
        with_baseline="It had to retry {v}, a usual rank {b}.",
        unit="allocations",
    ),
    "stack_share": _Form(
        text="{v} of its stacks in slow steps show one thing: {note}.",
        with_baseline="{v} of its stacks in slow steps and {b} of its peers' show one thing: {note}.",
        unit="share",
    ),
    "half_excess_s": _Form(
        text="Its half of the host takes {v} a step longer ({note}).",
        with_baseline="Its half of the host takes {v} a step longer, the other half {b} ({note}).",
    ),
    "period_steps": _Form(text="It is slow every {v}.", unit="steps"),
    "changed": _Form(text="Changed since the attempt before: {note}.", unit=""),
    "bouts": _Form(
        text="It was bad {v} {note}.",
        with_baseline="It was bad {v} {note}, by chance {b}.",
        unit="times",
    ),
    "bad_share": _Form(text="{v} {note} were bad.", unit="share"),
    "earlier_runs": _Form(text="The same device was suspected in {v}.", unit="other runs"),
    "event_for": _Form(text="Others saw the same: {note}.", unit=""),
    "event_against": _Form(text="Others reported {note}.", unit=""),
    "probe_slow": _Form(text="A probe took {v} of its healthy peers' time: {note}.", unit="x"),
    "probe_well": _Form(text="A probe took {v} of its healthy peers' time and is well: {note}.", unit="x"),
    "stalled_s": _Form(text="No step has ended for {v}."),
    "median_step_s": _Form(text="A step usually takes {v}."),
    LOST: _Form(text="Rank {v} is gone: {note}.", unit=""),
    "left": _Form(text="Rank {v} left: {note}.", unit=""),
    OWN_ERRORS: _Form(text="Its program ended itself with an error: {v}.", unit="ranks"),
    "last_step": _Form(text="Its last step was {v}.", unit=""),
    "entered": _Form(
        text="It entered {v} ({note}).",
        with_baseline="It entered {v}, the furthest member {b} ({note}).",
        unit="calls",
    ),
    "completed": _Form(
        text="It completed {v} ({note}).",
        with_baseline="It completed {v}, the furthest member {b} ({note}).",
        unit="calls",
    ),
    "call_differs": _Form(text="Not all ranks make one call: {note}.", unit=""),
    "call_not_started": _Form(text="Not all devices have come to the call: {note}.", unit=""),
    "kernel_ratio": _Form(text="Kernel {note} takes {v} of what it takes on the peers.", unit="x"),
    "kernel_lost_s": _Form(text="Its kernels take {v} a step longer than the peers': {note}."),
    "kernel_share": _Form(text="That kernel is {v} {note}.", unit="share"),
    "slow_kernels": _Form(text="Named as slow: {v}.", unit="kernels"),
    "error_bound_ratio": _Form(text="The comparison of kernels is good to {v}.", unit="share"),
    "w1_to_peers_us": _Form(
        text="Its durations lie {v} (W₁) from the peers'.",
        with_baseline="Its durations lie {v} (W₁) from the peers', the median rank's {b}.",
        unit="µs",
    ),
    "own_past_ratio": _Form(text="On this device that kernel takes {v} of what it took before.", unit="x"),
    "max_ratio": _Form(text="Its longest launch is {v} that of the median rank.", unit="x"),
    "compression_ratio": _Form(
        text="Its kernels compress by {v}: {note}.",
        with_baseline="Its kernels compress by {v}, before by {b}: {note}.",
        unit="x",
    ),
    "thread_run_delay_ratio": _Form(
        text="One of its threads was ready and waited for a CPU for {v} of the time.",
        with_baseline="One of its threads was ready and waited for a CPU for {v} of the time, the other ranks' for {b}.",
        unit="share",
    ),
    "throttled_ratio": _Form(
        text="Its cgroup's CPU quota was used up for {v} of the time.",
        with_baseline="Its cgroup's CPU quota was used up for {v} of the time, the other ranks' for {b}.",
        unit="share",
    ),
    "member_state": _Form(text="The process of rank {v} is in state {note}.", unit=""),
    "host_excess": _Form(text="Its host lies {v} above the other hosts in {note}.", unit="x"),
    "stage_compute_s": _Form(
        text="The stage computes for {v} a step.",
        with_baseline="The stage computes for {v} a step {note}, {b}.",
    ),
    "micro_batch_s": _Form(
        text="One micro-batch takes it {v}.", with_baseline="One micro-batch takes it {v} {note}, {b}."
    ),
    "own_s": _Form(
        text="The median rank's own work takes {v} a step.",
        with_baseline="The median rank's own work takes {v} a step, before it took {b}.",
    ),
    "in_calls_s": _Form(
        text="The median rank stands in calls for {v} a step.",
        with_baseline="The median rank stands in calls for {v} a step, before it did for {b}.",
    ),
    "step_work": _Form(text="A step had {v} {note} of work a rank then.", unit=""),
    "bubble_s": _Form(
        text="It does not work for {v} of a step.",
        with_baseline="It does not work for {v} of a step, the other stages for {b}.",
    ),
    "lost_s": _Form(text="It costs {v} a step {note}."),
    "lost_so_far_s": _Form(text="It has cost {v} {note}."),
    "lost_by_unit_s": _Form(text="{v} of it follow the {note}."),
    "own_past_s": _Form(
        text="Their own work takes {v} a step.",
        with_baseline="Their own work takes {v} a step; {note}, it would be {b}.",
    ),
    "slow_ranks": _Form(text="{v} became slow together.", unit="ranks"),
    "pauses": _Form(text="{v} held a long pause ({note}).", unit="steps"),
    "paused_ranks": _Form(text="{v} paused.", unit="ranks"),
    "longest_pause_s": _Form(text="The longest pause took {v}."),
    "save_s": _Form(text="A save takes it {v}.", with_baseline="A save takes it {v}, the others {b}."),
    "late_saves": _Form(text="It was the last to end {v} {note}.", unit="saves"),
    "explained": _Form(text="The work explains {v} of what makes times differ.", unit="share"),
    "gc_share": _Form(text="Collection pauses account for {v} of the lost time.", unit="share"),
    "data_share": _Form(text="{v} of the lost time lies in the data phase.", unit="share"),
    "cpu_share": _Form(text="The thread was computing in {v} of the lost time.", unit="share"),
    "phase_share": _Form(text="{v} of the lost time lies in phases that would show it.", unit="share"),
}
"""Evidence names of `analytics.fuse` and how each is said."""


def claims_of(evidence: Sequence[Evidence]) -> tuple[Claim, ...]:
    """A claim for each item that has a form, in order; ids c1, c2, …"""
    return tuple(_claims(evidence))


def _claims(evidence: Sequence[Evidence]) -> Iterator[Claim]:
    number = 0
    lost = _lost(evidence)
    for index, item in enumerate(evidence):
        form = FORMS.get(item.name)
        alike = lost[item.note] if item.name == LOST else {}
        if form is None or index > next(iter(alike.values()), index):
            continue
        number += 1
        if len(alike) > 1:
            yield _of_many_lost(f"c{number}", alike, note=item.note)
            continue
        unit = item.unit if item.unit.startswith(SECONDS_A) else form.unit
        values = {"v": Value(evidence=CAUSE, path=f"/evidence/{index}/value", unit=unit)}
        text = form.text
        if item.baseline is not None and form.with_baseline:
            values["b"] = Value(evidence=CAUSE, path=f"/evidence/{index}/baseline", unit=unit)
            text = form.with_baseline
        note = _plain(item.note)
        text = text.replace(" {note}.", f" {note}." if note else ".").replace("{note}", note or "the step")
        yield Claim(id=f"c{number}", text=text, values=values)


def _lost(evidence: Sequence[Evidence]) -> dict[str, dict[int, int]]:
    """Where in `evidence` each lost rank is told of, by what is said of it."""
    found: dict[str, dict[int, int]] = {}
    for index, item in enumerate(evidence):
        if item.name == LOST:
            found.setdefault(item.note, {}).setdefault(int(item.value), index)
    return found


def _of_many_lost(claim_id: str, places: Mapping[int, int], *, note: str) -> Claim:
    """One claim for ranks of which the same is said: each number that it names points to that rank's evidence."""
    values: dict[str, Value] = {}

    def point(rank: int) -> str:
        name = f"v{len(values) or ''}"
        values[name] = Value(evidence=CAUSE, path=f"/evidence/{places[rank]}/value", unit="")
        return "{" + name + "}"

    who = ranks_as(tuple(places), point)
    why = f": {_plain(note)}" if note else ""
    return Claim(id=claim_id, text=f"{who[:1].upper()}{who[1:]} are gone{why}.", values=values)


def _plain(note: str) -> str:
    """A note is text of ours or a group's name: braces in it must not become fields."""
    return note.replace("{", "(").replace("}", ")")


def render(claim: Mapping[str, Any], documents: Mapping[str, Mapping[str, Any]]) -> str:
    """A claim of a diagnosis in JSON form as a sentence; `documents` by the names pointers use."""
    shown = {name: _shown(value, documents) for name, value in claim["values"].items()}
    text = str(claim["text"])
    for name, number in shown.items():
        text = text.replace("{" + name + "}", number)
    return text


def documents_of(diagnosis: Mapping[str, Any], findings: Sequence[Finding] = ()) -> dict[str, dict[str, Any]]:
    """What the pointers of a diagnosis point into."""
    documents: dict[str, dict[str, Any]] = {finding.id: finding.to_json() for finding in findings}
    documents[CAUSE] = {"evidence": diagnosis["evidence"]}
    return documents


def resolve(value: Mapping[str, Any], documents: Mapping[str, Mapping[str, Any]]) -> float | None:
    """The number behind a pointer (RFC 6901), None if it points nowhere."""
    document = documents.get(str(value["evidence"]))
    try:
        at = None if document is None else at_pointer(document, str(value["path"]))
    except NoSuchPlace:
        return None
    return float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None


def _shown(value: Mapping[str, Any], documents: Mapping[str, Mapping[str, Any]]) -> str:
    number = resolve(value, documents)
    return "unknown" if number is None else quantity(number, str(value["unit"]))
