"""Test 8, kernels that L3 finds changed: a silent fault of its own, or more about a cause named before.

L2 sees a rank that is late and a group whose transfers are long; a fault that keeps every step as long as it was
shows in kernels alone (paper case 2). What the slow kernels have in common says what is sick: all by one factor
the clock, those that only move memory the memory, copies the path to the host. Kernels whose work depends on the
data (attention, experts) accuse no machine by themselves, nor do operators timed on a CPU. A fall of the
compression ratio tells of change, not of loss: it is evidence for a cause and never one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.baseline import baseline_step_s
from argus.analytics.finding import Evidence, Finding
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.fuse.scope import as_one, join_paths, join_ranks, scope_of_ranks
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.kernels.kinds import ALL, ATTENTION, COPIES, GROUPED, MEMORY
from argus.analytics.peers import expert_classes
from argus.analytics.view import View

WORTH_TELLING = 0.005
"""Part of the step that slow kernels must cost before they are an incident by themselves."""

LATE_SHARE = 0.5
"""Communication kernels wait for whoever is late: lateness of half of what they lost explains them."""

IN_STEP = ("tp", "cp", "ep", "etp", "pp")
"""Kinds of groups that meet many times a step; the others meet at its end."""

FEW = 3
"""So many ranks slow in one kernel may be that many causes; more are one. So with devices slow by about one factor."""

ALONE = ("rank", "gpu", "half", "host")
TOGETHER = 3
"""Scopes of a rank's own trouble, and windows within which the ranks of one cause are found."""

CLASSES = {
    ALL: ("compute.slow", "compute.memory"),
    f"{MEMORY} only": ("compute.memory", "compute.slow"),
    f"{COPIES} only": ("copy.slow", "compute.memory"),
}
"""Breadth to the class and its look-alike; other breadths of a GPU are a slow chip."""

MOST = 0.75
"""Part of the holders of some experts from which on they are all of them."""

OF_THE_DATA = (f"{ATTENTION} only", f"{GROUPED} only", f"{ATTENTION} and {GROUPED} only")
"""Kernels that take longer where there is more to do: longer sequences, more tokens for an expert."""


@dataclass(frozen=True, kw_only=True)
class _Suspects:
    """Ranks that belong together, with their findings, costliest first."""

    ranks: tuple[int, ...]
    scope: str
    group: str | None
    findings: tuple[Finding, ...]

    @property
    def lost_s(self) -> float:
        """Seconds per step their kernels take longer than those of the peers, on the worst of them."""
        lost_s: dict[int, float] = {}
        for finding in self.findings:
            for rank in finding.ranks:
                lost_s[rank] = lost_s.get(rank, 0.0) + (finding.effect_s_per_step or 0.0)
        return max((lost_s[rank] for rank in self.ranks if rank in lost_s), default=0.0)


def kernel_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """Causes of the newest window's kernel findings that cost enough, in the order rank, host, group."""
    found = [finding for finding in lasting.findings if finding.level == "L3"]
    falls = [finding for finding in found if finding.kind == "ratio_fall"]
    alone, together = _grouped(view, [f for f in found if f.role == "culprit"], known=lasting.open)
    step_s = view.digest.typical_step_s if view.digest is not None else 0.0
    ranks = [_cause(view, one, falls=falls, step_s=step_s) for one in alone]
    several = [_cause(view, some, falls=falls, step_s=step_s) for some in together]
    groups = _links(view, found, step_s=step_s, own_s=_own_loss_s(lasting))
    return (
        *join_ranks(view, [cause for cause in ranks if cause.share_of_step >= WORTH_TELLING]),
        *_one_per_place([cause for cause in several if cause.share_of_step >= WORTH_TELLING]),
        *join_paths(view, [cause for cause in groups if cause.share_of_step >= WORTH_TELLING]),
    )


def _one_per_place(causes: Sequence[Cause]) -> Iterator[Cause]:
    """Sets of ranks at one place that suffer from the same, as one: class and place are what an incident is known by."""
    places: dict[tuple[str, str], list[Cause]] = {}
    for cause in causes:
        places.setdefault((cause.fault_class, cause.scope), []).append(cause)
    yield from (as_one(mine, scope) for (_, scope), mine in places.items())


def _grouped(
    view: View, found: Sequence[Finding], *, known: Sequence[Cause]
) -> tuple[list[_Suspects], list[_Suspects]]:
    """Ranks that stand alone, and sets of ranks that share slow kernels and are one suspect.

    Who has been accused alone for some time, by `known` causes, does not become a part of what others show now.
    """
    before = _alone_before(view, known)
    sets: dict[tuple[int, ...], list[Finding]] = {}
    single: dict[int, list[Finding]] = {}
    for same in _of_one_trouble(found):
        ranks = tuple(sorted({rank for finding in same for rank in finding.ranks}))
        others = tuple(rank for rank in ranks if rank not in before)
        if _is_one_suspect(view, others):
            sets.setdefault(others, []).extend(same)
        for finding in same:
            for rank in finding.ranks:
                single.setdefault(rank, []).append(finding)
    covered = {rank for ranks in sets for rank in ranks}
    alone = [
        _Suspects(ranks=(rank,), scope=f"rank:{rank}", group=None, findings=tuple(mine))
        for rank, mine in sorted(single.items())
        if rank not in covered
    ]
    return alone, [_as_set(view, ranks, mine) for ranks, mine in sorted(sets.items())]


