"""Findings of several windows become causes: the one place that decides class, suspects, scope and verdict.

The order of tests is that of incidents.md §2.2: stopped → (start-up and known steps were left out before) →
own work of a rank, by host path and compute (`classify`) → transfers of a group, only where nobody is late
and the members are clean. One cause per suspect rank, host or group, however many phases and groups show it.

Names of the evidence in a Cause, seconds per step unless the unit says otherwise; `baseline` in brackets:

rank causes
  own_self_s (peers)        all own work of the suspect in a step
  self_s (peers)            own work in the phase of the cause, named in the note
  cpu_s (peers)             CPU time of that phase; flat beside a grown self_s = starved
  gc_pause_s (peers)        garbage collection pauses
  caused_wait_s (median)    waiting of the others per step because the suspect entered late
  last_share                share of its collectives the suspect entered last (ratio)
  victims_wait_s            how long the victims waited per step, group in the note
  step_s (clean windows)    step time now
  replay_gain_s (own excess)   what the step would gain if the suspect were healthy, by replay of the pipeline
  transfer_s (own past)     transfer time of the group it delayed; in `ruled_out` of link.slow
  gc_share, data_share, cpu_share, phase_share   shares of the lost time, in `ruled_out`
link causes
  transfer_s (own past or sibling groups)   transfer time of the group per step
  own_ratio                 members' own work against their past (ratio; 1 = clean)
  victims_wait_s, step_s    as above
stops
  stalled_s (limit)         no step ended for so long
  median_step_s             usual step time
  entered, completed (furthest member)      calls of the rank behind (calls), rank and group in the note
  lost (rank number)        one per vanished rank, state and exit reason in the note
  last_step                 last step of the lost rank (step)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.baseline import baseline_step_s, group_history
from argus.analytics.classify import Classification, classify
from argus.analytics.finding import Evidence, Finding
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.symptom import LinkSymptom, PhaseExcess, RankSymptom
from argus.analytics.view import View

SAME_SIZE = 0.25
"""A window that cost less than a quarter of the worst does not date the fault, but may hold its first steps."""

HOST_SHARE = 0.75
"""A host is the scope when this share of its ranks is suspected, and other hosts are not."""


def stop_cause(view: View, finding: Finding) -> Cause:
    """Cause of a finding of kind stop: ranks lost, else ranks behind, else the group that is stuck.

    Where nobody is heard any more, the job may be well and only its reporters gone: that decides nothing.
    """
    lost = finding.measure("lost") is not None
    if finding.ranks:
        scope = _scope_of_ranks(view, finding.ranks)
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
        second_best=None if lost else "link.slow",
        ruled_out=(RuledOut(fault_class=look_alike, why=why),) if is_seen or not lost else (),
        evidence=finding.evidence,
        findings=(finding.id,),
        share_of_step=1.0,
        s_per_step=baseline_step_s(view.past) or 0.0,
        onset_step=finding.start_step or 0,
    )


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


def rank_causes(view: View, suspects: Sequence[Sequence[RankSymptom]]) -> tuple[Cause, ...]:
    """One cause per suspect; each item is the symptoms of one rank, oldest first.

    Ranks that make up most of one host, with the same class, become one cause of that host.
    """
    classes = [classify(symptoms) for symptoms in suspects]
    causes = [_rank_cause(view, list(s), c) for s, c in zip(suspects, classes, strict=True)]
    return tuple(_join_hosts(view, causes))


def _rank_cause(view: View, symptoms: list[RankSymptom], decided: Classification) -> Cause:
    last = symptoms[-1]
    loud = [
        s
        for s in symptoms
        if {"self_time", "wait"} <= s.signals
        or (s.worth_s is not None and s.is_vote and "self_time" in s.signals)
    ]
    confirmed = decided.is_clear and len(loud) >= 2
    known = "CONFIRMED" if confirmed else "LIKELY"
    impact = float(np.mean([s.impact_s for s in symptoms]))
    return Cause(
        fault_class=decided.fault_class,
        verdict="INCONCLUSIVE" if decided.fault_class == "unknown" else known,
        suspects=(last.rank,),
        scope=f"rank:{last.rank}",
        victims=last.victims,
        phase=decided.phase,
        group=last.group,
        second_best=decided.second_best,
        ruled_out=(
            *_not_the_link(view, last),
            *(r for r in decided.ruled_out if _is_seen(view, r.fault_class)),
        ),
        evidence=_rank_evidence(view, symptoms, decided.phase),
        findings=tuple(dict.fromkeys(name for s in symptoms for name in s.findings)),
        share_of_step=_share(symptoms),
        s_per_step=impact,
        onset_step=_onset(symptoms),
    )


def _onset(symptoms: Sequence[RankSymptom]) -> int:
    """Onset in the first window of the same size: an earlier hiccup of the same rank is another matter."""
    largest = max(s.impact_s for s in symptoms)
    return next(s.onset_step for s in symptoms if s.impact_s >= SAME_SIZE * largest)


def _is_seen(view: View, fault_class: str) -> bool:
    """Whether the window could have shown the class: what nobody looked at is not ruled out."""
    unseen = view.window.coverage.unseen if view.window is not None else ()
    return fault_class != "host.gc" or not any(text.startswith("gc:") for text in unseen)


def _share(symptoms: Sequence[RankSymptom] | Sequence[LinkSymptom]) -> float:
    """Share of the step that is lost, over the windows of the symptoms."""
    shares = [s.impact_s / s.step_s for s in symptoms if s.step_s > 0]
    return min(float(np.mean(shares)), 1.0) if shares else 0.0


def _rank_evidence(view: View, symptoms: list[RankSymptom], phase: str | None) -> tuple[Evidence, ...]:
    last = symptoms[-1]

    def mean(values: list[float]) -> float:
        return float(np.mean(values))

    own = Evidence(
        name="own_self_s",
        value=mean([s.own_s for s in symptoms]),
        unit="s",
        baseline=mean([s.own_peers_s for s in symptoms]),
    )
    waits = _wait_evidence(symptoms)
    pauses = Evidence(
        name="gc_pause_s",
        value=mean([s.gc_s for s in symptoms]),
        unit="s",
        baseline=mean([s.peers_gc_s for s in symptoms]),
    )
    step = Evidence(name="step_s", value=last.step_s, unit="s", baseline=baseline_step_s(view.past))
    found = [part for s in symptoms for part in s.phases if part.phase == phase]
    replayed = [s.worth_s for s in symptoms if s.worth_s is not None]
    if not replayed:
        return (own, *_phase_evidence(found), pauses, *(waits if last.sees_waits else ()), step)
    return (own, *_phase_evidence(found), pauses, _gain(symptoms, replayed), step)


def _wait_evidence(symptoms: list[RankSymptom]) -> tuple[Evidence, ...]:
    """What the suspect made the others wait."""
    last = symptoms[-1]

    def mean(values: list[float]) -> float:
        return float(np.mean(values))

    return (
        Evidence(
            name="caused_wait_s",
            value=mean([s.late_s for s in symptoms]),
            unit="s",
            baseline=mean([s.late_usual_s for s in symptoms]),
        ),
        Evidence(name="last_share", value=mean([s.last_share for s in symptoms]), unit="ratio"),
        Evidence(
            name="victims_wait_s",
            value=mean([s.victims_wait_s for s in symptoms]),
            unit="s",
            note=f"in {last.group}" if last.group else "",
        ),
    )


def _gain(symptoms: list[RankSymptom], replayed: list[float]) -> Evidence:
    """What a replay says the step would gain, beside the excess of own work."""
    excess = float(np.mean([s.excess_s for s in symptoms]))
    return Evidence(name="replay_gain_s", value=float(np.mean(replayed)), unit="s", baseline=excess)


def _phase_evidence(found: list[PhaseExcess]) -> tuple[Evidence, ...]:
    if not found:
        return ()
    clock = "GPU clock" if found[-1].on_gpu else "wall clock"
    own = Evidence(
        name="self_s",
        value=float(np.mean([part.self_s for part in found])),
        unit="s",
        baseline=float(np.mean([part.peers_s for part in found])),
        note=f"{found[-1].phase}, {clock}",
    )
    cpu = Evidence(
        name="cpu_s",
        value=float(np.mean([part.cpu_s for part in found])),
        unit="s",
        baseline=float(np.mean([part.peers_cpu_s for part in found])),
        note=found[-1].phase,
    )
    return (own, cpu)


def _not_the_link(view: View, symptom: RankSymptom) -> tuple[RuledOut, ...]:
    """The suspect's own collective is the short one, and transfers are what they were."""
    digest = view.digest
    if (
        not symptom.sees_waits
        or symptom.group is None
        or digest is None
        or symptom.group not in digest.groups
    ):
        return ()
    now = float(digest.transfer_sum_s[digest.groups.index(symptom.group)])
    past = group_history(view.past, symptom.group)
    transfer = Evidence(
        name="transfer_s",
        value=now,
        unit="s",
        baseline=float(np.median(past)) if past.size else None,
        note=symptom.group,
    )
    last = Evidence(name="last_share", value=symptom.last_share, unit="ratio")
    return (
        RuledOut(
            fault_class="link.slow",
            why="the suspect enters last and has the shortest collective; the others wait for it, not for data",
            evidence=(transfer, last),
        ),
    )


