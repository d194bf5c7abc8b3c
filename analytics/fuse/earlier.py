"""History confirms: in how many other runs the suspects' devices were bad before."""

from __future__ import annotations

from dataclasses import replace

from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause
from argus.analytics.view import View


def check_earlier(cause: Cause, view: View) -> Cause:
    """The cause with the number of other runs that its worst suspect's device was suspected in."""
    runs = max((view.outside.other_runs.get(rank, 0) for rank in cause.suspects), default=0)
    if not runs or cause.fault_class.partition(".")[0] in ("link", "run"):
        return cause
    return replace(cause, evidence=(*cause.evidence, Evidence(name="earlier_runs", value=float(runs))))
