"""Test 5 for what is no rank's habit: rare pauses of the host that the runtime tells of itself."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from argus.analytics.baseline import baseline_step_s
from argus.analytics.finding import Finding
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.incident import Cause, Incident, RuledOut
from argus.analytics.pauses import LOADER, MIN_PAUSES, MIN_SHARE, longest_s
from argus.analytics.view import View

CLASSES = {
    "compile": ("host.jit", "host.gc"),
    "gc": ("host.gc", "host.jit"),
    LOADER: ("data.slow_loader", "host.cpu_starved"),
}
"""Class and look-alike by the runtime's word for the pause."""

OTHERS = "it is another rank from time to time, and between its pauses each is as fast as ever"
ALL = "all ranks stand at once, before their batch is there, and are as fast as ever after it"


def pause_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """One cause per kind of pause; without suspects where it is another rank each time."""
    return tuple(_cause(view, finding) for finding in lasting.findings if finding.detector == "l2_pauses")


def without_named_ranks(causes: Sequence[Cause], view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """The causes, those of pauses of the whole job at the price of what the ranks named for such pauses leave of it.

    What is left and would be told of no more by itself is no cause of its own. Ranks are named by another cause or by
    an open incident of the same class.
    """
    kept = []
    for cause in causes:
        named = {
            rank
            for one in (*causes, *lasting.open)
            if one.fault_class == cause.fault_class
            for rank in one.suspects
        }
        left = _left(cause, view, named) if named and is_of_all(cause) else cause
        kept += [] if left is None else [left]
    return tuple(kept)


def is_of_all(cause: Cause) -> bool:
    """Whether it tells of pauses for which nobody is named."""
    return not cause.suspects and any(item.name == "pauses" for item in cause.evidence)


def _left(cause: Cause, view: View, named: AbstractSet[int]) -> Cause | None:
    """The cause at the price of what others than the named ranks pause longer in a step; None if that is too little."""
    kind = next(item.note for item in cause.evidence if item.name == "pauses")
    seen = view.past if view.digest is None else (*view.past, view.digest)
    pauses = [p for one in seen for p in one.pauses if p.kind == kind and p.step >= cause.onset_step]
    mine = [pause for pause in pauses if pause.rank in named]
    others = {pause.step for pause in pauses if pause.rank not in named}
    if not mine:
        return cause
    left = 1.0 - longest_s(mine) / longest_s(pauses)
    if len(others) < MIN_PAUSES or left * cause.share_of_step < MIN_SHARE:
        return None
    evidence = tuple(
        replace(item, value=left * item.value, note="on average, beside the ranks named for it")
        if item.name == "lost_s"
        else item
        for item in cause.evidence
    )
    return replace(
        cause,
        s_per_step=left * cause.s_per_step,
        share_of_step=left * cause.share_of_step,
        evidence=evidence,
    )


def go_on_by_rank(
    incidents: Sequence[Incident], findings: Sequence[Finding], *, window: int
) -> list[Incident]:
    """Open incidents of the whole job whose pauses this window shows as ever, but all of ranks that others name."""
    shown = {
        CLASSES[item.note][0]
        for finding in findings
        if finding.detector == "l2_pauses"
        for item in finding.evidence
        if item.name == "pauses"
    }
    opened = [one for one in incidents if one.status == "open"]
    by_rank = shown & {one.cause.fault_class for one in opened if one.cause.suspects}
    return [
        one
        for one in opened
        if is_of_all(one.cause) and one.last_window < window and one.cause.fault_class in by_rank
    ]


def billed_to(incidents: Sequence[Incident], cause: Cause) -> int:
    """Last step whose pauses an open incident of the whole job has billed, those of the cause's ranks among them; -1
    if none has."""
    return max(
        (
            one.counted_to
            for one in incidents
            if one.status == "open" and is_of_all(one.cause) and one.cause.fault_class == cause.fault_class
        ),
        default=-1,
    )


def _cause(view: View, finding: Finding) -> Cause:
    kind = next(item.note for item in finding.evidence if item.name == "pauses")
    named, other = CLASSES[kind]
    spread = tuple(item for item in finding.evidence if item.name == "paused_ranks")
    return Cause(
        fault_class=named,
        verdict="CONFIRMED",
        suspects=finding.ranks,
        scope=finding.nodes[0],
        second_best=other,
        ruled_out=()
        if finding.ranks
        else (
            RuledOut(
                fault_class="compute.slow",
                why=ALL if kind == LOADER else OTHERS,
                evidence=spread,
            ),
        ),
        evidence=tuple(
            replace(item, baseline=baseline_step_s(view.past)) if item.name == "step_s" else item
            for item in finding.evidence
        ),
        findings=(finding.id,),
        share_of_step=min(finding.share_of_step or 0.0, 1.0),
        s_per_step=finding.effect_s_per_step or 0.0,
        onset_step=finding.start_step or 0,
    )
