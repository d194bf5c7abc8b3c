"""The four syndromes of a job in trouble: communication or not, hang or slow (C4, arXiv 2406.04594)."""

from __future__ import annotations

from collections.abc import Sequence

from argus.analytics.classes import cause_classes
from argus.analytics.finding import Evidence

HANG, SLOW = "hang", "slow"
COMMUNICATION, OTHER = "communication", "non-communication"


def syndrome_of(
    fault_class: str, *, evidence: Sequence[Evidence] = (), group: str | None = None
) -> str | None:
    """One of the four; None where it is not known whether the trouble lies in communication.

    A rank that never came to a call its group stands in hangs outside of it; where all came, the call itself does.

    >>> syndrome_of("link.slow"), syndrome_of("host.gc"), syndrome_of("unknown")
    ('communication slow', 'non-communication slow', None)
    """
    if fault_class == "stop.hang":
        where = _hang(evidence, group)
        return where and f"{where} {HANG}"
    where = cause_classes()[fault_class].where
    return f"{where} {HANG if fault_class.startswith('stop.') else SLOW}" if where else None


def _hang(evidence: Sequence[Evidence], group: str | None) -> str | None:
    entered = [item for item in evidence if item.name == "entered" and item.baseline is not None]
    if any(item.baseline is not None and item.value < item.baseline for item in entered):
        return OTHER
    return COMMUNICATION if entered or group is not None else None
