"""Where nothing but step times is known: when the job got slower, not who."""

from __future__ import annotations

from collections.abc import Sequence

from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause


def series_cause(
    run: str,
    *,
    findings: Sequence[str],
    evidence: tuple[Evidence, ...],
    onset_step: int,
    lost_s: float,
    step_s: float,
) -> Cause:
    """Cause of a job whose steps got longer, of which nothing but the step times is known: when, not who."""
    return Cause(
        fault_class="step.slower",
        verdict="INCONCLUSIVE",
        suspects=(),
        scope=f"run:{run}",
        evidence=evidence,
        findings=tuple(findings),
        share_of_step=min(max(lost_s / step_s, 0.0), 1.0),
        s_per_step=max(lost_s, 0.0),
        onset_step=onset_step,
    )
