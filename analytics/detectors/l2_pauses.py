"""L2: now and then a rank stands still for a compilation or a collection and all wait for it, or all for their data.

Rare pauses vanish in the means of a window (paper case 4). They are counted over several windows from what the
runtime tells; where it is another rank each time nobody is accused, for the next may be any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.baseline import MIN_COVERAGE, START_UP_WINDOWS
from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.pauses import EVERYBODY, KINDS, LOADER, MIN_PAUSES, MIN_SHARE, Pause, longest_s
from argus.analytics.view import Digest, View

NEEDS = "paper_compile_spikes"


def detect(
    view: View,
    *,
    last_windows: int = 10,
    min_pauses: int = MIN_PAUSES,
    chance: float = 1e-3,  # that rare pauses of any rank all fall on the same one
    min_share: float = MIN_SHARE,
    fresh_windows: int = 2,  # what stopped is history: compilation ends by itself once all shapes are known
    min_coverage: float = MIN_COVERAGE,
) -> tuple[Finding, ...]:
    """At most one finding per kind of pause: a notice, or a culprit if it is always the same rank."""
    digest = observed(view)
    if digest is None or not digest.typical_step_s > 0:
        return ()
    # That it is always the same rank says nothing where of the others nothing was heard.
    seen = [
        one
        for one in (*view.past[1 - last_windows :], digest)
        if one.index >= START_UP_WINDOWS and one.coverage >= min_coverage
    ]
    found = []
    for kind in (*KINDS, LOADER):
        pauses = [pause for one in seen for pause in one.pauses if pause.kind == kind]
        fresh = any(pause.kind == kind for one in seen[-fresh_windows:] for pause in one.pauses)
        lost_s = _lost_s(pauses, seen)
        enough = len({p.step for p in pauses}) >= min_pauses
        decided = _is_decided(pauses, len(digest.ranks), chance)
        if enough and decided and fresh and lost_s >= min_share * digest.typical_step_s:
            found.append(_finding(view, digest, pauses, lost_s=lost_s, step_s=_mean_step_s(seen)))
    return tuple(found)


def _is_decided(pauses: Sequence[Pause], num_ranks: int, chance: float) -> bool:
    """Everybody or several ranks paused, or one so often that it is no chance."""
    if any(pause.rank == EVERYBODY for pause in pauses):
        return True
    steps = len({pause.step for pause in pauses})
    by_chance = float(num_ranks) ** (1 - steps)
    return len({pause.rank for pause in pauses}) > 1 or by_chance < chance


def _lost_s(pauses: Sequence[Pause], seen: Sequence[Digest]) -> float:
    """Seconds a step, over all usable steps."""
    return longest_s(pauses) / max(sum(one.num_usable for one in seen), 1)


def _mean_step_s(seen: Sequence[Digest]) -> float:
    """Of the same steps: the last window alone may hold many of the pauses, or none."""
    timed = [one for one in seen if one.typical_step_s > 0]
    return float(np.average([d.typical_step_s for d in timed], weights=[max(d.num_usable, 1) for d in timed]))


def _finding(view: View, digest: Digest, pauses: Sequence[Pause], *, lost_s: float, step_s: float) -> Finding:
    ranks = tuple(sorted({pause.rank for pause in pauses}))
    is_one = len(ranks) == 1 and ranks != (EVERYBODY,)
    num_ranks = len(digest.ranks) if EVERYBODY in ranks else len(ranks)
    steps = sorted({pause.step for pause in pauses})
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=digest.index,
        level="L2",
        detector="l2_pauses",
        kind="host_gap",
        role="culprit" if is_one else "notice",
        ranks=ranks if is_one else (),
        nodes=(f"rank:{ranks[0]}",) if is_one else (f"run:{view.run}",),
        start_step=steps[0],
        end_step=steps[-1],
        ratio=1.0 + max(pause.dur_s for pause in pauses) / digest.typical_step_s,
        effect_s_per_step=lost_s,
        share_of_step=lost_s / step_s,
        evidence=(
            Evidence(name="pauses", value=float(len(steps)), unit="steps", note=pauses[0].kind),
            Evidence(name="paused_ranks", value=float(num_ranks), unit="ranks"),
            Evidence(name="longest_pause_s", value=max(p.dur_s for p in pauses), unit="s"),
            Evidence(name="lost_s", value=lost_s, unit="s", note="on average"),
            Evidence(name="step_s", value=step_s, unit="s"),
        ),
    )
