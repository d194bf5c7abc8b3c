"""Test 5 for what is no rank's habit: rare pauses of the host that the runtime tells of itself."""

from __future__ import annotations

from argus.analytics.baseline import baseline_step_s
from argus.analytics.finding import Evidence, Finding
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.pauses import LOADER
from argus.analytics.view import View

CLASSES = {
    "compile": ("host.jit", "host.gc"),
    "gc": ("host.gc", "host.jit"),
    LOADER: ("data.slow_loader", "host.cpu_starved"),
}
"""Class and look-alike by the runtime's word for the pause."""

OTHERS = "it is another rank from time to time, and between its pauses each is as fast as ever"
ALL = "all ranks stand at once, before their batch is there, and are as fast as ever after it"


def pause_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """One cause per kind of pause; without suspects where it is another rank each time."""
    return tuple(_cause(view, finding) for finding in lasting.findings if finding.detector == "l2_pauses")


def _cause(view: View, finding: Finding) -> Cause:
    kind = next(item.note for item in finding.evidence if item.name == "pauses")
    named, other = CLASSES[kind]
    spread = tuple(item for item in finding.evidence if item.name == "paused_ranks")
    step_s = view.digest.typical_step_s if view.digest is not None else 0.0
    return Cause(
        fault_class=named,
        verdict="CONFIRMED",
        suspects=finding.ranks,
        scope=finding.nodes[0],
        second_best=other,
        ruled_out=()
        if finding.ranks
        else (
            RuledOut(
                fault_class="compute.slow",
                why=ALL if kind == LOADER else OTHERS,
                evidence=spread,
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
