"""What a right answer to a trial may and may not say: the parts of a truth that follow from its class and its job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from argus.agent.runbooks.catalogue import ACT, LOOK, built_in
from argus.analytics.incident import Cause
from argus.evals.simulator.groups import Groups, shape_of
from argus.evals.simulator.job import Job
from argus.evals.truth import Scenario, Truth

VERDICTS = ("NO_FAULT", "INCONCLUSIVE", "LIKELY", "CONFIRMED")
"""From the weakest word to the firmest."""

CEILING = {"step.slower": "INCONCLUSIVE", "unknown": "INCONCLUSIVE", "run.changed": "LIKELY"}
"""Classes that say less than why: a change of a restart is a coincidence in time until it is taken back."""

ALWAYS = ("probe.suspects", "stacks.read", "capture.raw")
"""Looking closer is never wrong where something is."""

MAX_WAYS = 8
"""Groups of a kind that a path names; the ranks of a host may be in one each."""


def completed(scenario: Scenario) -> Scenario:
    """The scenario whose truths say everything; what a scenario said itself stays."""
    classes = {one.fault_class for one in scenario.truths if one.fault_class is not None}
    truth, *also = (_completed(one, scenario.job, classes=classes) for one in scenario.truths)
    return replace(scenario, truth=truth, also=tuple(also))


def _completed(truth: Truth, job: Job, *, classes: Iterable[str]) -> Truth:
    named = truth.fault_class
    mine = set(classes)
    forbidden = sorted(
        remedy.id
        for remedy in built_in().values()
        if not remedy.is_read_only and mine.isdisjoint(remedy.classes)
    )
    filled = replace(
        truth,
        best_verdict=truth.best_verdict or ("NO_FAULT" if named is None else CEILING.get(named, "CONFIRMED")),
        forbidden=truth.forbidden or tuple(forbidden),
    )
    if named is None:
        return filled
    return replace(
        filled,
        coarser=truth.coarser or _coarser(truth, job),
        path=truth.path or _path(truth, job),
        acceptable=truth.acceptable or (f"{named}/{LOOK}", f"{named}/{ACT}", *ALWAYS),
    )


def _coarser(truth: Truth, job: Job) -> tuple[str, ...]:
    """The host that holds all root ranks, and their stage; what is of the whole run has nothing above it."""
    hosts = {job.told_host(rank) for rank in truth.ranks}
    found = [f"host:{name}" for name in hosts] if len(hosts) == 1 else []
    stages = {rank * job.pp // job.ranks for rank in truth.ranks}
    found += [f"stage:{stage}" for stage in stages] if job.pp > 1 and len(stages) == 1 else []
    return tuple(node for node in found if node != truth.scope)


def _path(truth: Truth, job: Job) -> tuple[str, ...]:
    """From the root over the groups of its ranks, the tightest first, to everybody."""
    groups = shape_of(job).groups
    if truth.scope == f"run:{job.run}":
        return (truth.scope,)
    ways = [
        name
        for kind, mine in groups.items()
        for name in _names(kind, mine, truth.ranks)
        if name != truth.scope
    ]
    return tuple(dict.fromkeys((truth.scope, *ways, f"run:{job.run}")))


def _names(kind: str, groups: Groups, ranks: Sequence[int]) -> list[str]:
    """Ids of the groups of a kind that hold some of `ranks`, as the product numbers them."""
    is_world = len(groups.members) == 1 and groups.desc == "default_pg"
    numbers = sorted({int(groups.of_rank[rank]) for rank in ranks})
    return [f"group:{'world' if is_world else kind}/{number}" for number in numbers][:MAX_WAYS]


def overclaimed(causes: Iterable[Cause], truths: Sequence[Truth]) -> tuple[str, ...]:
    """Verdicts firmer than the data of any of the trial's faults supports."""
    best = max(VERDICTS.index(one.best_verdict or VERDICTS[-1]) for one in truths)
    return tuple(f"{one.verdict} {one.fault_class}" for one in causes if VERDICTS.index(one.verdict) > best)


def forbidden_advice(actions: Iterable[str], truths: Sequence[Truth]) -> tuple[str, ...]:
    """Actions, by their ids in the catalogue, that change something the trial's faults do not call for."""
    banned = set.intersection(*(set(one.forbidden) for one in truths))
    return tuple(sorted(banned & set(actions)))
