"""L1: the level of the step time changed: at one step, slowly, or to and fro; of the job or of ranks apart from it.

A change is looked for in every step over the last 120 (argus-paper.md §9 row 16) against the noise of the
level and its repetition, and placed once more when more steps lie behind it; the rules stand with
`analytics/series`.
"""

from __future__ import annotations

from argus.analytics.finding import Finding
from argus.analytics.series.view import l1_findings
from argus.analytics.view import View

NEEDS = "slow_rank"


def detect(view: View) -> tuple[Finding, ...]:
    """A notice per change, drift or oscillation found in the view's window."""
    return l1_findings(view, kinds=("shift", "drift", "oscillation"))
