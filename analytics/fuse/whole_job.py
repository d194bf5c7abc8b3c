"""The last test: the whole job became slower and stays so, and nothing that stands out explains it.

Where all wait for their data, that is told. No rank, group, stage or work is to blame then, so nobody is: the
incident says when, what grew in everybody, and which command comes next (incidents.md, rows T, V, M4 and "all ranks").
Steps are compared per unit of work as far as it is known, so that a batch that grew is no slowdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.baseline import VOTING_WINDOWS, is_comparable, is_usual
from argus.analytics.cost import SO_FAR
from argus.analytics.eras import FOLD, Times, stretch_of
from argus.analytics.finding import Evidence
from argus.analytics.fuse.growing import growth_of
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.fuse.regular import is_due
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.robust import split_gain
from argus.analytics.series.blocks import Block
from argus.analytics.stops import is_over
from argus.analytics.view import Digest, View
from argus.analytics.window import Floats
from argus.analytics.work import PREFIX, WORK

SLOWER = "step.slower"
LOADING = "data.slow_loader"

DATA_PART = 0.5
"""Waiting for data is the reason where it grew in everybody by half of what the step grew by."""

MIN_RISE = 1.05
"""As for a bare series of step times: less is worth nobody's time."""

MIN_UNTOLD = 1.10
"""Over hours batches and sequences change lawfully: so much counts there where nobody tells tokens or samples."""

BEFORE, AFTER = 4, 3
"""Windows on either side."""

LASTS_S = 60.0
"""Both sides last at least so long: what slows all ranks for less is a passing load, and waits of a minute."""

SCALES = 4.0
"""The rise against the spread of windows on either side: a level the job did not visit before."""

HALF = 0.5
"""Every window since must show half of the rise and none before may; an open incident lasts as long as now does."""

TOLD = {kind.removeprefix(PREFIX) for kind in WORK}
"""Units of work that a job tells by itself; micro-batches are counted."""

MEASURED = ("step_s", "own_s", "in_calls_s", "step_work")
"""Evidence of the rule itself."""


@dataclass(frozen=True, kw_only=True)
class Rise:
    """Seconds a step before and now, for as much work as there is now; `place` = window the rise begins in, which goes
    on if it `grows`."""

    before_s: float
    now_s: float
    place: int
    grows: bool = False


def job_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """At most one cause of the whole run; none while anything else is suspected."""
    digest = view.digest
    if digest is None or view.is_lone or is_over(view.beats) or not is_comparable(digest):
        return ()
    known = next((cause for cause in lasting.open if _is_mine(cause, view)), None)
    if known is not None:
        return _renewed(view, digest, known)
    # Transfers of every group grow with the job; a slow path has its votes before this test asks.
    suspected = any(finding.role == "culprit" for finding in lasting.findings)
    if lasting.open or suspected or lasting.ranks or lasting.links:
        return ()
    seen = [*filter(is_usual, view.past), digest]
    rise = rise_of(seen) or growth_in(seen)
    if rise is not None:
        if not is_unsuspected(seen, rise.place):
            return ()
        cause = _cause(view, *_untold(seen, rise, lasting.past))
        is_own = cause.fault_class == SLOWER and is_due(lasting.past, _block(cause, digest))
        return () if is_own else (cause,)
    long = risen_long_ago(view, seen)
    return () if long is None else (_cause(view, *_untold(*long, lasting.past)),)


def _untold(seen: Sequence[Times], rise: Rise, past: Sequence[Block]) -> tuple[Sequence[Times], Rise]:
    """The windows without those in which a slowdown was told that has ended, and the rise as the others show it.

    Of a slowdown that eased halfway the rest has a price of its own, and no step is billed twice.
    """
    last = max((end for _, end, _ in past), default=-1)
    since = [one for one in seen[rise.place :] if one.first_step > last]
    kept = [*seen[: rise.place], *since]
    times = _times(kept)
    if times is None or len(kept) == len(seen) or not since:
        return seen, rise
    return kept, replace(rise, now_s=float(np.exp(np.median(np.log(times[rise.place :])))))


