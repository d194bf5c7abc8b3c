"""L2: one rank's saves of checkpoints take longer than everybody else's, which they did not do before.

Saving is uneven by design: a rank may hold more, or write what the others do not have. So a rank is accused only if it was
not as late in earlier saves, and if it is the same rank again and again. Saves rarer than the windows that are
remembered are never enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np

from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.saves import PHASE, Save
from argus.analytics.view import View

NEEDS = "slow_save"


def detect(
    view: View,
    *,
    min_saves: int = 3,  # late ones in a row: one is an accident, two are a coincidence
    min_before: int = 3,  # saves that were in time, else nobody knows how they should be
    min_ratio: float = 2.0,  # to the others: storage is shared and its times vary
    min_growth: float = 1.5,  # of that ratio, over the largest before, whoever was last then
    min_lost: float = 0.2,  # steps, by one save: less is nothing anybody waits for
    min_share: float = 0.01,  # of the time, from the first late save on
) -> tuple[Finding, ...]:
    """At most one culprit finding, as long as the last save was late."""
    digest = observed(view)
    if digest is None or not digest.typical_step_s > 0:
        return ()
    seen = [save for one in (*view.past, digest) for save in one.saves]
    least_s = min_lost * digest.typical_step_s

    def is_late(save: Save) -> bool:
        return (
            save.rank == seen[-1].rank
            and save.dur_s >= min_ratio * save.others_s
            and save.dur_s - save.others_s >= least_s
        )

    late = list(takewhile(is_late, reversed(seen)))[::-1]
    before = seen[: len(seen) - len(late)]
    if len(late) < min_saves or len(before) < min_before:
        return ()
    usual = max(save.ratio for save in before)
    end_step = digest.first_step + digest.num_steps
    lost_s = sum(save.dur_s - save.others_s for save in late) / max(end_step - late[0].step, 1)
    grew = float(np.median([save.ratio for save in late])) >= min_growth * usual
    if not grew or lost_s < min_share * digest.typical_step_s:
        return ()
    return (_finding(view, late, lost_s=lost_s, step_s=digest.typical_step_s, window=digest.index),)


def _finding(view: View, late: Sequence[Save], *, lost_s: float, step_s: float, window: int) -> Finding:
    rank, dur_s = late[-1].rank, float(np.median([save.dur_s for save in late]))
    others_s = float(np.median([save.others_s for save in late]))
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=window,
        level="L2",
        detector="l2_saves",
        kind="host_gap",
        role="culprit",
        ranks=(rank,),
        nodes=(f"rank:{rank}",),
        phase=PHASE,
        start_step=late[0].step,
        end_step=late[-1].step,
        ratio=dur_s / others_s,
        effect_s_per_step=lost_s,
        share_of_step=lost_s / step_s,
        evidence=(
            Evidence(
                name="save_s", value=dur_s, unit="s", baseline=others_s, note=f"{PHASE}, beside the others'"
            ),
            Evidence(name="late_saves", value=float(len(late)), unit="saves", note="in a row, the same rank"),
            Evidence(name="lost_s", value=lost_s, unit="s", note="on average"),
        ),
    )
