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
    left = finding.measure("left") is not None
    lost = left or finding.measure("lost") is not None
    if finding.ranks:
        scope = scope_of_ranks(view, finding.ranks)
    else:
        scope = f"group:{finding.group}" if finding.group else f"run:{view.run}"
    running = {beat.rank for beat in view.beats if beat.state == "running"}
    accused = frozenset(finding.ranks)
    suspects = [beat for beat in view.beats if beat.rank in accused]
    exited = any(beat.state in ("exited", "ended") for beat in suspects)
    is_seen = exited or bool(running - accused) if lost else bool(finding.ranks)
    # One that ended in order may have been meant to, and an exit without a reason may have been in order.
    is_sure = lost and not left and all(b.state != "exited" or b.exit_reason for b in suspects)
    failed = {b.rank for b in view.beats if left and b.state == "exited" and b.exit_reason != "code 0"}
    victims = tuple(sorted((running | failed) - accused))
    look_alike = "stop.hang" if lost else "stop.lost"
    why = "the process is gone" if lost else _why_not_lost(view)
    is_ruled_out = bool(why) and (is_seen or not lost)
    return Cause(
        fault_class="stop.lost" if lost else "stop.hang",
        verdict=("CONFIRMED" if is_sure else "LIKELY") if is_seen else "INCONCLUSIVE",
        suspects=finding.ranks,
        scope=scope,
        victims=victims,
        phase=finding.phase,
        group=finding.group,
        second_best=look_alike,
        ruled_out=(RuledOut(fault_class=look_alike, why=why),) if is_ruled_out else (),
        evidence=finding.evidence,
        findings=(finding.id,),
        share_of_step=1.0,
        s_per_step=baseline_step_s(view.past) or 0.0,
        onset_step=finding.start_step or 0,
    )


def _why_not_lost(view: View) -> str:
    """Why nobody is lost where a group hangs; "" if a process may have ended, or was not heard of at all."""
    running = {beat.rank for beat in view.beats if beat.state == "running"}
    return "every process is still there" if running.issuperset(view.topology.ranks) else ""
