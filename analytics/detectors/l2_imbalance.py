"""L2: the work itself is uneven: long sequences or crowded experts make some ranks slower than others.

Where ranks tell their work (`work:<unit>` events) the time it should take is fitted and the loss is what the
rank with most work takes beyond the mean. Without that a slowest rank that changes from step to step is
imbalance or noise, not hardware (incidents.md, K and L). Either way nobody is accused: a notice.
"""

from __future__ import annotations

import numpy as np

from argus.analytics.baseline import MIN_COVERAGE, is_comparable
from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.peers import peer_medians, work_classes
from argus.analytics.view import Digest, View
from argus.analytics.window import Window
from argus.analytics.work import WORKED

NEEDS = "long_sequences"

MIN_RANKS = 4
"""Of fewer ranks one is always the slowest, by chance."""


def detect(
    view: View,
    *,
    min_share: float = 0.05,  # of the step: uneven work costs some of every job
    min_explained: float = 0.5,  # the work must account for most of what makes times differ
    min_varying_share: float = 0.10,  # without work units noise looks the same, so more is asked for
    max_lead: float = 0.5,  # a rank that is slowest in half of the steps is somebody, not chance
    needed: int = 2,
    of_windows: int = 3,
    min_coverage: float = MIN_COVERAGE,
) -> tuple[Finding, ...]:
    """At most one notice of kind imbalance; `phase` = the phases whose time follows the work."""
    digest = observed(view)
    if digest is None or view.window is None or not is_comparable(digest, min_coverage):
        return ()
    recent = [*view.past[1 - of_windows :], digest] if of_windows > 1 else [digest]
    shares = [_share(one) for one in recent]
    if digest.balance is not None:
        is_lasting = sum(share >= min_share for share in shares) >= min(needed, len(recent))
        if shares[-1] < min_share or not is_lasting or digest.balance.explained < min_explained:
            return ()
        return (_by_work(view, digest),)
    varying = _varying(view.window, digest)
    if varying is None or varying[0] < min_varying_share or varying[1] > max_lead:
        return ()
    return (_unexplained(view, digest, share=varying[0], lead=varying[1]),)


def _share(digest: Digest) -> float:
    """Share of the step that uneven work costs."""
    if digest.balance is None or not digest.typical_step_s > 0:
        return 0.0
    return digest.balance.lost_s / digest.typical_step_s


def _varying(window: Window, digest: Digest) -> tuple[float, float] | None:
    """Loss to the slowest rank of each step as share of it, and how often the same rank is the slowest."""
    rows = [i for i, name in enumerate(window.phases) if name in WORKED]
    times = window.self_s[rows][:, :, window.usable].sum(axis=0).T
    if not rows or times.shape[0] < 4 or times.shape[1] < MIN_RANKS or not np.isfinite(times).all():
        return None
    classes = work_classes(window.topology, window.ranks)
    excess = np.nan_to_num(times - peer_medians(times, classes), nan=-np.inf)
    slowest = excess.argmax(axis=1)
    lead = np.bincount(slowest).max() / len(slowest)
    return float(np.maximum(excess.max(axis=1), 0.0).mean() / digest.typical_step_s), float(lead)


def _by_work(view: View, digest: Digest) -> Finding:
    assert digest.balance is not None
    units = sorted(digest.balance.by_unit.items(), key=lambda item: (-item[1], item[0]))
    return _finding(
        view,
        digest,
        lost_s=digest.balance.lost_s,
        evidence=(
            Evidence(
                name="explained", value=digest.balance.explained, note="of the deviation, by the work told"
            ),
            *(Evidence(name="lost_by_unit_s", value=part, unit="s", note=unit) for unit, part in units),
        ),
    )


def _unexplained(view: View, digest: Digest, *, share: float, lead: float) -> Finding:
    return _finding(
        view,
        digest,
        lost_s=share * digest.typical_step_s,
        evidence=(
            Evidence(name="explained", value=0.0, note="no work units are told"),
            Evidence(name="same_slowest_share", value=lead, note="steps with the most frequent slowest rank"),
        ),
    )


def _finding(view: View, digest: Digest, *, lost_s: float, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=digest.index,
        level="L2",
        detector="l2_imbalance",
        kind="imbalance",
        role="notice",
        ranks=(),
        nodes=(f"run:{view.run}",),
        start_step=digest.first_step,
        end_step=digest.first_step + digest.num_steps - 1,
        effect_s_per_step=lost_s,
        share_of_step=lost_s / digest.typical_step_s,
        evidence=(Evidence(name="lost_s", value=lost_s, unit="s"), *evidence),
    )
