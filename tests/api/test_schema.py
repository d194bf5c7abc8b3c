"""The whole OpenAPI document, driven by schemathesis: no 500, no hang, and answers as they are described."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from tests.api.guarded import BOOTSTRAP, Guarded, bearer, guarded
from tests.api.kit import FakeClock

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "12"))
"""Cases of each operation; `make soak` tries 500."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder: Path = tmp_path_factory.mktemp("schema")
    with guarded(folder, clock=FakeClock(), max_requests_s=0, max_ingest_s=0) as site:
        site.play("default")
        with site.client:
            yield site


@pytest.fixture(scope="module")
def described(site: Guarded) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", site.app)


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=20_000,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
def test_every_operation(case: Any) -> None:
    case.call_and_validate(headers=bearer(BOOTSTRAP))


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