def _block(cause: Cause, digest: Digest) -> Block:
    return cause.onset_step, digest.first_step + digest.num_steps - 1, cause.s_per_step


def is_unsuspected(seen: Sequence[Digest], place: int) -> bool:
    """Whether nobody is suspected since window `place`: a doubt that got no second vote while it could is none any more."""
    newest = max(place, len(seen) - 1 - VOTING_WINDOWS)
    return all(one.is_clean for one in seen[place:]) and not any(one.doubted for one in seen[newest:])


def _is_mine(cause: Cause, view: View) -> bool:
    """Whether a cause is of this rule: of the whole run, with nobody accused."""
    return cause.fault_class in (SLOWER, LOADING) and cause.scope == f"run:{view.run}" and not cause.suspects


def rise_of(digests: Sequence[Times], *, least: float = MIN_RISE) -> Rise | None:
    """The split of the windows' step times into before and since that is a rise which lasts, of several the best."""
    times = _times(digests)
    if times is None or len(times) < BEFORE + AFTER:
        return None
    logs = np.log(times)
    ends_s = np.cumsum([one.num_steps * one.typical_step_s for one in digests])
    error = _error_of_one(digests)
    k = np.arange(BEFORE, len(logs) - AFTER + 1)
    sums = np.cumsum(logs)
    left, right = sums[k - 1] / k, (sums[-1] - sums[k - 1]) / (len(logs) - k)
    # Steps that grow on and on are split best in their middle, where neither side is a level.
    for place in k[np.argsort(-k * (len(logs) - k) * (right - left) ** 2, kind="stable")].tolist():
        lasts = min(ends_s[place - 1], ends_s[-1] - ends_s[place - 1]) >= LASTS_S
        if lasts and _is_rise(logs[:place], logs[place:], error, least=least):
            low, high = (float(np.exp(np.median(part))) for part in (logs[:place], logs[place:]))
            return Rise(before_s=low, now_s=high, place=place)
    return None


def growth_in(digests: Sequence[Times], *, least: float = MIN_RISE) -> Rise | None:
    """The rise of windows that grow longer one after another, of which no two levels are made yet."""
    times = _times(digests)
    grown = (
        None
        if times is None
        else growth_of(np.log(times), error=_error_of_one(digests), least=float(np.log(least)))
    )
    if grown is None or sum(one.num_steps * one.typical_step_s for one in digests[grown.place :]) < LASTS_S:
        return None
    return Rise(
        before_s=float(np.exp(grown.before)), now_s=float(np.exp(grown.now)), place=grown.place, grows=True
    )


def _is_rise(before: Floats, since: Floats, error: float, *, least: float) -> bool:
    """Whether logarithms of windows lie higher since, each of them, by more than they vary."""
    low, high = float(np.median(before)), float(np.median(since))
    middle = low + HALF * (high - low)
    # What rises on and on is no wide level: since the rise the spread is what is left beside its own line.
    spread = max(_spread(before), _spread(_beside_line(since)), error)
    is_large = high - low >= max(np.log(least), SCALES * spread)
    return bool(is_large and before.max() < middle <= since.min())


def risen_long_ago(view: View, seen: Sequence[Digest]) -> tuple[Sequence[Times], Rise] | None:
    """The rise over stretches of windows that the last windows alone, `seen`, are too few to show; with those stretches."""
    if not is_unsuspected(seen, max(len(seen) - 1 - VOTING_WINDOWS, 0)):
        return None
    now = stretch_of(seen[-FOLD:])
    for level in view.eras.levels[1:]:
        stretches: list[Times] = [*level, now]
        units = {None if one.amount is None else one.amount[0] for one in stretches}
        times = _times(stretches)
        least = MIN_RISE if units <= TOLD else MIN_UNTOLD
        if len(units) > 1 or times is None or times[-1] < least * times.min():
            continue
        rise = growth_in(stretches, least=least) or rise_of(stretches, least=least)
        if rise is not None:
            return stretches, rise
    return None