def _join_hosts(view: View, causes: list[Cause]) -> list[Cause]:
    hosts: dict[str, list[Cause]] = {}
    for cause in causes:
        hosts.setdefault(view.topology.host_of(cause.suspects[0]), []).append(cause)
    several = len(set(view.topology.hosts.values())) > 1
    joined: list[Cause] = []
    for host, mine in hosts.items():
        members = view.topology.ranks_of_host(host)
        same = len({cause.fault_class for cause in mine}) == 1
        if several and host and same and len(mine) > 1 and len(mine) >= HOST_SHARE * len(members):
            joined.append(_host_cause(mine, f"host:{host}"))
        else:
            joined.extend(mine)
    return joined


def _host_cause(mine: list[Cause], scope: str) -> Cause:
    """The costliest of the host's ranks speaks for all of them."""
    worst = max(mine, key=lambda cause: cause.s_per_step)
    suspects = tuple(sorted(rank for cause in mine for rank in cause.suspects))
    return Cause(
        **{
            **vars(worst),
            "suspects": suspects,
            "scope": scope,
            "victims": tuple(sorted({rank for c in mine for rank in c.victims} - set(suspects))),
            "findings": tuple(dict.fromkeys(name for cause in mine for name in cause.findings)),
            "onset_step": min(cause.onset_step for cause in mine),
        }
    )


