"""Test 5 for checkpoints: the storage of the rank whose saves the others wait for."""

from __future__ import annotations

from argus.analytics.baseline import baseline_step_s
from argus.analytics.finding import Evidence, Finding
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.view import View


def save_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """At most one cause; timing alone cannot see the file system, so it is never sure."""
    return tuple(_cause(view, finding) for finding in lasting.findings if finding.detector == "l2_saves")


def _cause(view: View, finding: Finding) -> Cause:
    step_s = view.digest.typical_step_s if view.digest is not None else 0.0
    return Cause(
        fault_class="host.filesystem",
        verdict="LIKELY",
        suspects=finding.ranks,
        scope=finding.nodes[0],
        phase=finding.phase,
        second_best="host.cpu_starved",
        ruled_out=(
            RuledOut(
                fault_class="compute.slow",
                why="the time is lost in saving; in the other steps the rank is as fast as its peers",
                evidence=finding.evidence[:1],
            ),
        ),
        evidence=(
            *finding.evidence,
            Evidence(name="step_s", value=step_s, unit="s", baseline=baseline_step_s(view.past)),
        ),
        findings=(finding.id,),
        share_of_step=min(finding.share_of_step or 0.0, 1.0),
        s_per_step=finding.effect_s_per_step or 0.0,
        onset_step=finding.start_step or 0,
    )