def _times(digests: Sequence[Times]) -> Floats | None:
    """Median step of each window, for as much work as the newest has. (window,)"""
    times = np.array([float(np.nanmedian(one.job_step_s)) for one in digests])
    amounts = [one.amount for one in digests]
    units = {None if one is None else one[0] for one in amounts}
    if len(units) == 1 and None not in units:
        work = np.array([one[1] for one in amounts if one is not None])
        times = times / work * work[-1]
    return times if np.isfinite(times).all() and (times > 0).all() else None


def _error_of_one(digests: Sequence[Times]) -> float:
    """Standard error of a window's median by its own steps: a few windows may lie together by chance."""
    return float(np.median([_of_median(one.job_step_s) for one in digests]))


def _of_median(times: Floats) -> float:
    seen = np.log(times[np.isfinite(times) & (times > 0)])
    wide = float(np.subtract(*np.quantile(seen, [0.75, 0.25]))) / 1.349
    return 1.25 * wide / float(np.sqrt(len(seen)))


def _beside_line(logs: Floats) -> Floats:
    x = np.arange(len(logs))
    return np.asarray(logs - np.polyval(np.polyfit(x, logs, 1), x))


def _spread(logs: Floats) -> float:
    """Standard deviation as the middle half has it, or the whole if that is more: few windows, no tails."""
    return max(float(np.std(logs, ddof=1)), float(np.subtract(*np.quantile(logs, [0.75, 0.25]))) / 1.349)


def _renewed(view: View, digest: Digest, known: Cause) -> tuple[Cause, ...]:
    """The open cause at its present price for the work of now, while at least half of it is there."""
    step = next((item for item in known.evidence if item.name == "step_s"), None)
    now_s = float(np.nanmedian(digest.job_step_s))
    if step is None or step.baseline is None or not now_s > 0:
        return ()
    work = _work_since(known, digest)
    before_s = step.baseline * work
    if now_s - before_s < HALF * (step.value - step.baseline) * work:
        return ()
    # What checks added was true of its own window.
    bare = replace(
        known,
        evidence=tuple(item for item in known.evidence if item.name in MEASURED),
        ruled_out=known.ruled_out[:1],
    )
    now = Evidence(name="step_now_s", value=now_s, unit="s", baseline=before_s, note="of the job")
    return (_priced(replace(bare, evidence=(*bare.evidence, now)), before_s=before_s, now_s=now_s),)


def _work_since(known: Cause, digest: Digest) -> float:
    """Work of a step now / when the cause was told; 1 where either is not known in the same unit."""
    told = next((item for item in known.evidence if item.name == "step_work"), None)
    if told is None or digest.amount is None or digest.amount[0] != told.note:
        return 1.0
    return digest.amount[1] / told.value


