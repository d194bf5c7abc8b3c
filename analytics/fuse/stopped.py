"""Test 1, stopped: ranks that are lost, else ranks behind the others, else the group that is stuck."""

from __future__ import annotations

from argus.analytics.baseline import baseline_step_s
from argus.analytics.finding import Finding
from argus.analytics.fuse.scope import scope_of_ranks
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.view import View


def stop_cause(view: View, finding: Finding) -> Cause:
    """Cause of a finding of kind stop: ranks lost, else ranks behind, else the group that is stuck.

    Where nobody is heard any more, the job may be well and only its reporters gone: that decides nothing.
    """
    lost = finding.measure("lost") is not None
    if finding.ranks:
        scope = scope_of_ranks(view, finding.ranks)
    else:
        scope = f"group:{finding.group}" if finding.group else f"run:{view.run}"
    running = {beat.rank for beat in view.beats if beat.state == "running"}
    exited = any(beat.state == "exited" for beat in view.beats if beat.rank in finding.ranks)
    is_seen = exited or bool(running - set(finding.ranks)) if lost else bool(finding.ranks)
    look_alike = "stop.hang" if lost else "stop.lost"
    why = "the process is gone" if lost else "every process is still there"
    return Cause(
        fault_class="stop.lost" if lost else "stop.hang",
        verdict=("CONFIRMED" if lost else "LIKELY") if is_seen else "INCONCLUSIVE",
        suspects=finding.ranks,
        scope=scope,
        victims=tuple(sorted(running - set(finding.ranks))),
        phase=finding.phase,
        group=finding.group,
        second_best=look_alike,
        ruled_out=(RuledOut(fault_class=look_alike, why=why),) if is_seen or not lost else (),
        evidence=finding.evidence,
        findings=(finding.id,),
        share_of_step=1.0,
        s_per_step=baseline_step_s(view.past) or 0.0,
        onset_step=finding.start_step or 0,
    )
