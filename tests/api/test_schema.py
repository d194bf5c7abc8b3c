"""The whole OpenAPI document, driven by schemathesis: no 500, no hang, and answers as they are described."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import schemathesis.specs.openapi.checks as openapi_checks
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.result import Ok

from argus.agent.card import render
from argus.agent.triage import diagnose
from argus.api.http.capturing import MAX_WAIT_S
from argus.collectors.records.order import RECORDING_TYPE
from argus.collectors.records.upload import CONTENT_TYPE
from tests.api.guarded import BOOTSTRAP, Guarded, bearer, guarded
from tests.api.kit import FAKE_ANALYSES, FakeClock
from tests.api.served import listening_on

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "12"))
"""Cases of each operation; `make soak` tries 500."""


UNCHECKED = [
    openapi_checks.positive_data_acceptance,  # names must be printable and records sound: more than a schema says
    openapi_checks.ignored_auth,  # it asks anew with the header given here; see test_keys_http
]


@schemathesis.serializer(RECORDING_TYPE, CONTENT_TYPE)
def _as_bytes(_context: Any, value: Any) -> bytes:
    """Bodies that are bytes go as they are."""
    return value.data if hasattr(value, "data") else str(value).encode()


PARTS = 8
TIMEOUT_S = 20.0
"""An answer that takes longer is a hang."""

SHORT_S = 0.05
"""How long a long poll waits here."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder: Path = tmp_path_factory.mktemp("schema")
    told = replace(FAKE_ANALYSES, diagnose=diagnose, render=render)
    with guarded(folder, clock=FakeClock(), analyses=told, max_requests_s=0, max_ingest_s=0) as site:
        site.play("default")
        with site.client:
            yield site


@pytest.fixture(scope="module")
def operations(site: Guarded) -> Iterator[list[Any]]:
    with listening_on(site.app) as url:
        described = schemathesis.openapi.from_url(f"{url}/openapi.json")
        found = list(described.get_all_operations())
        assert all(isinstance(one, Ok) for one in found)
        yield [one.ok() for one in found if isinstance(one, Ok)]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_operation_answers_as_it_is_described(operations: list[Any], part: int) -> None:
    assert operations[part::PARTS]
    for operation in operations[part::PARTS]:
        try_out(operation)


def try_out(operation: Any) -> None:
    """Cases made from an operation's description: its answer must be one it describes, and no 500."""

    @settings(
        max_examples=EXAMPLES,
        deadline=20_000,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def attempt(case: Any) -> None:
        _wait_shortly(case.query or {})
        case.call_and_validate(headers=bearer(BOOTSTRAP), timeout=TIMEOUT_S, excluded_checks=UNCHECKED)

    attempt()


def _wait_shortly(query: dict[str, Any]) -> None:
    """A long poll that is allowed is a short one here, so that thousands of them end."""
    wait_s = query.get("wait_s")
    if isinstance(wait_s, int | float) and SHORT_S < wait_s <= MAX_WAIT_S:
        query["wait_s"] = SHORT_S


def test_the_document_names_scopes_and_problems(site: Guarded) -> None:
    document = site.client.get("/openapi.json").json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    for operation in operations:
        content = operation["responses"]["default"]["content"]
        assert list(content) == ["application/problem+json"] and "422" not in operation["responses"]
    scopes = {operation["operationId"]: operation.get("x-argus-scope") for operation in operations}
    assert scopes["ingest_windows"] == "ingest" and scopes["list_runs"] == "read"
    assert scopes["capture_raw"] == "investigate" and scopes["put_switch"] == "approve"
    assert scopes["create_key"] == "admin" and scopes["healthz"] is None
    words = document["components"]["schemas"]
    assert "compute.slow" in words["Incident"]["properties"]["class"]["enum"]
    assert set(words["Verdict"]["enum"]) == {"CONFIRMED", "LIKELY", "INCONCLUSIVE", "NO_FAULT"}
