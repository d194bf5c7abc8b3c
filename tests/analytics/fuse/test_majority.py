"""Many ranks that became slow at once are accused, but not of the work that others gave them."""

from __future__ import annotations

import pytest

from argus.analytics.finding import Evidence, Finding
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.fuse.uneven import majority_causes
from argus.analytics.view import View
from argus.topology.layout import Topology

VIEW = View(run="r", attempt=0, topology=Topology(run="r", attempt=0, world_size=4), now_s=0.0)


def finding(detector: str, effect_s: float, *ranks: int, explained: float = 0.0) -> Finding:
    told = (Evidence(name="explained", value=explained),)
    return Finding(
        run="r",
        attempt=0,
        window=9,
        level="L2",
        detector=detector,
        kind="shift",
        role="culprit" if ranks else "notice",
        ranks=ranks,
        effect_s_per_step=effect_s,
        evidence=told,
    )


@pytest.mark.parametrize(("uneven_s", "explained", "accused"), [(0.2, 0.8, 0), (0.01, 0.8, 1), (0.2, 0.0, 1)])
def test_uneven_work_that_is_told_explains_the_majority(
    uneven_s: float, explained: float, accused: int
) -> None:
    findings = (
        finding("l2_majority", 0.1, 0, 1, 3),
        finding("l2_imbalance", uneven_s, explained=explained),
    )
    causes = majority_causes(VIEW, Lasting(findings=findings))
    assert [cause.suspects for cause in causes] == [(0, 1, 3)] * accused
