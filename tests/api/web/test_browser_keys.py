"""The page in a real Chromium by keys alone, at addresses typed by hand, and left open while a run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from argus.evals.browser import lacking
from argus.evals.served import served
from tests.api.kit import FakeClock, layouts_body, make_window, service_at, upload
from tests.api.web.conftest import NOW_S
from tests.api.web.test_browser import opened, to_incident

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is a browser"),
]

COMPOSED = """(field) => field.dispatchEvent(
    new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true }))"""


def test_the_way_past_the_menu_stays_on_the_page(browser: Browser, url: str) -> None:
    with opened(browser, url, "incidents") as shown:
        to_incident(shown)
        before = shown.page.url
        shown.page.focus("a.skip")
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_function("document.activeElement.id === 'main'")
        assert shown.page.url == before and "rank 21" in shown.page.inner_text("h1")


@pytest.mark.parametrize("where", ["", "constructor", "nothing/here"])
def test_an_address_of_no_page_is_the_list(browser: Browser, url: str, where: str) -> None:
    with opened(browser, url, where) as shown:
        shown.page.wait_for_selector("a.incident")
        assert shown.page.locator("nav a[aria-current]").all_inner_texts() == ["Incidents"]


def test_the_key_that_ends_a_composed_word_sends_nothing(browser: Browser, url: str) -> None:
    with opened(browser, url, "incidents") as shown:
        to_incident(shown)
        shown.page.fill("#question", "なぜ")
        assert shown.page.locator("#question").evaluate(COMPOSED)  # not prevented: it is the keyboard's
        assert shown.page.input_value("#question") == "なぜ"


def test_a_run_that_goes_on_and_begins_anew_is_told(browser: Browser, tmp_path: Path) -> None:
    clock = FakeClock(NOW_S)
    with service_at(tmp_path / "a.sqlite", clock=clock, window_steps=10) as service:

        def go_on(window: int, *, attempt: int = 0) -> None:
            service.receive_windows(
                upload(*(make_window(rank, window, attempt=attempt) for rank in range(4)))
            )
            service.worker.turn(clock.now_s)

        service.receive_layouts(layouts_body())
        go_on(0)
        with served(service, analyses=False) as url, opened(browser, url, "incidents") as shown:
            page = shown.page
            page.clock.install()
            page.goto(f"{url}/#/run/job")
            shown.whole_view()
            go_on(1)
            clock.now_s += 7200.0
            page.clock.run_for(16_000)
            page.wait_for_selector("dd:text-is('2 h ago')")
            assert page.locator("dd:text-is('2')").count() == 1  # windows
            service.receive_layouts(layouts_body(attempt=1))
            go_on(0, attempt=1)
            page.clock.run_for(16_000)
            page.click("button.news")
            page.wait_for_selector("section:has(> h2:text-is('Attempts')) tbody tr >> nth=1")
            shown.whole_view()
            assert not page.locator("button.news").count()
