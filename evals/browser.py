"""A real Chromium without a window, for the page's tests and its benchmark; what it complains of is kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SIZE = (1280, 900)


def lacking() -> str:
    """Why there is no browser here, "" if there is one."""
    if find_spec("playwright") is None:
        return "playwright is not installed: pip install playwright"
    if not executable():
        return "no Chromium is installed: apt-get install chromium"
    return ""


def executable() -> str:
    """Where Chromium is, "" if nowhere."""
    return next((found for name in NAMES if (found := shutil.which(name))), "")


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser; each page of it has a profile of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass(kw_only=True)
class Tab:
    """One page with everything that went wrong in it."""

    page: Page
    faults: list[str] = field(default_factory=list)

    def first_view_ms(self) -> float:
        """From the beginning of the load until verdict, step times and ranks over time stood there."""
        self.page.wait_for_selector("html[data-view]")
        return float(self.page.evaluate("performance.getEntriesByName('argus-first-view').at(-1).startTime"))

    def whole_view(self) -> None:
        """Wait until everything stands there."""
        self.page.wait_for_selector("html[data-view=whole]")


@contextmanager
def tab(
    browser: Browser, *, width: int = SIZE[0], height: int = SIZE[1], dark: bool = False
) -> Iterator[Tab]:
    """A page that keeps errors of scripts, of the console and of the content policy."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    try:
        opened = Tab(page=context.new_page())

        def heard(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                opened.faults.append(f"{message.type}: {message.text}")

        opened.page.on("console", heard)
        opened.page.on("pageerror", lambda error: opened.faults.append(f"script: {error}"))
        opened.page.on("dialog", lambda dialog: opened.faults.append(f"dialog: {dialog.message}"))
        yield opened
    finally:
        context.close()
