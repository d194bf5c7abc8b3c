"""What changed between two runs: environment, versions, layout, hosts, step, phases, kernels, NCCL's variants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from argus.analytics.finding import Evidence, Finding
from argus.analytics.numbers import WindowNumbers
from argus.analytics.robust import EFFICIENCY, student_point
from argus.analytics.run_facts import WHOLE, KernelLevel, Level, RunFacts, nccl_variants
from argus.collectors.records.text import tame

SECTIONS = (
    "environment",
    "versions",
    "layout",
    "hosts",
    "step",
    "phases",
    "waits",
    "ranks",
    "kernels",
    "nccl",
)

MIN_CHANGE = 0.03
"""A time that differs by less than 3 % is the same: 0.6 of the 5 % that are to be found."""

MIN_CHANGE_SET = 0.012
"""A step that differs by less than 1.2 % is the same although what was set or installed differs: 0.6 of the 2 % that are
worth a warning. With nothing set otherwise so small a difference is that of other machines."""

GROSS = 1.05
GROSS_WINDOWS = 2
"""So few windows of a new attempt are enough where each of them is longer by what is to be found at all."""

TAIL = 3.5
"""A difference counts from so many standard errors of the two medians on."""

CHANCE = 0.01
"""And only if, but for once in a hundred times, it is larger than what counts as the same: no two starts of a job are quite
alike, and a few windows of one that is 0.8 % slower often look like 1.2 %. Windows so few tell their spread badly, too,
and by luck seem steadier than they are (Student's t)."""

ALIKE = 2.0
"""Windows of a run that say as much as one would alone: a job drifts, and each window resembles the one before."""

UNKNOWN_SPREAD = 0.1
"""Spread assumed where fewer than three windows of either run tell it."""

MIN_SHARE = 0.01
"""Phases and kernels below 1 % of the step are not worth a line."""

MOST = 0.5
"""Share of all waiting from which on it is for one rank."""

MAX_LINES = 40
"""Changes of one section that are told, the costliest first."""

MAX_TEXT = 120


@dataclass(frozen=True, kw_only=True)
class Change:
    """One difference; `ratio` = after / before of a time or count, `effect_s` what it makes a step longer.

    Of a kernel `unit` says whether `before` and `after` are seconds of a call or calls a step.
    """

    section: str
    name: str
    before: str | float | None
    after: str | float | None
    ratio: float | None = None
    effect_s: float | None = None
    unit: str = ""

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready dict."""
        return asdict(self)

    @property
    def line(self) -> str:
        """The change in words, foreign text cut."""
        name = tame(self.name.partition("|")[0], MAX_TEXT // 2)
        return f"{self.section} {name}: {_said(self.before)} → {_said(self.after)}"


@dataclass(frozen=True, kw_only=True)
class RunDiff:
    """All changes from one run to another; `lacks` says what could not be compared."""

    before: str
    after: str
    changes: tuple[Change, ...]
    lacks: tuple[str, ...]

    def of(self, section: str) -> tuple[Change, ...]:
        """Changes of a section."""
        return tuple(change for change in self.changes if change.section == section)

    def to_json(self) -> dict[str, Any]:
        """The object `argus diff --json` prints."""
        return {
            "before": self.before,
            "after": self.after,
            "changes": [change.to_json() for change in self.changes],
            "lacks": list(self.lacks),
        }

    @property
    def same_shape(self) -> bool:
        """Whether the two runs did the same work on as many ranks, so that their step times compare."""
        return not self.of("layout")


def diff(before: RunFacts, after: RunFacts) -> RunDiff:
    """Everything that differs beyond its noise, in the order of `SECTIONS`; nothing by step where only one has steps."""
    if (WHOLE in before.lacks) != (WHOLE in after.lacks):
        before, after = _without_steps(before), _without_steps(after)
    step_s = max((level.p50_s for level in (before.step, after.step) if level), default=0.0)
    steps = [{} if one.step is None else {"step": one.step} for one in (before, after)]
    was_set = (
        *_texts("environment", before.env, after.env),
        *_texts("versions", before.versions, after.versions),
    )
    min_change = MIN_CHANGE_SET if was_set else MIN_CHANGE
    part_s = max(
        _largest_part(before.phases, after.phases, least_s=min_change * step_s),
        _largest_part(before.waits, after.waits, least_s=min_change * step_s),
        key=abs,
    )
    late = _late(before.late, after.late, floor_s=MIN_CHANGE * step_s)
    changes = (
        *was_set,
        *_texts("layout", _shape(before), _shape(after)),
        *_hosts(before.hosts, after.hosts),
        *_levels("step", *steps, floor_s=0.0, min_change=min_change, part_s=part_s),
        *_levels("phases", before.phases, after.phases, floor_s=MIN_SHARE * step_s),
        *_levels("waits", before.waits, after.waits, floor_s=MIN_SHARE * step_s),
        *late,
        *_unexplained(
            _kernels(before.kernels, after.kernels, floor_s=MIN_SHARE * step_s),
            waited_s=sum(change.effect_s or 0.0 for change in late),
            floor_s=MIN_CHANGE * step_s,
        ),
        *_texts("nccl", nccl_variants(before.kernels), nccl_variants(after.kernels)),
    )
    lacks = [f"{text} of {name_of(one)}" for one in (before, after) for text in one.lacks]
    return RunDiff(before=name_of(before), after=name_of(after), changes=changes, lacks=tuple(lacks))


def _without_steps(facts: RunFacts) -> RunFacts:
    return replace(facts, step=None, phases={}, waits={}, kernels={}, late={})


def diff_since_restart(
    before: RunFacts, after: RunFacts, windows: Sequence[WindowNumbers], *, enough: int
) -> RunDiff | None:
    """What differs since a restart by `windows`, which `after` was made of; None while they are too few to tell.

    `enough` windows tell; fewer only that it is much slower.
    """
    if len(windows) >= enough:
        return diff(before, after)
    change = diff(before, after) if is_gross(before, windows) else None
    return change if change is not None and change.of("step") else None


def is_gross(before: RunFacts, windows: Sequence[WindowNumbers]) -> bool:
    """Whether the first windows of an attempt that are no start-up show already that it is slower than the one before."""
    steps_s = [one.typical_step_s for one in windows if one.typical_step_s is not None]
    if len(steps_s) < GROSS_WINDOWS or before.step is None:
        return False
    return min(steps_s) >= GROSS * before.step.p50_s


def name_of(facts: RunFacts) -> str:
    """A run with its attempt, as `argus diff` takes it."""
    return f"{facts.run}#{facts.attempt}"


def change_finding(
    change: RunDiff, *, run: str, attempt: int, window: int, first_step: int
) -> Finding | None:
    """The finding that a run got slower than the one before it; None if its step did not."""
    step = next(iter(change.of("step")), None)
    if step is None or step.ratio is None or step.ratio <= 1.0 or step.effect_s is None:
        return None
    before, after = _number(step.before), _number(step.after)
    return Finding(
        run=run,
        attempt=attempt,
        window=window,
        level="L1",
        detector="run_diff",
        kind="run_change",
        role="notice",
        ranks=(),
        nodes=(f"run:{run}",),
        start_step=first_step,
        ratio=step.ratio,
        effect_s_per_step=step.effect_s,
        share_of_step=step.effect_s / after if after > 0 else None,
        evidence=(
            Evidence(
                name="step_s", value=after, unit="s", baseline=before, note=tame(change.before, MAX_TEXT)
            ),
            *changes_as_evidence(change.changes),
        ),
    )


def changes_as_evidence(changes: Iterable[Change], *, limit: int = 8) -> tuple[Evidence, ...]:
    """The changes that may be a cause, as evidence: what was set or installed, then what it did to kernels."""
    told = [change for change in changes if change.section not in ("step", "phases", "waits", "ranks")]
    return tuple(
        Evidence(name="changed", value=1.0 if change.ratio is None else change.ratio, note=change.line)
        for change in told[:limit]
    )


def _number(value: str | float | None) -> float:
    return value if isinstance(value, float) else 0.0


def _said(value: str | float | None) -> str:
    if value is None:
        return "absent"
    return tame(value, MAX_TEXT) if isinstance(value, str) else f"{value:.4g}"


def _shape(facts: RunFacts) -> dict[str, str]:
    return {"world_size": str(facts.world_size), **facts.groups, **facts.gpu_models}


def _texts(section: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[Change]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield Change(section=section, name=name, before=before.get(name), after=after.get(name))


def _hosts(before: Sequence[str], after: Sequence[str]) -> Iterable[Change]:
    for name in sorted(set(before) - set(after))[:MAX_LINES]:
        yield Change(section="hosts", name=name, before="used", after=None)
    for name in sorted(set(after) - set(before))[:MAX_LINES]:
        yield Change(section="hosts", name=name, before=None, after="used")


def _levels(
    section: str,
    before: Mapping[str, Level],
    after: Mapping[str, Level],
    *,
    floor_s: float,
    min_change: float = MIN_CHANGE,
    part_s: float = 0.0,
) -> list[Change]:
    found = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        times = [level.p50_s for level in (old, new) if level is not None]
        is_same = old is not None and new is not None and not _differ(old, new, min_change, part_s)
        if max(times) < floor_s or is_same:
            continue
        found.append(
            Change(
                section=section,
                name=name,
                before=old.p50_s if old else None,
                after=new.p50_s if new else None,
                ratio=_ratio(old.p50_s if old else 0.0, new.p50_s if new else 0.0),
                effect_s=(new.p50_s if new else 0.0) - (old.p50_s if old else 0.0),
            )
        )
    return _costliest(found)


def _late(before: Mapping[str, Level], after: Mapping[str, Level], *, floor_s: float) -> list[Change]:
    """The rank that most of the waiting of either run is for, if that is at least `floor_s` more than in the other."""
    if not before or not after:
        return []
    found = []
    for name in sorted({*before, *after}):
        old, new = (levels[name].p50_s if name in levels else 0.0 for levels in (before, after))
        all_s = sum(level.p50_s for level in (after if new > old else before).values())
        if abs(new - old) >= floor_s and max(old, new) > MOST * all_s:
            change = Change(section="ranks", name=f"waiting for {name}", before=old, after=new)
            # Next to no waiting is no measure of the other.
            ratio = _ratio(old, new) if min(old, new) >= floor_s else None
            found.append(replace(change, ratio=ratio, effect_s=new - old))
    return found


def _unexplained(kernels: Sequence[Change], *, waited_s: float, floor_s: float) -> list[Change]:
    """Without the transfers that take longer or shorter, if what ranks wait in them explains that to within `floor_s`."""
    held = [
        change
        for change in kernels
        if change.name.partition("|")[2].startswith("comm:") and None not in (change.before, change.after)
    ]
    more_s = sum(change.effect_s or 0.0 for change in held)
    if more_s * waited_s <= 0 or abs(more_s) - abs(waited_s) > floor_s:
        return list(kernels)
    return [change for change in kernels if change not in held]


def _largest_part(before: Mapping[str, Level], after: Mapping[str, Level], *, least_s: float) -> float:
    """Seconds by which one part of the step surely differs, if they are at least so many: starts of a job differ a little
    in all they do, and hardly ever so in one part."""
    found = [0.0]
    for name in sorted({*before} & {*after}):
        old, new = before[name], after[name]
        more_s = new.p50_s - old.p50_s
        if abs(more_s) >= max(least_s, _sure(old, new) * _error(old, new) * min(old.p50_s, new.p50_s)):
            found.append(more_s)
    return max(found, key=abs)


def _differ(old: Level, new: Level, min_change: float, part_s: float) -> bool:
    """Whether two medians over windows differ by more than their standard errors allow, surely by more than what counts
    as the same; where a part that surely differs, by `part_s`, explains it, it has to be what counts and no more."""
    if min(old.p50_s, new.p50_s) <= 0:
        return old.p50_s != new.p50_s
    error, change = _error(old, new), abs(math.log(new.p50_s / old.p50_s))
    if part_s * (new.p50_s - old.p50_s) > 0 and change >= min_change:
        return True
    return change >= max(min_change + _sure(old, new) * error, TAIL * error)


def _error(old: Level, new: Level) -> float:
    """Standard error of the ratio of two medians: windows stray alike before and after, both runs together say how much."""
    known = _telling(old, new)
    weight = sum(level.num for level in known)
    spread = (
        math.sqrt(sum(level.num * level.spread**2 for level in known) / weight) if known else UNKNOWN_SPREAD
    )
    return 1.25 * spread * math.hypot(*(1 / math.sqrt(max(level.num / ALIKE, 1.0)) for level in (old, new)))


def _sure(old: Level, new: Level) -> float:
    """Standard errors that noise exceeds with `CHANCE`; a spread that is assumed is as wide as it ever is."""
    return student_point(CHANCE, EFFICIENCY * (old.num + new.num) if _telling(old, new) else math.inf)


def _telling(old: Level, new: Level) -> list[Level]:
    """Those of enough windows to tell a spread."""
    return [level for level in (old, new) if level.num >= 3]


def _kernels(
    before: Mapping[str, KernelLevel], after: Mapping[str, KernelLevel], *, floor_s: float
) -> list[Change]:
    """Kernels that came, went, are called more or less often, or take another time a call."""
    if not before or not after:
        return []
    found = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        cost = [level.count * level.p50_s if level else 0.0 for level in (old, new)]
        if max(cost) < floor_s or (old and new and _same_kernel(old, new)):
            continue
        called = old is not None and new is not None and _apart(old.count, new.count)
        found.append(
            Change(
                section="kernels",
                name=name,
                before=None if old is None else old.count if called else old.p50_s,
                after=None if new is None else new.count if called else new.p50_s,
                ratio=_ratio(*cost),
                effect_s=cost[1] - cost[0],
                unit="calls" if called else "s",
            )
        )
    return _costliest(found)


def _same_kernel(old: KernelLevel, new: KernelLevel) -> bool:
    return not _apart(old.count, new.count) and not _apart(old.p50_s, new.p50_s)


def _apart(old: float, new: float) -> bool:
    return min(old, new) <= 0 or abs(math.log(new / old)) >= MIN_CHANGE


def _ratio(before: float, after: float) -> float | None:
    return after / before if before > 0 else None


def _costliest(changes: list[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: (-abs(change.effect_s or 0.0), change.name))[:MAX_LINES]
