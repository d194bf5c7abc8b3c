"""Windows that could have shown an incident and did not: what they say of its end and of its cost."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from argus.analytics.baseline import is_comparable
from argus.analytics.incident import Incident
from argus.analytics.kernels.digest import KEPT
from argus.analytics.kernels.join import is_of_kernels
from argus.analytics.lifecycle import GONE_WINDOWS, is_recurring, is_stop
from argus.analytics.pauses import are_due
from argus.analytics.view import Digest

PAUSES = "pauses"
"""Evidence by which a cause is known that is about pauses the runtime tells of; its note is their kind."""


def is_gone(incident: Incident, past: Sequence[Digest], recurring: Container[int]) -> bool:
    """Enough windows that could have shown it did not; a window half unseen proves nothing.

    What comes and goes is gone when the last day has too few bouts of it, regular pauses of the whole job once one is
    overdue.
    """
    if incident.status != "open" or is_stop(incident):
        return False
    if is_recurring(incident):
        return not any(rank in recurring for rank in incident.cause.suspects)
    silent = [d for d in past if d.index > incident.last_window and is_comparable(d)]
    if is_of_kernels(incident.cause) and len(silent) < KEPT:
        silent = [d for d in silent if d.kernels is not None]
    return len(silent) >= GONE_WINDOWS and not _is_between_pauses(incident, past)


def _is_between_pauses(incident: Incident, past: Sequence[Digest]) -> bool:
    """Whether it is about regular pauses of the whole job, of which a window holds one in several, and the next is due."""
    cause = incident.cause
    kind = next((item.note for item in cause.evidence if item.name == PAUSES), "")
    if cause.suspects or not kind or not past:
        return False
    mine = [p for d in past for p in d.pauses if p.kind == kind and p.step >= cause.onset_step]
    return are_due(mine, last_step=int(past[-1].steps[-1]))


def quiet_steps(incident: Incident, past: Iterable[Digest], *, window: int) -> int:
    """Steps of windows before `window` that could have shown the incident since it was last seen, and did not.

    0 where a detector alone sees it: there silence does not say that less than half is left (`still_slow`).
    """
    cause = incident.cause
    is_seen_always = not is_stop(incident) and bool(cause.suspects) and cause.fault_class != "link.slow"
    if not is_seen_always or is_of_kernels(cause):
        return 0
    return sum(d.num_steps for d in past if incident.last_window < d.index < window and is_comparable(d))