def _as_set(view: View, ranks: tuple[int, ...], mine: Sequence[Finding]) -> _Suspects:
    """Ranks as one suspect, of a group where a finding says that they are that group."""
    group = next((finding.group for finding in mine if finding.group and finding.ranks == ranks), None)
    scope = f"group:{group}" if group else scope_of_ranks(view, ranks)
    return _Suspects(ranks=ranks, scope=scope, group=group, findings=tuple(mine))


def _of_one_trouble(found: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Findings, and as one the ranks on which a kernel is slow with those on which its longest launches are.

    Where several kernels go by a name nobody can say which belong together.
    """
    by_name: dict[str | None, list[Finding]] = {}
    for finding in found:
        by_name.setdefault(None if _is_of_device(finding) else finding.kernel, []).append(finding)
    for name, mine in by_name.items():
        is_one = name is not None and sorted(finding.kind for finding in mine) == [
            "kernel_shift",
            "kernel_tail",
        ]
        yield from [mine] if is_one else ([finding] for finding in mine)


def _is_of_device(finding: Finding) -> bool:
    """Whether all kernels are slow, the named one the largest of them."""
    return (finding.measure("breadth") or 0.0) > 1.0


def _alone_before(view: View, known: Sequence[Cause]) -> set[int]:
    """Ranks that a cause of theirs, or of their host, has accused for longer than ranks of one cause fall ill apart."""
    if view.digest is None:
        return set()
    since = view.digest.first_step - TOGETHER * view.digest.num_steps
    return {
        rank
        for cause in known
        if cause.scope.partition(":")[0] in ALONE and cause.onset_step < since
        for rank in cause.suspects
    }


def _is_one_suspect(view: View, ranks: Sequence[int]) -> bool:
    """More ranks than coincidence brings, and not simply those of one host, whose causes join by themselves."""
    hosts = {view.topology.host_of(rank) for rank in ranks}
    return len(ranks) > FEW and (len(hosts) > 1 or hosts == {""})


def _cause(view: View, suspects: _Suspects, *, falls: Sequence[Finding], step_s: float) -> Cause:
    worst = max(suspects.findings, key=lambda finding: finding.effect_s_per_step or 0.0)
    fault_class, second = _class_of(worst)
    if _note(worst, "breadth") != ALL and _hold_the_same(view, suspects.ranks):
        fault_class, second = "unknown", fault_class
    lost_s = suspects.lost_s
    here = [fall for fall in falls if set(fall.ranks) & set(suspects.ranks)]
    return Cause(
        fault_class=fault_class,
        verdict="INCONCLUSIVE" if fault_class == "unknown" else "LIKELY",
        suspects=suspects.ranks,
        scope=suspects.scope,
        group=suspects.group,
        second_best=second,
        evidence=(*_evidence(view, worst, suspects, lost_s=lost_s, step_s=step_s), *_falls(here)),
        findings=tuple(finding.id for finding in (*suspects.findings, *here)),
        share_of_step=min(lost_s / step_s, 1.0) if step_s > 0 else 0.0,
        s_per_step=lost_s,
        onset_step=min(finding.start_step or 0 for finding in suspects.findings),
    )


def _hold_the_same(view: View, ranks: Sequence[int]) -> bool:
    """Whether these are the ranks that hold some experts, and nobody else: they may just have more tokens."""
    everyone = np.array(view.topology.ranks, np.int64)
    holders = expert_classes(view.topology, everyone) if len(ranks) > 1 else None
    if holders is None:
        return False
    theirs = holders[np.isin(everyone, ranks)]
    return len(set(theirs.tolist())) == 1 and len(theirs) >= MOST * np.sum(holders == theirs[0])


def _class_of(finding: Finding) -> tuple[str, str | None]:
    """Class and look-alike by what the slow kernels have in common and where they ran."""
    breadth = _note(finding, "breadth")
    if breadth in OF_THE_DATA or is_of_cpu(finding):
        return "unknown", "compute.slow"
    return CLASSES.get(breadth, ("compute.slow", "compute.memory"))


def is_of_cpu(finding: Finding) -> bool:
    """Whether it is about operators timed on a CPU: those of a few steps, with whatever preempted them."""
    return _note(finding, "device_factor") == "cpu"


def _note(finding: Finding, name: str) -> str:
    return next((item.note for item in finding.evidence if item.name == name), "")


def _evidence(
    view: View, worst: Finding, suspects: _Suspects, *, lost_s: float, step_s: float
) -> Iterator[Evidence]:
    """The worst kernel's numbers, what is slow besides, and the step as it was."""
    breadth = _note(worst, "breadth")
    yield Evidence(name="kernel_ratio", value=worst.ratio or 1.0, unit="ratio", note=worst.kernel or "")
    yield Evidence(name="kernel_lost_s", value=lost_s, unit="s", note=breadth)
    yield Evidence(name="kernel_share", value=worst.share_of_step or 0.0, unit="ratio", note="of the step")
    yield Evidence(name="slow_kernels", value=float(len({f.kernel for f in suspects.findings})))
    for name in ("error_bound_ratio", "w1_to_peers_us", "own_past_ratio", "max_ratio"):
        yield from (item for item in worst.evidence if item.name == name)
    yield Evidence(name="step_s", value=step_s, unit="s", baseline=baseline_step_s(view.past))


def _falls(falls: Sequence[Finding]) -> Iterator[Evidence]:
    for fall in falls:
        yield from (item for item in fall.evidence if item.name == "compression_ratio")


def _own_loss_s(lasting: Lasting) -> dict[int, float]:
    """Seconds a step each accused rank loses by itself, at most: by a finding, or by what is known of it already."""
    found = [(f.ranks, f.effect_s_per_step or 0.0) for f in lasting.findings if f.role == "culprit"]
    known = [(c.suspects, c.s_per_step) for c in lasting.open if c.fault_class != "link.slow"]
    own_s: dict[int, float] = {}
    for ranks, lost_s in (*found, *known):
        for rank in ranks:
            own_s[rank] = max(own_s.get(rank, 0.0), lost_s)
    return own_s


def _links(
    view: View, found: Sequence[Finding], *, step_s: float, own_s: Mapping[int, float]
) -> Iterator[Cause]:
    """Groups all of whose members have long communication kernels while nobody they wait for is late."""
    accused = {rank for finding in found if finding.role == "culprit" for rank in finding.ranks}
    by_group: dict[str, list[Finding]] = {}
    for finding in found:
        if finding.kind == "group_shift" and finding.group is not None:
            by_group.setdefault(finding.group, []).append(finding)
    for group, mine in sorted(by_group.items()):
        lost_s = sum(finding.effect_s_per_step or 0.0 for finding in mine)
        late_s = _latest_s(view, mine[0].ranks)
        near_s = max((own_s.get(rank, 0.0) for rank in _near(view, mine[0].ranks)), default=0.0)
        if accused & set(mine[0].ranks) or max(late_s, near_s) >= LATE_SHARE * lost_s:
            continue
        yield _link_cause(view, group, mine, lost_s=lost_s, late_s=late_s, step_s=step_s)


def _near(view: View, ranks: Sequence[int]) -> set[int]:
    """The ranks and whoever they meet inside a step, layer by layer or micro-batch by micro-batch.

    The pipeline of a slow rank's tensor-parallel sibling waits as long as its own: the sibling waits in each layer.
    """
    groups = [group for rank in ranks for group in view.topology.groups_of(rank) if group.kind in IN_STEP]
    return {*ranks, *(rank for group in groups for rank in group.ranks)}


def _latest_s(view: View, ranks: Sequence[int]) -> float:
    """Seconds a step the others wait for the latest of these ranks, beyond the least late one."""
    assert view.digest is not None
    late = view.digest.late_s[np.isin(view.digest.ranks, ranks)]
    late = late[np.isfinite(late)]
    return float(late.max() - late.min()) if late.size else 0.0


def _link_cause(
    view: View, group: str, mine: Sequence[Finding], *, lost_s: float, late_s: float, step_s: float
) -> Cause:
    worst = max(mine, key=lambda finding: finding.effect_s_per_step or 0.0)
    late = Evidence(name="caused_wait_s", value=late_s, unit="s", note="by the latest member")
    return Cause(
        fault_class="link.slow",
        verdict="LIKELY",
        suspects=worst.ranks,
        scope=f"group:{group}",
        group=group,
        paths=(group,),
        second_best="copy.slow",
        ruled_out=(
            RuledOut(fault_class="compute.slow", why="no member is late by its own work", evidence=(late,)),
        ),
        evidence=(
            Evidence(name="kernel_ratio", value=worst.ratio or 1.0, unit="ratio", note=worst.kernel or ""),
            Evidence(name="kernel_lost_s", value=lost_s, unit="s", note="against the other groups"),
            Evidence(name="slow_kernels", value=float(len(mine))),
            Evidence(name="step_s", value=step_s, unit="s", baseline=baseline_step_s(view.past)),
        ),
        findings=tuple(finding.id for finding in mine),
        share_of_step=min(lost_s / step_s, 1.0) if step_s > 0 else 0.0,
        s_per_step=lost_s,
        onset_step=min(finding.start_step or 0 for finding in mine),
    )
