"""What each tool says of a job whose fault is known, and of what it cannot know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from argus.agent.context import Denied, ToolContext
from argus.agent.evidence import MemoryBook, ToolResult
from argus.agent.facts import Json
from argus.agent.held_facts import HeldFacts
from argus.agent.registry import registry
from tests.agent.jobs import JOB, SLOW, facts_of, job_facts

LAST = JOB.steps // 10 - 1
"""Last window."""


def ask(
    name: str, *, facts: HeldFacts | None = None, book: MemoryBook | None = None, **args: Any
) -> ToolResult:
    context = ToolContext(facts=facts or job_facts(), book=book or MemoryBook(), run="job")
    return registry().call(name, args, context)


def test_the_slow_rank_leads_the_list_of_findings() -> None:
    found = ask("list_findings").data["findings"]
    culprit = next(row for row in found if row["role"] == "culprit")
    assert culprit["ranks"] == [SLOW] and culprit["windows"]["last"] == LAST
    assert all(SLOW in row["ranks"] for row in ask("list_findings", rank=SLOW).data["findings"])
    assert {row["level"] for row in ask("list_findings", level="L3").data["findings"]} == {"L3"}


def test_findings_behind_an_incident_are_those_it_names() -> None:
    incident = job_facts().held[0].incidents[0]
    rows = ask("list_findings", incident=incident.id).data
    assert rows["num_matching"] == len(incident.cause.findings)


def test_the_window_in_question_bounds_the_list() -> None:
    early = ToolContext(facts=job_facts(), run="job", window=6)
    rows = registry().call("list_findings", {}, early).data["findings"]
    assert rows and max(row["windows"]["last"] for row in rows) == 6


def test_the_slow_rank_is_slow_beside_its_peers_by_its_own_work() -> None:
    row = ask("compare_phase", phase="forward").data["rows"][0]
    assert row["rank"] == SLOW and row["ratio"] > 1.2 and row["num_peers"] == 3
    before = ask("compare_phase", phase="forward", ranks=[SLOW], window=2).data["rows"][0]
    assert before["ratio"] == pytest.approx(1.0, abs=0.1)


def test_an_outline_of_the_step_comes_with_all_phases() -> None:
    outline = ask("compare_phase").data["outline"]
    assert {"forward", "backward"} <= {row["phase"] for row in outline}


def test_kernels_of_the_slow_rank_are_all_slow_at_the_same_number_of_launches() -> None:
    rows = [row for row in ask("compare_kernels", ranks=[SLOW]).data["rows"] if row["role"] == "compute"]
    assert len(rows) == JOB.kernels
    assert all(
        row["ratio"] > 1.2 and row["launches_per_step"] == row["peers_launches_per_step"] for row in rows
    )
    one = ask("compare_kernels", ranks=[SLOW], kernel=rows[0]["kernel"]).data["rows"]
    assert [row["kernel"] for row in one] == [rows[0]["kernel"]]
    assert ask("compare_kernels", ranks=[SLOW], kernel="zzz").status == "no_data"


def test_the_last_to_enter_is_the_slow_rank_and_the_others_wait() -> None:
    skew = ask("collective_skew", group="dp/1").data
    first, *others = skew["members"]
    assert first["rank"] == SLOW and first["last_share"] > 0.9 and first["wait_s"] < 0.01
    assert all(other["wait_s"] > 0.05 for other in others)


def test_a_series_shows_when_it_began() -> None:
    points = ask("step_series").data["points"]
    job_s = [point["job_s"] for point in points]
    assert len(job_s) == LAST + 1 and min(job_s[5:]) > 1.2 * max(job_s[1:5])
    few = ask("step_series", windows=3, ranks=[SLOW]).data
    assert len(few["points"]) == 3 and few["points"][-1]["ranks_s"][0] > 0
    far = ask("step_series", windows=3, since_step=points[3]["first_step"]).data["points"]
    assert 2 <= len(far) <= 3 and far[-1] == points[-1] and far[0]["first_step"] <= points[3]["first_step"]
    assert ask("step_series", since_step=10**9).data["points"] == points


def test_topology_answers_relations() -> None:
    assert ask("topology_query", what="peers", node=f"rank:{SLOW}").data["ranks"] == [1, 3, 7]
    assert ask("topology_query", what="members", node="host:h-0001").data["ranks"] == [4, 5, 6, 7]
    assert ask("topology_query", what="waiters", node="rank:5", phase="grad_sync").data["ranks"] == [1, 3, 7]
    (wait,) = ask("topology_query", what="waits_on", node="rank:5", phase="tp_comm").data["waits"]
    assert wait["on"] == [4]
    path = ask("topology_query", what="path", node="rank:5", other="rank:6").data
    assert path["hops"][0] == ["rank:5"] and path["hops"][-1] == ["rank:6"]
    assert ask("topology_query", what="path", node="rank:5").status == "error"
    assert ask("topology_query", what="peers", node="host:h-0001").status == "error"
    assert "h-0001" in ask("topology_query", what="about", node="rank:5").data["text"]


def test_suspects_of_one_host_share_it() -> None:
    scope = ask("shared_elements", ranks=[4, 5, 6, 7], nature="self_time").data["scope"]
    assert scope[0]["element"] == "host:h-0001" and scope[0]["precision"] == scope[0]["recall"] == 1.0


def test_the_blast_of_a_host_reaches_those_that_wait_for_it() -> None:
    blast = ask("blast_radius", node="host:h-0001").data
    assert blast["num_ranks"] == 4
    assert {row["kind"]: row["ranks_reached"] for row in blast["groups"]}["dp"] == 8


def test_equal_stacks_are_one_row_and_the_lone_one_comes_first() -> None:
    first, second = ask("stacks").data["stacks"]
    assert first["ranks"] == [SLOW] and first["frames"][0] == "work (model.py:7)"
    assert second["num_ranks"] == 7 and second["frames"][0].startswith("wait")
    assert ask("stacks", thread="loader").data["stacks"] == []


def test_a_rank_without_a_stack_is_a_gap() -> None:
    answer = ask("stacks", facts=job_facts(missing=(2,)), ranks=[2, 3])
    assert answer.status == "gap" and "2" in answer.note


def test_events_of_the_node_and_of_what_it_holds() -> None:
    mine = ask("events_oob", node=f"rank:{SLOW}").data
    assert [row["kind"] for row in mine["events"]] == ["xid"] and mine["hosts"][0]["gpus"][0]["flags"]
    other = ask("events_oob", node="rank:0")
    assert [row["kind"] for row in other.data["events"]] == ["port_down"]
    assert other.status == "gap" and "h-0000" in other.note
    assert ask("events_oob").data["num_events"] == 2
    assert ask("events_oob", since_s=5.5).data["num_events"] == 1


def test_the_record_of_a_gpu_tells_how_it_stood_and_where_it_was_bad() -> None:
    for node in ("rank:5", "host:h-0001", "gpu:GPU-00000005"):
        record = ask("history", node=node).data
        (row,) = record["subjects"]
        assert (row["first_ratio"], row["last_ratio"], row["num_days"]) == (1.0, 1.04, 5)
        assert record["num_runs_bad"] == 1 and record["bouts"][0]["run"] == "before"
    assert ask("history", node="nic:h/mlx5_0").status == "error"
    without = HeldFacts(held=job_facts().held)
    assert ask("history", facts=without, node="host:h-0001").status == "no_data"


def test_what_changed_between_two_attempts_is_listed() -> None:
    held = job_facts().held[0]
    assert held.profile is not None
    before = replace(
        held,
        topology=replace(held.topology, attempt=0),
        profile=replace(held.profile, versions={**held.profile.versions, "torch": "1.0"}),
    )
    after = replace(
        held,
        topology=replace(held.topology, attempt=1),
        profile=replace(held.profile, versions={**held.profile.versions, "torch": "2.0"}),
    )
    answer = ask("compare_runs", facts=HeldFacts(held=(after, before)), other="job#0")
    (change,) = [row for row in answer.data["changes"] if row["section"] == "versions"]
    assert (change["name"], change["before"], change["after"]) == ("torch", "1.0", "2.0")
    assert ask("compare_runs", other="job").status == "error"


def test_what_a_rank_costs_is_replayed_from_the_calls_or_what_was_measured_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gain = ask("what_if", ranks=[SLOW]).data
    assert gain["method"] == "replay of the calls" and gain["replay_error_median"] < 0.01
    assert 0.2 < gain["gain_share"] < 0.5 and gain["gpu_hours_per_day"] == pytest.approx(
        gain["gain_share"] * 192, 1e-3
    )
    assert ask("what_if", ranks=[0]).data["gain_share"] < 0.05
    monkeypatch.setattr("argus.agent.tools.what_if.MAX_RANKS", 4)
    measured = ask("what_if", ranks=[SLOW]).data
    assert measured["method"].startswith("largest loss") and 0.2 < measured["gain_share"] < 0.5
    assert ask("what_if", ranks=[0]).status == "no_data"


def test_computed_numbers_come_from_evidence_alone() -> None:
    book = MemoryBook()
    phase = ask("compare_phase", book=book, phase="forward", ranks=[SLOW])
    values = [
        {"name": "mine", "evidence": phase.evidence_id, "path": "/rows/0/self_s"},
        {"name": "theirs", "evidence": phase.evidence_id, "path": "/rows/0/peers_self_s"},
    ]
    ratio = ask("compute", book=book, expression="mine / theirs", values=values, unit="x")
    assert ratio.data["value"] == pytest.approx(phase.data["rows"][0]["ratio"], rel=1e-3)
    assert book.get(ratio.evidence_id) == ratio

    def status(expression: str, given: list[Json]) -> str:
        return ask("compute", book=book, expression=expression, values=given, unit="x").status

    assert status("mine * 1.37", values[:1]) == "error"
    assert status("mine / (mine - mine)", values[:1]) == "error"
    assert status("mine", values) == "error"
    assert status("mine", [values[0], {**values[1], "name": "mine"}]) == "error"  # which of the two is meant
    assert status("mine", [{**values[0], "path": "/rows/9"}]) == "no_data"
    assert status("mine", [{**values[0], "evidence": "ev-0"}]) == "no_data"
    assert status("mine", [{**values[0], "path": "/rows/0/host"}]) == "no_data"


def test_a_diagnosis_is_checked_where_it_is_submitted() -> None:
    book = MemoryBook()
    phase = ask("compare_phase", book=book, phase="forward", ranks=[SLOW])
    value = {"name": "v", "evidence": phase.evidence_id, "path": "/rows/0/ratio", "unit": "x"}
    claim = {
        "id": "c1",
        "text": "It takes {v} of the peers' time.",
        "values": [value],
        "evidence": [],
        "status": "supported",
    }
    root = {"node": f"rank:{SLOW}", "fault_class": "compute.slow", "claim_ids": ["c1"]}
    usual: dict[str, Any] = {
        "verdict": "LIKELY", "confidence": 0.8, "headline": "rank 5 is slow", "root_causes": [root], "onset_step": 50,
        "path": [], "ruled_out": [], "claims": [claim], "remediation": [], "missing_evidence": [],
    }  # fmt: skip

    def faults(**changed: Any) -> list[str]:
        answer = ask("submit_diagnosis", book=book, **{**usual, **changed})
        assert answer.status == "ok", answer.note
        return list(answer.data["faults"])

    assert faults() == []
    assert "close: compute.slow" in faults(root_causes=[{**root, "fault_class": "compute.slw"}])[0]
    assert "no claim 'c9'" in faults(root_causes=[{**root, "claim_ids": ["c9"]}])[0]
    assert "nothing at" in faults(claims=[{**claim, "values": [{**value, "path": "/rows/7/ratio"}]}])[0]
    assert "no number" in faults(claims=[{**claim, "values": [{**value, "path": "/rows/0/host"}]}])[0]
    assert "no value" in faults(claims=[{**claim, "values": []}])[0]
    assert "no evidence" in faults(claims=[{**claim, "evidence": ["ev-x"]}])[0]
    assert (
        faults(root_causes=[]) and faults(confidence=3.0) and faults(verdict="INCONCLUSIVE", root_causes=[])
    )


def test_a_capture_is_ordered_once_and_refused_in_words() -> None:
    orders: list[tuple[object, ...]] = []

    def capture(*order: object) -> Json:
        if orders:
            raise Denied("h-0001 gave enough")
        orders.append(order)
        return {"id": "c-1"}

    scopes = frozenset({"read", "capture"})
    here = ToolContext(facts=job_facts(), run="job", scopes=scopes, capture=capture)
    first, second = (registry().call("capture_raw", {"ranks": [SLOW], "windows": 9}, here) for _ in range(2))
    assert first.data == {"id": "c-1"} and orders == [("job", 0, (SLOW,), 3)]
    assert (second.status, second.note) == ("denied", "h-0001 gave enough")
    alone = ToolContext(facts=job_facts(), run="job", scopes=scopes)
    assert registry().call("capture_raw", {"ranks": [SLOW]}, alone).status == "denied"


def test_similar_incidents_of_the_same_class_are_found_and_ranked() -> None:
    facts = HeldFacts(
        held=tuple(one for seed in (0, 1, 2) for one in facts_of("slow_rank", seed=seed, ranks=16).held)
    )
    known = [one for one in facts.incidents() if one.cause.fault_class == "compute.slow"]
    context = ToolContext(facts=facts)
    rows = registry().call("history", {"incident": known[0].id}, context).data["similar"]
    assert {row["id"] for row in rows} <= {one.id for one in facts.incidents()} - {known[0].id}
    assert all(row["class"] == "compute.slow" and "class" in row["same"] for row in rows)
    assert [len(row["same"]) for row in rows] == sorted((len(row["same"]) for row in rows), reverse=True)
