"""/mcp: what it does not offer is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from argus.api.http.app import make_app
from tests.api.kit import FakeClock, service_at


@pytest.mark.slow
def test_a_stream_without_notifications_is_refused_and_holds_no_connection(tmp_path: Path) -> None:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        client = TestClient(make_app(service), base_url="http://localhost")
        answer = client.get("/mcp", headers={"accept": "text/event-stream"})
        assert answer.status_code == 405 and answer.headers["allow"] == "POST"
