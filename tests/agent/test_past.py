"""What earlier incidents tell: the same hardware first, what helped then, and nothing that nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from argus.agent.card import render
from argus.agent.context import ToolContext
from argus.agent.held_facts import HeldFacts, HeldRun
from argus.agent.past import past_of
from argus.agent.registry import registry
from argus.agent.triage import diagnose
from argus.analytics.incident import Cause, Cost, Incident
from argus.analytics.lifecycle import NAMED_BETTER, SIGNAL_GONE
from argus.analytics.outcome import (
    DID_NOT_HELP,
    GONE,
    HELPED,
    HOST_LEFT,
    RESTART,
    SAID,
    SEEN,
    WRONG,
    Outcome,
)
from argus.collectors.records.layout import Layout
from argus.topology.layout import Topology, build

COST = Cost(s_per_step=0.1, share_of_step=0.2, gpu_hours_so_far=1.0, gpu_hours_per_day=2.0, method="said")


def topology(run: str, *, shift: int = 0) -> Topology:
    """Four ranks on two hosts; with a shift each rank is on another's hardware."""
    return build(
        Layout(run=run, attempt=0, rank=rank, world_size=4, host=f"h{(rank + shift) % 4 // 2}",
               device=f"GPU-{(rank + shift) % 4}", gpu_model="H100")
        for rank in range(4)
    )  # fmt: skip


def incident(run: str, *, rank: int = 2, ended: str = SIGNAL_GONE, **cause: object) -> Incident:
    named = Cause(fault_class="compute.slow", verdict="CONFIRMED", suspects=(rank,), scope=f"rank:{rank}")
    return Incident(
        run=run, attempt=0, status="resolved", severity="warning", cause=replace(named, **cause),  # type: ignore[arg-type]
        onset_step=40, end_step=99, opened_window=4, last_window=9, cost=COST, ended=ended,
    )  # fmt: skip


def said(about: Incident, did: str, result: str, *, source: str = SAID) -> Outcome:
    return Outcome(
        incident_id=about.id, at_s=1e9, source=source, did=did, result=result, by="ann", text="at noon"
    )


def held(*runs: tuple[Incident, int], became: tuple[Outcome, ...] = ()) -> HeldFacts:
    """One run for each incident, each shifted over the hardware."""
    made = tuple(HeldRun(topology=topology(one.run, shift=shift), incidents=(one,)) for one, shift in runs)
    return HeldFacts(held=made, became=became)


NOW, FIRST, SECOND, FAR = (incident(run) for run in ("now", "first", "second", "far"))


def texts(facts: HeldFacts, mine: Incident = NOW) -> list[str]:
    return [one.text for one in past_of(mine, facts, now_s=1e9)]


def test_the_same_gpu_comes_first_with_what_helped_and_what_did_not() -> None:
    became = (
        said(FIRST, "h1 drained", HELPED),
        said(SECOND, RESTART, DID_NOT_HELP, source=SEEN),
        said(SECOND, "h1 drained", HELPED),
        said(SECOND, HOST_LEFT, GONE, source=SEEN),
        said(FAR, "fan replaced", HELPED),
    )
    facts = held((NOW, 0), (FIRST, 0), (SECOND, 0), (FAR, 2), became=became)
    assert texts(facts) == [
        (
            "the same GPU: 2 times in 30 days; what helped: h1 drained (2×); gone after: its host left the job; "
            "did not help: a restart"
        ),
        "elsewhere: 1 time in 30 days; what helped: fan replaced",
    ]


@pytest.mark.parametrize("device", ["0", "0000:C2:00.0"])
def test_a_gpu_of_the_same_index_in_another_host_is_another(device: str) -> None:
    runs = [
        (one, build([Layout(run=one.run, attempt=0, rank=2, world_size=1, host=host, device=device)]))
        for one, host in ((NOW, "h1"), (FIRST, "h2"), (SECOND, "h1"))
    ]
    facts = HeldFacts(held=tuple(HeldRun(topology=built, incidents=(one,)) for one, built in runs))
    assert texts(facts) == ["the same GPU: 1 time in 30 days"]


def test_another_gpu_of_the_host_is_the_same_host() -> None:
    assert texts(held((NOW, 0), (incident("first", rank=3), 0))) == ["the same host: 1 time in 30 days"]


def test_what_nobody_knows_anything_of_elsewhere_is_not_told() -> None:
    assert texts(held((NOW, 0), (FAR, 2))) == []


def test_what_went_by_itself_and_what_was_wrong_are_told_apart() -> None:
    became = (said(FIRST, "", GONE, source=SEEN), said(SECOND, "", WRONG))
    facts = held((NOW, 0), (FIRST, 0), (SECOND, 0), became=became)
    assert texts(facts) == ["the same GPU: 2 times in 30 days; gone by itself: 1 time; 1 said to be wrong"]


@pytest.mark.parametrize(
    "other", [incident("first", ended=NAMED_BETTER), incident("first", fault_class="host.gc"), NOW]
)
def test_what_is_no_earlier_incident_of_the_class_does_not_count(other: Incident) -> None:
    assert texts(held((NOW, 0), (other, 0))) == []


def test_a_path_is_the_same_in_its_own_run_only() -> None:
    mine, other = (
        incident(run, fault_class="link.slow", scope="group:dp/0", group="dp/0") for run in ("now", "first")
    )
    assert texts(held((mine, 0), (other, 0)), mine) == []
    before = replace(mine, attempt=7)
    facts = held((mine, 0), (other, 0))
    again = replace(facts, held=(*facts.held, replace(facts.held[0], incidents=(before,))))
    assert texts(again, mine) == ["the same path in this run: 1 time in 30 days"]


def test_the_card_and_the_tool_say_it() -> None:
    facts = held((NOW, 0), (FIRST, 0), became=(said(FIRST, "h1 drained\x1b[2J", HELPED),))
    told = diagnose(NOW, findings=(), topology=topology("now"))
    told["past"] = [one.to_json() for one in past_of(NOW, facts, now_s=1e9)]
    card = render(NOW, told, topology=topology("now"))
    assert "Before    the same GPU: 1 time in 30 days; what helped: h1 drained" in card and "\x1b" not in card
    answer = registry().call("history", {"node": None, "incident": NOW.id}, ToolContext(facts=facts))
    (row,) = answer.data["similar"]
    assert {"gpu", "host"} <= set(row["same"])
    (outcome,) = row["outcomes"]
    assert (outcome["result"], outcome["by"], outcome["day"]) == ("helped", "ann", "2001-09-09")
    assert "\x1b" not in outcome["did"]
