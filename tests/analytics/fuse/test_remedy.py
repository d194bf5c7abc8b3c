"""What it would mean that a cause is gone, also where there is nothing to compare with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.digest import digest_of
from argus.analytics.fuse.remedy import remedies_of
from argus.analytics.incident import Cause
from argus.analytics.view import Digest, View
from argus.analytics.window import assemble
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import Topology, build

DONE = simulate(Job(ranks=4, steps=20), rng=np.random.default_rng(0))
TOPOLOGY = build(DONE.layouts)
NOW = digest_of(assemble(next(DONE.windows(WindowPlan())).parts, TOPOLOGY))


def view(topology: Topology, *past: Digest) -> View:
    return View(run="r", attempt=0, topology=topology, now_s=0.0, past=past)


def test_a_rank_that_did_nothing_of_its_own_has_no_part_of_it() -> None:
    idle = replace(NOW, own_s=np.array([0.0, 0.0, 2.0, 1.0]))
    before = replace(NOW, own_s=np.array([0.0, 1.0, 1.0, 1.0]))
    everybody = Cause(fault_class="compute.slow", verdict="LIKELY", suspects=(0, 1, 2, 3), scope="run:r")
    (remedy,) = remedies_of([everybody], view(TOPOLOGY, before, before), idle)
    assert remedy.own_parts == {2: pytest.approx(0.5), 3: 1.0} and remedy.as_peers == {0, 1}


def test_a_path_whose_calls_take_no_time_now_is_well() -> None:
    path = NOW.paths[0]
    cause = Cause(
        fault_class="link.slow", verdict="LIKELY", suspects=(), scope=f"group:{path}", paths=(path,)
    )
    now = replace(NOW, transfer_s=np.zeros(len(NOW.paths)))
    (remedy,) = remedies_of([cause], view(TOPOLOGY, NOW, NOW), now)
    assert remedy.wire_parts == {}
