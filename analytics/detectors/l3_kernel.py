"""L3: a kernel that runs slower on one rank, or on a group of ranks, than on ranks doing the same work.

Reads the packed kernel summaries of the window. Modes are matched in order and by count, each rank's kernels
are freed of what they share (its clock), and the threshold comes from a false-alarm budget over kernels, ranks
and windows; see `kernels.match` and `kernels.scan`. Communication kernels wait for others: alone they make a rank
a victim, as a whole group they name the group (paper case 2: all groups' iteration times flat, one group's
transfers long). A finding is made when two of the last three windows agree.
"""

from __future__ import annotations

from collections.abc import Sequence

from argus.analytics.digest import observed
from argus.analytics.finding import Finding
from argus.analytics.kernels.findings import findings_of
from argus.analytics.kernels.groups import group_shifts
from argus.analytics.kernels.ratio import ratio_falls
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.votes import vote
from argus.analytics.view import View

NEEDS = "slow_kernel"


def detect(
    view: View,
    *,
    min_ratio: float = Settings.effect + 1.0,  # 0.6 of the 5 % slowdown that is to be found
    min_clear_ratio: float = Settings.clear + 1.0,  # of a large kernel whose peers lie close together
    min_share: float = Settings.share,  # half a per cent of the step is worth somebody's time
    needed: int = Settings.needed,
    max_findings: int = 20,  # the costliest; of the others those that name somebody else
) -> tuple[Finding, ...]:
    """Findings `kernel_shift`, `kernel_tail`, `group_shift`, `ratio_fall`, costliest first."""
    digest = observed(view)
    if view.window is None or digest is None or digest.kernels is None or digest.kernels.found is None:
        return ()
    settings = Settings(
        effect=min_ratio - 1.0,
        clear=min_clear_ratio - 1.0,
        share=min_share,
        needed=1 if view.is_lone else needed,
    )
    past = [one.kernels for one in view.past if one.kernels is not None]
    votes = vote(digest.kernels, past, settings=settings)
    found = [
        *findings_of(view, digest.kernels, votes, settings=settings),
        *group_shifts(view, digest.kernels, past, settings=settings),
        *ratio_falls(view, digest.kernels, past),
    ]
    found.sort(key=lambda finding: (-(finding.effect_s_per_step or 0.0), finding.id))
    return _costliest(found, most=max_findings)


def _costliest(found: Sequence[Finding], *, most: int) -> tuple[Finding, ...]:
    """The first `most`, and what names a rank or a group that none before named in that role.

    So nobody is left out, and no more are kept than there are kernels and groups: each kernel makes two at most.
    """
    kept: list[Finding] = []
    named: set[tuple[str, str]] = set()
    for finding in found:
        mine = {(finding.role, node) for node in finding.nodes}
        if len(kept) < most or not mine <= named:
            kept.append(finding)
            named |= mine
    return tuple(kept)
