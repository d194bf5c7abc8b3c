"""The page in a real Chromium before a slow service, and with names that look like parts of an address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from argus.evals.browser import lacking, tab
from argus.evals.served import served
from tests.api.kit import FakeClock, layouts_body, make_window, service_at, upload
from tests.api.web.conftest import NOW_S, Serve
from tests.api.web.test_browser import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is a browser"),
]


def test_one_look_at_a_time_before_a_service_that_takes_long(browser: Browser, serve_demo: Serve) -> None:
    held: list[Route] = []
    with serve_demo(clock=lambda: NOW_S) as service, served(service) as url, tab(browser) as shown:
        page = shown.page
        page.clock.install()
        page.goto(f"{url}/#/incidents")
        page.wait_for_selector("a.incident")
        page.route("**/v1/incidents?*", lambda route: held.append(route))
        page.clock.run_for(50_000)
        page.wait_for_selector("#stale:has-text('takes long to answer')")
        assert len(held) == 1
        held.pop().continue_()
        page.wait_for_selector("#stale", state="hidden")
        page.clock.run_for(16_000)
        page.wait_for_function("performance.now() > 0")
        assert len(held) == 1
        held.pop().continue_()


def test_a_run_called_like_a_part_of_another_has_its_page(browser: Browser, tmp_path: Path) -> None:
    name = "job/report"
    with service_at(tmp_path / "new.sqlite", clock=FakeClock(NOW_S), window_steps=10) as service:
        for run in ("job", name):
            service.receive_layouts(layouts_body(run=run))
            service.receive_windows(upload(*(make_window(rank, 0, run=run) for rank in range(4))))
            service.worker.turn(NOW_S)
        with served(service, analyses=False) as url, opened(browser, url, "runs") as shown:
            shown.page.click(f"a:text-is('{name}')")
            shown.whole_view()
            assert shown.page.inner_text("h1") == name and "job%252Freport" not in shown.page.url
            assert shown.page.locator(".problem").count() == 0
