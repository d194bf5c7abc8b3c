"""The registry's door: what comes of good calls, bad calls and tools that fail."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from argus.agent.context import ToolContext
from argus.agent.evidence import MemoryBook, NoSuchPlace, at_pointer
from argus.agent.held_facts import HeldFacts
from argus.agent.registry import Registry, Tool, registry
from tests.agent.jobs import facts_of

NO_FILTER = {"run": None, "incident": None, "level": None, "kind": None, "rank": None}


def context(scenario: str = "slow_rank") -> ToolContext:
    return ToolContext(facts=facts_of(scenario))


def test_a_finding_is_listed_and_opened_with_the_numbers_behind_it() -> None:
    here = context()
    listed = registry().call("list_findings", NO_FILTER, here)
    assert listed.status == "ok" and listed.as_of.run == "train"
    first = listed.data["findings"][0]
    opened = registry().call("get_finding", {"finding": first["id"]}, here)
    assert opened.status == "ok" and opened.data["kind"] == first["kind"]
    assert at_pointer(opened.data, "/evidence/0/value") == opened.data["evidence"][0]["value"]


def test_an_answer_is_kept_under_an_id_made_of_its_content() -> None:
    here = context()
    one, again = (registry().call("list_findings", NO_FILTER, here) for _ in range(2))
    assert one.evidence_id == again.evidence_id
    assert here.book.get(one.evidence_id) == one
    assert here.book.get("ev-0000000000000000") is None
    other = registry().call("list_findings", {**NO_FILTER, "level": "L1"}, here)
    assert other.evidence_id != one.evidence_id


@pytest.mark.parametrize(
    ("name", "args", "status"),
    [
        ("list_finding", NO_FILTER, "error"),
        ("get_finding", {}, "error"),
        ("get_finding", {"finding": 3}, "error"),
        ("get_finding", {"findin": "f-1"}, "error"),
        ("get_finding", "f-1", "error"),
        ("get_finding", {"finding": "f-0"}, "no_data"),
        ("list_findings", {**NO_FILTER, "rank": 512}, "no_data"),
        ("list_findings", {**NO_FILTER, "run": "jog"}, "no_data"),
        ("list_findings", {**NO_FILTER, "incident": "i-0"}, "no_data"),
        ("list_findings", {**NO_FILTER, "level": "L9"}, "error"),
        ("list_findings", {}, "ok"),
    ],
)
def test_what_is_wrong_with_a_call_is_its_status(name: str, args: object, status: str) -> None:
    here = context()
    result = registry().call(name, args, here)
    assert result.status == status and bool(result.note) == (status != "ok")
    assert here.book.get(result.evidence_id) == result


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("f" * 4001, "finding may have 4,000 characters, got 4,001"),
        ("f-1\x00", "finding may hold no NUL"),
        (3, "finding must be a string, got 3"),
    ],
)
def test_a_text_that_is_not_taken_is_told_why(value: object, why: str) -> None:
    assert registry().call("get_finding", {"finding": value}, context()).note.startswith(why)


@pytest.mark.parametrize(
    ("value", "why"),
    [(True, "an integer, got True"), (2**60, "an integer below 2^53, got 1152921504606846976")],
)
def test_a_number_that_is_not_taken_is_told_why(value: object, why: str) -> None:
    told = registry().call("list_findings", {**NO_FILTER, "rank": value}, context()).note
    assert told == f"rank must be {why}"


def test_unknown_names_answer_with_close_ones() -> None:
    assert "list_findings" in registry().call("list_finding", NO_FILTER, context()).close
    assert registry().call("list_findings", {**NO_FILTER, "run": "trian"}, context()).close == ("train",)
    assert registry().call("list_findings", {**NO_FILTER, "rank": 512}, context()).close == ("rank 7",)


def test_a_tool_that_fails_is_an_error_and_not_an_exception() -> None:
    def call(_context: ToolContext) -> None:
        raise RuntimeError("secret")

    broken = Tool(name="broken", description="", arguments=(), function=call)  # type: ignore[arg-type]
    result = Registry(tools={"broken": broken}).call("broken", {}, context())
    assert result.status == "error" and "secret" not in json.dumps(result.to_json())


def test_a_scope_that_is_not_held_is_denied() -> None:
    tool = Tool(name="act", description="", arguments=(), function=lambda _: None, scope="capture")  # type: ignore[arg-type,return-value]
    assert Registry(tools={"act": tool}).call("act", {}, context()).status == "denied"


def test_a_pointer_that_leads_nowhere_says_what_there_is() -> None:
    with pytest.raises(NoSuchPlace, match="there are a"):
        at_pointer({"a": 1}, "/b")
    assert at_pointer({"a/b": {"~": 2}}, "/a~1b/~0") == 2
    assert MemoryBook().get("x") is None


def test_the_attempt_in_question_and_one_that_is_named() -> None:
    first = facts_of("slow_rank").held[0]
    second = replace(first, topology=replace(first.topology, attempt=1), windows_held=first.windows_held[:3])
    both = HeldFacts(held=(second, first))

    def seen(asked: str | None, **question: Any) -> tuple[int | None, int | None]:
        result = registry().call("compare_phase", {"run": asked}, ToolContext(facts=both, **question))
        return result.as_of.attempt, result.as_of.window

    assert seen(None) == seen("train") == seen("train#1") == (1, 2)
    assert seen("train#0") == (0, 19)
    assert (
        seen(None, run="train", attempt=0, window=12)
        == seen("train", run="train", attempt=0, window=12)
        == (0, 12)
    )
    assert seen("train#1", run="train", attempt=0, window=12) == (1, 2)
    assert seen(None, run="train", attempt=1, window=7) == (1, 2)
    unknown = registry().call("compare_phase", {"run": "train#7"}, ToolContext(facts=both))
    assert (unknown.status, unknown.close) == ("no_data", ("train",))
