"""The order of tests: which rules name causes, and which checks confirm or contradict them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from argus.analytics.fuse.counters import check_events
from argus.analytics.fuse.earlier import check_earlier
from argus.analytics.fuse.host_evidence import (
    STARVED,
    clean_members,
    device_marks,
    host_similarity,
    starvation,
)
from argus.analytics.fuse.kernels import kernel_causes
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.fuse.merge import one_per_suspect
from argus.analytics.fuse.own_work import rank_causes
from argus.analytics.fuse.paused import pause_causes, without_named_ranks
from argus.analytics.fuse.priced import price
from argus.analytics.fuse.restart import restart_causes
from argus.analytics.fuse.saved import save_causes
from argus.analytics.fuse.second_best import with_separation
from argus.analytics.fuse.transfer import link_causes
from argus.analytics.fuse.uneven import majority_causes, stage_causes, work_causes
from argus.analytics.fuse.whole_job import job_causes
from argus.analytics.incident import Cause
from argus.analytics.view import View

Rule = Callable[[View, Lasting], tuple[Cause, ...]]
"""Names causes from what lasted; no cause is a good answer."""

Check = Callable[[Cause, View], Cause]
"""The cause with evidence for or against it, a firmer or weaker verdict; never another suspect."""

RULES: tuple[Rule, ...] = (
    restart_causes,
    rank_causes,
    pause_causes,
    save_causes,
    majority_causes,
    stage_causes,
    work_causes,
    link_causes,
    kernel_causes,
)
"""In the order of incidents.md §2.2: of two causes that name the same suspects the earlier one stands."""

CHECKS: tuple[Check, ...] = (
    starvation,
    clean_members,
    host_similarity,
    device_marks,
    check_events,
    check_earlier,
    with_separation,
)
"""Counters, host metrics and out-of-band events, then the second best."""


def decide(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """The causes of what lasted, one per suspect, checked and priced together; where there is none, that all ranks are
    slower alike."""
    named = one_per_suspect([cause for rule in RULES for cause in rule(view, lasting)])
    causes = without_delayed(without_unserved(without_named_ranks(named, view, lasting)))
    causes = causes or job_causes(view, lasting)
    return price([checked(view, cause) for cause in causes], view, known=lasting.open)


def without_unserved(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Without the slow links one of whose members does not get the CPU: it could not serve the transfer."""
    starved = {rank for cause in causes if cause.fault_class == STARVED for rank in cause.suspects}
    return tuple(c for c in causes if c.fault_class != "link.slow" or not starved & set(c.suspects))


def without_delayed(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Without ranks of which nothing is known but that they come late, and that have a slow path to wait for.

    Who leaves a slow transfer late comes late to its next call, in the step after at the latest.
    """
    paths = [cause for cause in causes if cause.fault_class == "link.slow"]
    waits_s = {rank: path.s_per_step for path in paths for rank in path.suspects}
    return tuple(
        cause
        for cause in causes
        if cause.fault_class != "unknown"
        or not cause.suspects
        or any(cause.s_per_step > waits_s.get(rank, 0.0) for rank in cause.suspects)
    )


def checked(view: View, cause: Cause) -> Cause:
    """The cause with what counters, host metrics and events say of it."""
    for check in CHECKS:
        cause = check(cause, view)
    return cause
