"""The order of tests: which rules name causes, and which checks confirm or contradict them."""

from __future__ import annotations

from collections.abc import Callable

from argus.analytics.fuse.lasting import Lasting
from argus.analytics.fuse.merge import one_per_suspect
from argus.analytics.fuse.own_work import rank_causes
from argus.analytics.fuse.transfer import link_causes
from argus.analytics.incident import Cause
from argus.analytics.view import View

Rule = Callable[[View, Lasting], tuple[Cause, ...]]
"""Names causes from what lasted; no cause is a good answer."""

Check = Callable[[Cause, View], Cause]
"""The cause with evidence for or against it, a firmer or weaker verdict; never another suspect."""

RULES: tuple[Rule, ...] = (
    rank_causes,
    link_causes,
)
"""In the order of incidents.md §2.2: of two causes that name the same suspects the earlier one stands."""

CHECKS: tuple[Check, ...] = ()
"""Counters, host metrics and out-of-band events."""


def decide(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """The causes of what lasted, one per suspect, checked."""
    causes = one_per_suspect([cause for rule in RULES for cause in rule(view, lasting)])
    for check in CHECKS:
        causes = tuple(check(cause, view) for cause in causes)
    return causes
