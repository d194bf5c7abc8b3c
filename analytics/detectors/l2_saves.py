"""L2: one rank's saves of checkpoints take longer than everybody else's, which they did not do before.

Saving is uneven by design: a rank may hold more, or write what the others do not have, and storage is shared and its times
vary. So a rank is accused only if it is last again and again and later than before: grossly, or so that saves which vary by
themselves would not bring it. Of n ranks one that is last with probability p is so k times in a row by chance n·pᵏ
times, and all of these later than m before 1 / C(k + m, k) times (a permutation test). What the last rank of a save
always cost is no loss. Saves rarer than the windows that are remembered are never enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, takewhile
from math import comb

import numpy as np

from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.saves import PHASE, Save
from argus.analytics.view import Digest, View

NEEDS = "slow_save"


def detect(
    view: View,
    *,
    min_saves: int = 3,  # late ones in a row: one is an accident, two are a coincidence
    min_before: int = 2,  # saves that were in time, else nobody knows how they should be
    min_ratio: float = 2.0,  # to the others: no storage varies so much three times running
    min_growth: float = 1.5,  # of that ratio, over the largest before, whoever was last then
    chance: float = 1e-3,  # of less than that, as for pauses of one rank
    min_share: float = 0.01,  # of the time, from the first late save on
) -> tuple[Finding, ...]:
    """At most one culprit finding, as long as the last save was late."""
    digest = observed(view)
    if digest is None or not digest.typical_step_s > 0:
        return ()
    seen = [save for one in (*view.past, digest) for save in one.saves]
    if len(seen) < min_before + min_saves:
        return ()
    in_a_row = list(takewhile(lambda save: save.rank == seen[-1].rank, reversed(seen)))[::-1]
    num_others = len(seen) - len(in_a_row)
    # Who became late may have been last by chance just before, or in all saves; the first ones say what is in time.
    early = _median(seen[: max(num_others, min_before)])
    half = (early + _median(in_a_row)) / 2
    late = list(dropwhile(lambda save: save.ratio < half, in_a_row))
    before = seen[: len(seen) - len(late)]
    if len(late) < min_saves or len(before) < min_before:
        return ()
    usual, most = _median(before), max(save.ratio for save in before)
    is_gross = min(save.ratio for save in late) >= min_ratio and _median(late) >= min_growth * most
    by_chance = _by_chance(seen[:num_others], in_a_row, num_late=len(late), num_ranks=len(digest.ranks))
    lasted = digest.first_step + digest.num_steps - late[0].step
    lost_s = sum(save.dur_s - usual * save.others_s for save in late) / lasted
    if not (is_gross or by_chance <= chance) or lost_s < min_share * digest.typical_step_s:
        return ()
    return (_finding(view, digest, late, lost_s=lost_s),)


def _by_chance(before: Sequence[Save], in_a_row: Sequence[Save], *, num_late: int, num_ranks: int) -> float:
    """How often saves that vary by themselves have one rank last `in_a_row`, and the last of these later than all else."""
    usual = sum(save.rank == in_a_row[-1].rank for save in before) / len(before) if before else 1.0
    same = min(num_ranks * max(1 / num_ranks, usual) ** len(in_a_row), 1.0)
    rest = [*before, *in_a_row[:-num_late]]
    in_order = min(s.ratio for s in in_a_row[-num_late:]) > max(s.ratio for s in rest)
    return same / (comb(len(rest) + num_late, num_late) if in_order else 1)


def _median(saves: Sequence[Save]) -> float:
    return float(np.median([save.ratio for save in saves]))


def _finding(view: View, digest: Digest, late: Sequence[Save], *, lost_s: float) -> Finding:
    rank, dur_s = late[-1].rank, float(np.median([save.dur_s for save in late]))
    others_s = float(np.median([save.others_s for save in late]))
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=digest.index,
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
        share_of_step=lost_s / digest.typical_step_s,
        evidence=(
            Evidence(
                name="save_s", value=dur_s, unit="s", baseline=others_s, note=f"{PHASE}, beside the others'"
            ),
            Evidence(name="late_saves", value=float(len(late)), unit="saves", note="in a row, the same rank"),
            Evidence(name="lost_s", value=lost_s, unit="s", note="on average"),
        ),
    )