def link_causes(view: View, suspects: Sequence[Sequence[LinkSymptom]]) -> tuple[Cause, ...]:
    """One cause for all slow groups that share a host, else one per group; items as in `rank_causes`."""
    if not suspects:
        return ()
    hosts = [{view.topology.host_of(rank) for rank in s[-1].ranks} - {""} for s in suspects]
    shared = set.intersection(*hosts) if len(suspects) > 1 else set()
    causes = [_link_cause(view, list(symptoms)) for symptoms in suspects]
    if len(shared) != 1 or len(set(view.topology.hosts.values())) < 2:
        return tuple(causes)
    host = min(shared)
    worst = max(causes, key=lambda cause: cause.s_per_step)
    here = set(view.topology.ranks_of_host(host))
    ranks = tuple(sorted({rank for cause in causes for rank in cause.suspects} & here))
    findings = tuple(dict.fromkeys(name for cause in causes for name in cause.findings))
    return (Cause(**{**vars(worst), "suspects": ranks, "scope": f"host:{host}", "findings": findings}),)


def _link_cause(view: View, symptoms: list[LinkSymptom]) -> Cause:
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
        share_of_step=_share(symptoms),
        s_per_step=impact,
        onset_step=symptoms[0].first_step,
    )


def _link_evidence(view: View, symptoms: list[LinkSymptom]) -> tuple[Evidence, ...]:
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


def _scope_of_ranks(view: View, ranks: Sequence[int]) -> str:
    """The rank, else the one host that holds them all."""
    if len(ranks) == 1:
        return f"rank:{ranks[0]}"
    hosts = {view.topology.host_of(rank) for rank in ranks}
    return f"host:{min(hosts)}" if len(hosts) == 1 and "" not in hosts else f"run:{view.run}"
