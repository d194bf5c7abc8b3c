"""Why finding nothing in a job's records proves nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.agent.wording import counted, quantity, ranks
from argus.analytics.ballots import VOTES
from argus.analytics.baseline import is_seen
from argus.analytics.finding import Finding
from argus.analytics.lone import excludes_chance
from argus.analytics.peers import without_peers
from argus.analytics.waits import Waits
from argus.analytics.window import Window
from argus.api.offline.own import longer_work
from argus.collectors.job import Job

MIN_SHARE_READ = 0.5
"""Below half of the ranks nobody can be called late: most of those who might be later were not read."""

MIN_SHARE_SEEN = 0.5
"""A rank seen in fewer than half of the steps, or calls of which fewer can be compared, may hide what lasts."""

FEW_STEPS = 5
"""Fewer steps than this cannot repeat anything."""

MUCH_WAITING = 0.25
"""Waiting for a quarter of the step is no good health, even if it cannot be laid at one rank's door."""

Waited = Sequence[tuple[Window, Waits]]


def doubt_of(job: Job, waits: Waited, findings: Sequence[Finding] = ()) -> str:
    """The first reason to doubt, as a phrase; "" if finding nothing does prove that there is nothing.

    `findings` are those of which no incident came.
    """
    return (
        _too_few_ranks(job)
        or _incomparable(job, waits)
        or _unread(job, waits)
        or _without_peers(waits)
        or _much_waiting(job, waits)
        or _one_wait(findings)
        or _once(waits, findings)
    )


def _read(job: Job) -> str:
    return f"{len(job.ranks)} of {job.world_size} ranks"


def are_too_few(job: Job) -> bool:
    """Whether too few of the job's ranks were read to call any of them late."""
    num_seen = job.world_size - len(job.missing)
    return num_seen < max(MIN_SHARE_READ * job.world_size, min(2, job.world_size))


def _too_few_ranks(job: Job) -> str:
    return f"only {_read(job)} were read" if are_too_few(job) else ""


def _incomparable(job: Job, waits: Waited) -> str:
    """No detector looked, or had nothing to look at."""
    if not any(window.usable.any() for window, _ in waits):
        return "every step is a warm-up, a mark or incomplete"
    compared = [
        is_seen(window.coverage.ratio, num_usable=int(window.usable.sum()), num_steps=window.num_steps)
        for window, _ in waits
    ]
    if sum(compared) < min(VOTES, len(waits)):
        steps = sum(
            window.num_steps for (window, _), is_compared in zip(waits, compared, strict=True) if is_compared
        )
        return f"too little of the ranks' steps was seen: {steps} of {job.num_steps} can be compared"
    if job.world_size > 1 and not any(len(seen.calls.first) for _, seen in waits):
        return (
            longer_work([window for window, _ in waits])
            or f"no collective can be compared over the {_read(job)}"
        )
    return ""


def _unread(job: Job, waits: Waited) -> str:
    """Ranks or calls that were not read: whom the others wait for may be among them."""
    if job.missing:
        return f"none of the {_read(job)} that were read stands out, the others are unknown"
    short = [
        one.layout.rank
        for one in job.records
        if len(np.unique(one.steps["step"])) < MIN_SHARE_SEEN * job.num_steps
    ]
    if short:
        seen = "was" if len(short) == 1 else "were"
        return f"{ranks(short)} {seen} seen in fewer than half of the {job.num_steps} steps"
    whole = sum(len(seen.calls.first) for _, seen in waits)
    num = whole + job.num_unmatched + sum(len(seen.calls.cut_group) for _, seen in waits)
    if whole < MIN_SHARE_SEEN * num:
        return f"only {whole} of {num} collectives can be compared, the ranks' records hold different ones"
    return ""


def _without_peers(waits: Waited) -> str:
    """Ranks whose own work nobody's could be held against: slow, they show in waits alone, and only if grossly so."""
    alone = without_peers(waits[0][0].topology)
    if not alone:
        return ""
    return (
        f"own work of {ranks(alone)} is compared with nobody's, "
        "for no other rank of that GPU model does the same work"
    )


def _much_waiting(job: Job, waits: Waited) -> str:
    if job.num_steps >= FEW_STEPS:
        return ""
    window, seen = waits[0]
    step_s, wait_s = float(np.nanmedian(window.step_s)), float(seen.waited_s.max(initial=0.0))
    if wait_s < MUCH_WAITING * step_s:
        return ""
    return f"ranks wait up to {quantity(wait_s, 's')} of a {quantity(step_s, 's')} step, but none stands out"


def _one_wait(findings: Sequence[Finding]) -> str:
    """One wait that outweighs all other time of the recording."""
    one = next((finding for finding in findings if finding.detector == "long_wait"), None)
    if one is None:
        return ""
    wait_s = quantity(one.measure("wait_s") or 0.0, "s")
    where = f"in its phase {one.phase}" if one.phase else "and nothing tells why"
    return f"{ranks(one.ranks)} kept the others waiting once, {wait_s} at step {one.start_step}, {where}"


def _once(waits: Waited, findings: Sequence[Finding]) -> str:
    """A rank whose own work is long in so few steps that it may be chance, though nobody waits for it."""
    window, _ = waits[0]
    num_steps, num_ranks = int(window.usable.sum()), len(window.ranks)
    if len(waits) > 1 or excludes_chance(num_steps=num_steps, num_ranks=num_ranks):
        return ""
    long = sorted(
        {rank for one in findings if one.role == "culprit" and one.level == "L2" for rank in one.ranks}
    )
    if not long:
        return ""
    steps = counted(num_steps, "steps")
    return (
        f"{ranks(long)} took longer than others over some work, but {steps} cannot tell chance from a cause"
    )
