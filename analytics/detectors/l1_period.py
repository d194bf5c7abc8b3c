"""L1: slow steps come back at equal distances, in steps (checkpoint, evaluation, logging, prefetch) or in seconds
(scrape, cron, heat).

A period is told once; the spikes and changes it foretells are no findings any more.
"""

from __future__ import annotations

from argus.analytics.finding import Finding
from argus.analytics.series.view import l1_findings
from argus.analytics.view import View

NEEDS = "gc_pause"


def detect(view: View) -> tuple[Finding, ...]:
    """A notice per period learned in the view's window."""
    return l1_findings(view, kinds=("periodic",))