def _evidence(seen: Sequence[Times], rise: Rise, parts: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """What is told of a rise, and the work of a step then as far as all windows know it in one unit."""
    step = Evidence(name="step_s", value=rise.now_s, unit="s", baseline=rise.before_s, note="of the job")
    parts = (*parts, *_so_far(seen, rise))
    units = {None if one.amount is None else one.amount[0] for one in seen}
    last = seen[-1].amount
    if last is None or len(units) > 1:
        return (step, *parts)
    return (step, *parts, Evidence(name="step_work", value=last[1], note=last[0]))


def _so_far(seen: Sequence[Times], rise: Rise) -> tuple[Evidence, ...]:
    """What each step since the onset lost on average: of what grows, much less than one loses now."""
    times = _times(seen)
    if times is None or not rise.grows:
        return ()
    since = [one.num_steps for one in seen[rise.place :]]
    lost_s = max(float(np.average(times[rise.place :], weights=since)) - rise.before_s, 0.0)
    return (Evidence(name=SO_FAR, value=lost_s, unit="s", note="a step since then, on average"),)


def _priced(cause: Cause, *, before_s: float, now_s: float) -> Cause:
    return replace(cause, s_per_step=now_s - before_s, share_of_step=1 - before_s / now_s)


def _cause(view: View, seen: Sequence[Times], rise: Rise) -> Cause:
    before, since = seen[: rise.place], seen[rise.place :]
    parts = _parts(before, since)
    grown = max(parts, key=lambda item: item.value - (item.baseline or 0.0))
    why = "no rank, group or work stands out from its peers: all became slower alike"
    if _data_grown(before, since) >= DATA_PART * (rise.now_s - rise.before_s):
        return _priced(_of_data(view, seen, rise, parts), before_s=rise.before_s, now_s=rise.now_s)
    cause = Cause(
        fault_class=SLOWER,
        verdict="INCONCLUSIVE",
        suspects=(),
        scope=f"run:{view.run}",
        phase=_phase(before, since) if grown.name == "own_s" else None,
        second_best="compute.slow" if grown.name == "own_s" else "link.slow",
        ruled_out=(RuledOut(fault_class="host.cpu_starved", why=why, evidence=tuple(parts)),),
        evidence=_evidence(seen, rise, parts),
        onset_step=_onset(seen, rise),
    )
    return _priced(cause, before_s=rise.before_s, now_s=rise.now_s)


def _of_data(view: View, seen: Sequence[Times], rise: Rise, parts: Sequence[Evidence]) -> Cause:
    """All ranks wait for their data: what lies behind all loaders, or the way they load."""
    why = "every rank loses the time before its batch is there, and works as fast as ever after it"
    return Cause(
        fault_class=LOADING,
        verdict="LIKELY",
        suspects=(),
        scope=f"run:{view.run}",
        phase="data",
        second_best="host.cpu_starved",
        ruled_out=(RuledOut(fault_class="compute.slow", why=why, evidence=tuple(parts)),),
        evidence=_evidence(seen, rise, parts),
        onset_step=_onset(seen, rise),
    )


def _data_grown(before: Sequence[Times], since: Sequence[Times]) -> float:
    """Seconds a step that the median rank waits longer for its data; 0 where nobody times that."""
    if not all("data" in one.phases for one in (*before, *since)):
        return 0.0
    return _self_s(since, "data") - _self_s(before, "data")


def _parts(before: Sequence[Times], since: Sequence[Times]) -> list[Evidence]:
    """What grew in the median rank: its own work, or what it stands in calls."""
    own = [float(np.nanmedian([np.nanmedian(one.own_s) for one in some])) for some in (before, since)]
    step = [float(np.median([one.typical_step_s for one in some])) for some in (before, since)]
    return [
        Evidence(name="own_s", value=own[1], unit="s", baseline=own[0], note="own work of the median rank"),
        Evidence(
            name="in_calls_s",
            value=step[1] - own[1],
            unit="s",
            baseline=step[0] - own[0],
            note="waits, transfers",
        ),
    ]


def _phase(before: Sequence[Times], since: Sequence[Times]) -> str | None:
    """The phase whose own time grew most in the median rank."""
    names = [name for name in since[-1].phases if all(name in one.phases for one in (*before, *since))]
    grown = {name: _self_s(since, name) - _self_s(before, name) for name in names}
    return max(grown, key=lambda name: (grown[name], name)) if grown else None


def _self_s(digests: Sequence[Times], phase: str) -> float:
    return float(np.nanmedian([np.nanmedian(one.self_s[one.phases.index(phase)]) for one in digests]))


def _onset(seen: Sequence[Times], rise: Rise) -> int:
    """The step that splits the windows around the rise best, the first of its window where it goes on."""
    place = rise.place
    if rise.grows:
        return seen[place].first_step
    near = seen[max(place - 2, 0) : place + 2]
    steps = np.concatenate([one.steps for one in near])
    times = np.concatenate([one.job_step_s for one in near])
    known = np.isfinite(times) & (times > 0)
    split = split_gain(np.log(times[known]), margin=2)
    return seen[place].first_step if split is None else int(steps[known][split[0]])
