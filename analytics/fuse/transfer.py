"""Test 7, transfers of a group: only where nobody is late and the members are clean is the network named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.baseline import baseline_step_s
from argus.analytics.delays import ends_of
from argus.analytics.finding import Evidence
from argus.analytics.fuse.lasting import Lasting, mean_share
from argus.analytics.fuse.scope import join_paths
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.link_symptom import LinkSymptom
from argus.analytics.view import View

CPU_HALVED = 0.5
"""A member that got less than half of its usual CPU time may be why the transfers take long."""


CLEAN = "no member enters its collectives late and their own work is what it was"
BEFORE = "a member is slow by now as well, but the transfers were as slow before, while none was"


def link_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """One cause per slow path, or one for all that cross the same object."""
    return join_paths(view, [_link_cause(view, symptoms) for symptoms in lasting.links])


def _link_cause(view: View, symptoms: Sequence[LinkSymptom]) -> Cause:
    """The network is named for sure only if it was seen twice and nothing speaks against a member."""
    last = symptoms[-1]
    unclean = tuple(dict.fromkeys(text for s in symptoms for text in s.unclean))
    transfer, clean, *rest = _link_evidence(view, symptoms)
    starved = last.cpu_ratio < CPU_HALVED
    sure = "CONFIRMED" if len(symptoms) > 1 and not starved else "LIKELY"
    return Cause(
        fault_class="link.slow",
        verdict="INCONCLUSIVE" if unclean else sure,
        suspects=last.ranks,
        scope=_scope(view, last),
        group=last.group,
        paths=(last.path,),
        second_best="host.cpu_starved",
        ruled_out=(
            RuledOut(
                fault_class="compute.slow",
                why=BEFORE if any(s.is_shared for s in symptoms) else CLEAN,
                evidence=(clean,),
            ),
        ),
        evidence=(
            transfer,
            clean,
            *rest,
            *(Evidence(name="unclean", value=1.0, note=text) for text in unclean),
        ),
        findings=tuple(dict.fromkeys(name for s in symptoms for name in s.findings)),
        share_of_step=mean_share(symptoms),
        s_per_step=float(np.mean([s.impact_s for s in symptoms])),
        onset_step=symptoms[0].first_step,
    )


def _scope(view: View, symptom: LinkSymptom) -> str:
    """The group, or the edge between the two ends: their hosts where these are known and differ."""
    if ends_of(symptom.path) is None:
        return f"group:{symptom.path}"
    hosts = sorted(view.topology.host_of(rank) for rank in symptom.ranks)
    if all(hosts) and hosts[0] != hosts[1]:
        return f"edge:host:{hosts[0]}--host:{hosts[1]}"
    low, high = sorted(symptom.ranks)
    return f"edge:rank:{low}--rank:{high}"


def _path_name(path: str) -> str:
    """A group by its name, two ends by their ranks."""
    ends = ends_of(path)
    return path if ends is None else f"rank {ends[0]} to rank {ends[1]}"


def _link_evidence(view: View, symptoms: Sequence[LinkSymptom]) -> tuple[Evidence, ...]:
    last = symptoms[-1]
    return (
        Evidence(
            name="transfer_s",
            value=float(np.mean([s.transfer_s for s in symptoms])),
            unit="s",
            baseline=float(np.mean([s.baseline_s for s in symptoms])),
            note=_path_name(last.path),
        ),
        Evidence(
            name="own_ratio",
            value=float(np.mean([s.own_ratio for s in symptoms])),
            unit="ratio",
            note="members' own work against their past",
        ),
        Evidence(
            name="cpu_ratio", value=last.cpu_ratio, unit="ratio", note="CPU time of the member that got least"
        ),
        Evidence(name="victims_wait_s", value=last.victims_wait_s, unit="s"),
        Evidence(name="step_s", value=last.step_s, unit="s", baseline=baseline_step_s(view.past)),
    )
