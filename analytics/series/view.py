"""What L1 says of a view: the events of its window as findings."""

from __future__ import annotations

from collections.abc import Container

from argus.analytics.finding import Finding
from argus.analytics.series.finding import finding_of
from argus.analytics.series.live import Heard, hear
from argus.analytics.view import View


def heard_of(view: View) -> Heard | None:
    """What the view's window brought, made now if nobody has; None between windows."""
    if view.heard is not None or view.window is None:
        return view.heard
    return hear(view.series, view.window)


def l1_findings(view: View, *, kinds: Container[str]) -> tuple[Finding, ...]:
    """The events of some kinds, of the job first, then of ranks apart from it."""
    heard = heard_of(view)
    if heard is None or view.window is None:
        return ()
    events = [*((event, ()) for event in heard.job), *heard.ranks]
    return tuple(
        finding_of(event, run=view.run, attempt=view.attempt, window=view.window.index, ranks=ranks)
        for event, ranks in events
        if event.kind in kinds
    )
