"""The laws of agent/tools, run on every tool found there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from argus.agent.context import ToolContext
from argus.agent.evidence import STATUSES, ToolResult
from argus.agent.fit import MAX_RESULT_BYTES
from argus.agent.registry import registry
from tests.agent.jobs import SLOW, job_facts

MAX_SCHEMA_BYTES = 14_000
"""Compact JSON of all schemas: about 3,500 tokens, which leaves room in a window of 16k."""

EFFECTS = {"capture_raw"}
"""Tools that are marked as having one."""


def call(name: str, args: Mapping[str, Any], *, missing: tuple[int, ...] = ()) -> ToolResult:
    facts = job_facts(missing=missing)
    scopes = frozenset({"read", "capture"})
    context = ToolContext(facts=facts, run="job", scopes=scopes, capture=lambda *_: {"id": "c-1"})
    registry().call("list_findings", {}, context)  # evidence for `compute`
    return registry().call(name, args, context)


def good(name: str) -> dict[str, Any]:
    """Arguments that have an answer in `job_facts`."""
    finding = job_facts().held[0].findings_held[0].id
    listed = call("list_findings", {})
    at = {"evidence": listed.evidence_id, "path": "/num_matching"}
    known: Mapping[str, dict[str, Any]] = {
        "get_finding": {"finding": finding},
        "collective_skew": {"group": "dp/1"},
        "compare_kernels": {"ranks": [SLOW]},
        "step_series": {"ranks": [SLOW]},
        "topology_query": {"what": "about", "node": f"rank:{SLOW}"},
        "shared_elements": {"ranks": [4, 5], "nature": "self_time"},
        "blast_radius": {"node": "host:h-0001"},
        "history": {"node": "host:h-0001"},
        "compare_runs": {"other": "job"},
        "what_if": {"ranks": [SLOW]},
        "compute": {"expression": "n / 2", "values": [{"name": "n", **at}], "unit": "count"},
        "capture_raw": {"ranks": [SLOW]},
        "events_oob": {"node": "host:h-0001"},
        "submit_diagnosis": {
            "verdict": "NO_FAULT",
            "confidence": 0.9,
            "headline": "nothing",
            **{
                key: []
                for key in ("root_causes", "path", "ruled_out", "claims", "remediation", "missing_evidence")
            },
        },
    }
    return known.get(name, {})


NAMES = tuple(registry().tools)
UNANSWERED = {"compare_runs": "error"}
"""There is no second run."""


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_answers_within_its_bounds_and_says_as_of_when(name: str) -> None:
    result = call(name, good(name))
    assert result.status == UNANSWERED.get(name, "ok"), result.note
    text = json.dumps(result.data, separators=(",", ":"), allow_nan=False)
    assert len(text) <= MAX_RESULT_BYTES
    assert all(value.isprintable() for value in strings(result.to_json()))
    if name not in ("compute", "submit_diagnosis", "history", *UNANSWERED):
        assert (result.as_of.run, result.as_of.attempt) == ("job", 0)


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (key, *strings(item))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_is_deterministic(name: str) -> None:
    results = [call(name, good(name)) for _ in range(2)]
    assert results[0] == results[1] and results[0].evidence_id == results[1].evidence_id


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_of_the_strict_shape(name: str) -> None:
    tool = registry().tools[name]
    assert len(tool.description) > 60 and "Annotated" not in tool.description
    for schema in objects(tool.parameters):
        assert set(schema) <= {"type", "properties", "required", "additionalProperties", "description"}
        assert schema["required"] == list(schema["properties"]) and schema["additionalProperties"] is False
    for schema in members(tool.parameters):
        assert set(schema) <= {
            "type",
            "description",
            "enum",
            "items",
            "properties",
            "required",
            "additionalProperties",
        }
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert ("array" in kinds) == ("items" in schema) and ("object" in kinds) == ("properties" in schema)


def members(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for inner in (*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])):
        yield from members(inner)


def objects(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from (one for one in members(schema) if one["type"] == "object")


def test_the_schemas_of_all_tools_cost_little() -> None:
    size = len(json.dumps(registry().schemas(strict=True), separators=(",", ":")))
    assert size <= MAX_SCHEMA_BYTES, size


def test_only_the_tool_with_an_effect_is_not_read_only() -> None:
    tools = registry().tools.values()
    assert {tool.name for tool in tools if not tool.read_only} == EFFECTS
    assert {tool.name for tool in tools if tool.scope != "read"} == EFFECTS
    assert [tool.name for tool in tools if tool.is_terminal] == ["submit_diagnosis"]


JUNK: tuple[object, ...] = (
    *(None, True, "", "x" * 5000, -1, 10**30, 1.5, float("inf")),
    *(
        "\x00\x1b[2J{v1}",
        "\ud800",
        "\x1b[2J",
        [],
        {},
        [None],
        [[1]],
        {"a": 1},
        "null",
        "-7",
        [10**9],
        ["rank:5"],
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_garbage_is_an_error_or_no_data_and_never_a_failure(name: str) -> None:
    usual = good(name)
    for argument in registry().tools[name].arguments:
        for junk in JUNK:
            check(call(name, {**usual, argument.name: junk}))
        check(call(name, {key: value for key, value in usual.items() if key != argument.name}))
    check(call(name, {**usual, "surprise": 1}), status="error")


def check(result: ToolResult, *, status: str = "") -> None:
    assert result.status in ((status,) if status else STATUSES)
    assert "failed:" not in result.note and "cannot be kept" not in result.note, (result.args, result.note)
    assert result.note.isprintable() and all(name.isprintable() for name in result.close)


UNKNOWN: Mapping[str, object] = {
    "run": "jib",
    "rank": 99,
    "ranks": [99],
    "node": "host:h-001",
    "incident": "i-0",
    "finding": "f-0",
    "window": 700,
    "group": "dp/9",
    "phase": "forwad",
}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_there_is_no_data_with_names_that_are(name: str) -> None:
    for argument in registry().tools[name].arguments:
        if argument.name not in UNKNOWN or (name, argument.name) in SPECIAL:
            continue
        result = call(name, {**good(name), argument.name: UNKNOWN[argument.name]})
        assert result.status == "no_data" and result.note, (argument.name, result)
        assert result.close, (argument.name, result.note)


SPECIAL = {
    ("topology_query", "phase"),  # an enumeration: an error that lists it
    ("history", "node"),  # kept over runs, so not bound to a topology
    ("history", "incident"),  # excludes `node`
}


@pytest.mark.parametrize(
    "name", [n for n in NAMES if "ranks" in {a.name for a in registry().tools[n].arguments}]
)
def test_a_rank_that_was_not_observed_is_a_gap(name: str) -> None:
    if name in ("shared_elements", "capture_raw"):
        pytest.skip("asks the topology, which knows ranks that are silent")
    result = call(name, {**good(name), "ranks": [2]}, missing=(2,))
    assert result.status in ("gap", "no_data"), result
    assert result.note


def test_missing_ranks_are_said_where_no_rank_is_named() -> None:
    result = call("compare_phase", {}, missing=(2,))
    assert result.status == "gap" and "1 of 8 ranks" in result.note and result.data["rows"]


@pytest.mark.parametrize("name", NAMES)
def test_an_enumeration_has_no_empty_word(name: str) -> None:
    for schema in members(registry().tools[name].parameters):
        assert "" not in schema.get("enum", ())
