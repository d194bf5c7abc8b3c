"""L1: single steps that took much longer than the steps before them, of the job or of ranks apart from it.

A step against the rolling median of the steps before it (argus-paper.md §9 row 15). An isolated spike is a
notice and never an incident; what a learned period foretells is none.
"""

from __future__ import annotations

from argus.analytics.finding import Finding
from argus.analytics.series.view import l1_findings
from argus.analytics.view import View

NEEDS = "gc_pause"


def detect(
    view: View,
    *,
    max_findings: int = 5,  # the largest: a window full of spikes is not news five times
) -> tuple[Finding, ...]:
    """One notice per spike."""
    found = l1_findings(view, kinds=("spike",))
    return tuple(sorted(found, key=lambda finding: -(finding.ratio or 0.0))[:max_findings])
