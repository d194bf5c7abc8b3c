"""`argus serve --demo`: a fresh process answers with an incident within the time a reader waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.process import start

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_the_demo_serves_a_page_with_incidents(tmp_path: Path) -> None:
    running = start(tmp_path / "ignored.sqlite", "--demo", module=("-m", "argus", "serve"))
    try:
        items = running.get("/v1/incidents?status=open")["items"]
        assert [one["run"] for one in items] == ["llm-pretrain"]
        assert running.get("/v1/page")["notice"].startswith("Demo:")
        assert running.get("/readyz")["status"] == "ok"
    finally:
        code = running.terminate()
    assert code == 0 and not (tmp_path / "ignored.sqlite").exists()
