"""Test 7, transfers of a group: only where nobody is late and the members are clean is the network named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.baseline import baseline_step_s
from argus.analytics.finding import Evidence
from argus.analytics.fuse.lasting import Lasting, mean_share
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.symptom import LinkSymptom
from argus.analytics.view import View


def link_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """One cause for all slow groups that share a host, else one per group."""
    suspects = lasting.links
    if not suspects:
        return ()
    hosts = [{view.topology.host_of(rank) for rank in s[-1].ranks} - {""} for s in suspects]
    shared = set.intersection(*hosts) if len(suspects) > 1 else set()
    causes = [_link_cause(view, symptoms) for symptoms in suspects]
    if len(shared) != 1 or len(set(view.topology.hosts.values())) < 2:
        return tuple(causes)
    host = min(shared)
    worst = max(causes, key=lambda cause: cause.s_per_step)
    here = set(view.topology.ranks_of_host(host))
    ranks = tuple(sorted({rank for cause in causes for rank in cause.suspects} & here))
    findings = tuple(dict.fromkeys(name for cause in causes for name in cause.findings))
    return (Cause(**{**vars(worst), "suspects": ranks, "scope": f"host:{host}", "findings": findings}),)


def _link_cause(view: View, symptoms: Sequence[LinkSymptom]) -> Cause:
    last = symptoms[-1]
    impact = float(np.mean([s.impact_s for s in symptoms]))
    transfer, clean, *rest = _link_evidence(view, symptoms)
    why = "no member enters its collectives late and their own work is what it was"
    return Cause(
        fault_class="link.slow",
        verdict="LIKELY" if len(symptoms) < 2 else "CONFIRMED",
        suspects=last.ranks,
        scope=f"group:{last.group}",
        group=last.group,
        second_best="host.cpu_starved",
        ruled_out=(RuledOut(fault_class="compute.slow", why=why, evidence=(clean,)),),
        evidence=(transfer, clean, *rest),
        findings=tuple(dict.fromkeys(name for s in symptoms for name in s.findings)),
        share_of_step=mean_share(symptoms),
        s_per_step=impact,
        onset_step=symptoms[0].first_step,
    )


def _link_evidence(view: View, symptoms: Sequence[LinkSymptom]) -> tuple[Evidence, ...]:
    last = symptoms[-1]
    return (
        Evidence(
            name="transfer_s",
            value=float(np.mean([s.transfer_s for s in symptoms])),
            unit="s",
            baseline=float(np.mean([s.baseline_s for s in symptoms])),
            note=last.group,
        ),
        Evidence(
            name="own_ratio",
            value=float(np.mean([s.own_ratio for s in symptoms])),
            unit="ratio",
            note="members' own work against their past",
        ),
        Evidence(name="victims_wait_s", value=last.victims_wait_s, unit="s"),
        Evidence(name="step_s", value=last.step_s, unit="s", baseline=baseline_step_s(view.past)),
    )
