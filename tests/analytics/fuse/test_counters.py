"""Events confirm or contradict a cause: never alone, never off the path, never without growth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.fuse.counters import MAX_NAMED, SPEAKS_OF, TEMPTS, check_events
from argus.analytics.incident import Cause
from argus.analytics.outside import Outside, has_grown, ranks_under
from argus.analytics.view import View
from argus.collectors.records.outside_event import OutsideEvent
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.hosts import host_in_id
from argus.topology.layout import build
from tests.analytics.test_attempt import windows
from tests.api.kit import make_layout

NOW_S = 10_000.0
TOPOLOGY = build([replace(make_layout(rank), device=f"GPU-{rank}", local_rank=rank % 2) for rank in range(4)])
SLOW = Cause(fault_class="compute.slow", verdict="LIKELY", suspects=(2,), scope="rank:2")
LINK = Cause(fault_class="link.slow", verdict="LIKELY", suspects=(0, 1), scope="group:dp/0")


def event(kind: str, node: str, *, time_s: float = NOW_S, value: float | None = None) -> OutsideEvent:
    return OutsideEvent(time_s=time_s, node=node, source="dcgm", text="x", kind=kind, value=value)


def check(cause: Cause, *events: OutsideEvent) -> Cause:
    view = View(run="job", attempt=0, topology=TOPOLOGY, now_s=NOW_S, outside=Outside(events=events))
    return check_events(cause, view)


def test_a_sign_on_the_suspect_confirms() -> None:
    after = check(SLOW, event("xid", "gpu:GPU-2"))
    assert after.verdict == "CONFIRMED" and after.evidence[-1].note == "xid on gpu:GPU-2 (dcgm)"
    assert after.ruled_out == ()


def test_a_sign_makes_no_verdict_where_timing_made_none() -> None:
    assert check(replace(SLOW, verdict="INCONCLUSIVE"), event("xid", "gpu:GPU-2")).verdict == "INCONCLUSIVE"


def test_a_port_down_on_the_suspects_host_is_ruled_out_with_its_reason() -> None:
    after = check(replace(SLOW, verdict="CONFIRMED"), event("port_down", "nic:h-1/mlx5_0"))
    (other,) = after.ruled_out
    assert after.verdict == "CONFIRMED" and other.fault_class == "link.slow"
    assert "before any transfer begins" in other.why


def test_a_port_down_elsewhere_is_not_on_the_path() -> None:
    (other,) = check(SLOW, event("port_down", "nic:h-0/mlx5_0")).ruled_out
    assert "not on the path" in other.why
    (far,) = check(LINK, event("port_down", "host:h-1")).ruled_out
    assert far.fault_class == "link.slow" and "not on the path" in far.why


def test_a_port_down_on_the_path_of_a_slow_group_confirms_it() -> None:
    assert check(LINK, event("port_down", "nic:h-0/mlx5_0")).verdict == "CONFIRMED"


def test_a_counter_that_does_not_grow_is_history() -> None:
    flat = [event("ecc", "gpu:GPU-2", time_s=NOW_S - 60 * i, value=5.0) for i in range(3)]
    after = check(SLOW, *flat)
    (other,) = after.ruled_out
    assert after.verdict == "LIKELY" and "does not grow" in other.why
    grown = [replace(each, value=5.0 + i) for i, each in enumerate(reversed(flat))]
    assert check(SLOW, *grown).verdict == "CONFIRMED"


def test_a_probe_that_is_well_takes_certainty_back() -> None:
    sure = replace(SLOW, verdict="CONFIRMED")
    assert check(sure, event("probe_gemm", "host:h-1", value=1.01)).verdict == "LIKELY"
    assert check(sure, event("probe_gemm", "host:h-1", value=1.4)).verdict == "CONFIRMED"
    assert check(sure, event("probe_gemm", "host:h-1", value=1.07)) == sure
    both = check(sure, event("probe_gemm", "host:h-1", value=1.4), event("probe_gemm", "rank:2", value=1.0))
    assert both.verdict == "CONFIRMED"


@pytest.mark.parametrize(
    "other",
    [
        event("xid", "gpu:GPU-77"),
        event("xid", "leaf:4"),
        event("xid", "rank:99"),
        event("no_such_kind", "gpu:GPU-2"),
        event("xid", "gpu:GPU-2", time_s=NOW_S - 90_000),
        event("xid", "gpu:GPU-2", time_s=NOW_S + 90_000),
    ],
)
def test_what_is_of_another_job_time_or_kind_says_nothing(other: OutsideEvent) -> None:
    assert check(SLOW, other) == SLOW


def test_checking_twice_rules_out_once_and_floods_are_cut() -> None:
    flood = [event("port_down", f"nic:h-0/mlx5_{i}") for i in range(50)]
    once = check(SLOW, *flood)
    assert len(once.ruled_out) == MAX_NAMED
    assert check(once, *flood).ruled_out == once.ruled_out


def test_order_of_events_does_not_matter() -> None:
    events = [event("xid", "gpu:GPU-2"), event("port_down", "host:h-0"), event("thermal", "host:h-1")]
    assert check(SLOW, *events) == check(SLOW, *reversed(events))


def test_nodes_are_tied_to_ranks() -> None:
    nodes = {
        "host:h-1": (2, 3),
        "gpu:GPU-3": (3,),
        "gpu:h-0/1": (1,),
        "nic:h-0/mlx5_3": (0, 1),
        "rank:1": (1,),
        "run:job": (0, 1, 2, 3),
        "host:h-7": (),
        "rank:x": (),
        "group:none/0": (),
        "leaf:1": (),
    }
    assert {node: ranks_under(TOPOLOGY, node) for node in nodes} == nodes


def test_a_host_whose_name_has_a_slash_is_told_from_its_parts() -> None:
    hosts = {0: "r1/n7", 1: "r1/n7", 2: "r1", 3: "r1"}
    topology = replace(TOPOLOGY, hosts=hosts, devices=dict.fromkeys(hosts, ""))
    nodes = {
        "host:r1/n7": (0, 1),
        "gpu:r1/n7/1": (1,),
        "nic:r1/n7/mlx5_3": (0, 1),
        "nic:r1/mlx5_3": (2, 3),
        "half:r1/n7/0": (0, 1),
        "nic:n7/mlx5_3": (),
    }
    assert {node: ranks_under(topology, node) for node in nodes} == nodes
    for node in ("host:r1/n7", "gpu:r1/n7/1", "nic:r1/n7/mlx5_3"):
        assert event("xid", node).host == host_in_id(node) == "r1/n7"


def test_growth_needs_two_readings() -> None:
    one = event("ecc", "gpu:GPU-2", value=3.0)
    assert has_grown(one, [one]) is None and has_grown(event("xid", "rank:0"), []) is None


def test_every_sort_of_event_tempts_to_a_class() -> None:
    assert {family for families in SPEAKS_OF.values() for family in families} <= TEMPTS.keys()


def test_an_event_reaches_the_incident_through_the_one_path() -> None:
    job = Job(ranks=8, steps=150, step_s=0.4)
    done = simulate(
        job, [Fault(kind="compute", ranks=(5,), start_step=80, severity=1.3)], rng=np.random.default_rng(0)
    )
    topology = build(done.layouts)
    down = event("port_down", "host:h-0000")
    state = AttemptState.start(job.run, job.attempt)
    for window in windows(done, topology):
        state = advance(
            state, topology=topology, now_s=NOW_S, window=window, outside=Outside(events=(down,))
        ).state
    (incident,) = state.incidents
    assert incident.cause.fault_class == "compute.slow" and incident.cause.suspects == (5,)
    assert any("before any transfer begins" in item.why for item in incident.cause.ruled_out)
