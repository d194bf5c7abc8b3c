"""The price of incidents: what the step would gain if the suspects were healthy, by replay of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.call_replay import StepGain, has_pipeline, joined, remedy_gains
from argus.analytics.cost import BY_ITSELF, GAIN
from argus.analytics.finding import Evidence
from argus.analytics.fuse.remedy import remedies_of
from argus.analytics.incident import Cause
from argus.analytics.peers import SMALL_CLASS, work_classes
from argus.analytics.view import Digest, View
from argus.analytics.waits import Waits
from argus.analytics.whatif.shares import MAX_ERROR
from argus.analytics.window import Floats, Window

IN_EVERY_STEP = frozenset({"own_self_s", "caused_wait_s", "own_past_s", "stage_compute_s", "transfer_s"})
"""Evidence of what lasts: of a rare pause one window does not tell the price."""

MAX_APART = 8
"""Causes of one step that are played apart, each alone and all but it: the part of each is the mean of what it gains
when it is healed first and last (Shapley value, with two orders of all). Of more causes the waits say who has which part."""


def price(causes: Sequence[Cause], view: View, *, known: Sequence[Cause] = ()) -> tuple[Cause, ...]:
    """The causes with their gains by replay, and the shares of the step that these are; as they were where nothing
    tells.

    Ranks that are late together hide one another from a sum of waits, bubbles hide most of what one late stage costs,
    and backward work most of what slow gradients do. Of one rank alone the waits say it as well. Causes of one step are
    played together, and none is paid for twice. Whom `known`, the causes of open incidents, accuse beside a suspect is
    as suspect as ever.
    """
    window, waits, digest = view.window, view.waits, view.digest
    if window is None or waits is None or digest is None or not digest.typical_step_s > 0:
        return tuple(causes)
    asked = _asked([cause for cause in causes if _is_priced(cause)], view, waits, known)
    worth = _worth([_with_known(cause, known) for cause in asked], view, window, waits, digest)
    if worth is None:
        return tuple(_within_growth(cause) if cause in asked else cause for cause in causes)
    priced = [
        _with_gain(cause, worth, digest, part_s=part_s, by_itself_s=by_itself_s)
        for cause, part_s, by_itself_s in zip(
            asked, worth.part_s.tolist(), worth.by_itself_s.tolist(), strict=True
        )
    ]
    return tuple(priced[asked.index(cause)] if cause in asked else cause for cause in causes)


def _is_priced(cause: Cause) -> bool:
    """Whether it accuses ranks or paths, and no better replay has told its price."""
    known = any(item.name == GAIN for item in cause.evidence) and len(cause.suspects) == 1
    return bool(cause.suspects) and not known and not cause.fault_class.startswith("stop.")


def _asked(causes: Sequence[Cause], view: View, waits: Waits, known: Sequence[Cause]) -> list[Cause]:
    """The causes whose waits do not tell the price. Of one rank alone they do, unless it is half of its peers' median."""
    if has_pipeline(waits.calls):
        return list(causes)
    lasting = [c for c in causes if any(item.name in IN_EVERY_STEP for item in c.evidence)]
    suspects = _with_known(lasting[0], known).suspects if len(lasting) == 1 else ()
    return [] if len(suspects) == 1 and _num_alike(view, suspects[0]) > SMALL_CLASS else lasting


def _num_alike(view: View, rank: int) -> int:
    """How many ranks do the work of this one, itself among them."""
    assert view.window is not None
    classes, here = work_classes(view.topology, view.window.ranks), view.window.ranks == rank
    return int(np.isin(classes, classes[here]).sum())


def _with_known(cause: Cause, known: Sequence[Cause]) -> Cause:
    """The cause with the suspects of the open one that it goes on with."""
    if cause.fault_class.startswith("link."):
        return cause
    mine = [
        one
        for one in known
        if one.fault_class == cause.fault_class and set(cause.suspects) <= set(one.suspects)
    ]
    return replace(
        cause, suspects=tuple(sorted({*cause.suspects, *(rank for one in mine for rank in one.suspects)}))
    )


@dataclass(frozen=True, kw_only=True)
class _Worth:
    """Seconds a step, (cause,) each: the parts of what all causes cost, and what each would cost if the others were
    healed; `together` = the replay without any of them."""

    part_s: Floats
    by_itself_s: Floats
    together: StepGain


def _worth(
    causes: Sequence[Cause], view: View, window: Window, waits: Waits, digest: Digest
) -> _Worth | None:
    """What the causes are worth; None where a replay tells of nothing."""
    if not causes:
        return None
    each = remedies_of(causes, view, digest)
    apart = len(causes) if 1 < len(causes) <= MAX_APART else 0
    others = [joined([*each[:n], *each[n + 1 :]]) for n in range(apart)]
    suspects = {rank for one in each for rank in one.as_peers}
    played = remedy_gains(window, waits, (joined(each), *each[:apart], *others), suspects=suspects)
    if not played or played[0].error > MAX_ERROR or played[0].gain_s <= 0:
        return None
    gains = np.array([one.gain_s for one in played])
    all_s, alone, without = gains[0], gains[1 : apart + 1], gains[apart + 1 :]
    last = np.maximum(all_s - without, 0.0)
    parts = (alone + last) / 2 if apart else np.array([cause.s_per_step for cause in causes])
    if not parts.sum() > 0:
        parts = np.ones(len(causes))
    parts = all_s * parts / parts.sum()
    return _Worth(part_s=parts, by_itself_s=np.maximum(last, parts) if apart else parts, together=played[0])


def _with_gain(cause: Cause, worth: _Worth, digest: Digest, *, part_s: float, by_itself_s: float) -> Cause:
    note = f"{worth.together.num_steps} steps replayed, {worth.together.error:.1%} off"
    told = [Evidence(name=GAIN, value=part_s, unit="s", note=note)]
    if len(worth.part_s) > 1:
        told.append(Evidence(name=BY_ITSELF, value=by_itself_s, unit="s"))
    kept = (item for item in cause.evidence if item.name != GAIN)
    share = min(part_s / digest.typical_step_s, 1.0)
    return replace(cause, evidence=(*kept, *told), share_of_step=share)


def _within_growth(cause: Cause) -> Cause:
    """A slow path at no more than the step grew by: what it takes longer may be hidden behind work."""
    step = next((item for item in cause.evidence if item.name == "step_s"), None)
    if not cause.fault_class.startswith("link.") or step is None or step.baseline is None:
        return cause
    grown_s = max(step.value - step.baseline, 0.0)
    if cause.s_per_step <= grown_s:
        return cause
    return replace(cause, s_per_step=grown_s, share_of_step=cause.share_of_step * grown_s / cause.s_per_step)
