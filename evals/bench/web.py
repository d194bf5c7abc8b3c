"""How long the web page takes to show an incident of a large job, in a real browser, and how fluid it stays."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from argus.analytics.store import progress, queries
from argus.analytics.store.engine import open_store
from argus.api.migrate import upgrade
from argus.api.run_gauges import RunNow
from argus.api.service import Service
from argus.evals.bench import Size
from argus.evals.bench.tools import RANKS, lived_service
from argus.evals.browser import chromium, lacking, tab
from argus.evals.served import served
from argus.topology.layout import build

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LOADS: Mapping[Size, int] = {"smoke": 1, "default": 5, "full": 7}
MUST_S = 2.0
"""From the click to verdict, step times and the heat map of all ranks."""

FLUID_MS = 50.0
"""Between two frames while the pointer moves over the charts: 20 a second."""

MOVES = 60
FRAMES = """
() => new Promise((done) => {
  const gaps = [];
  let last = performance.now();
  const next = (now) => {
    gaps.push(now - last);
    last = now;
    if (gaps.length < 120) requestAnimationFrame(next);
    else done(gaps.slice(2));
  };
  requestAnimationFrame(next);
})
"""
"""Gaps between some frames, the first two left out: they hold the call itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Median over loads by fresh browsers; `ok` if the first view stands in time. Nothing without a browser."""
    if reason := lacking():
        return {"ok": True, "not_measured": reason}
    with tempfile.TemporaryDirectory(prefix="argus-web-") as name:
        store = open_store(str(Path(name) / "a.sqlite"))
        upgrade(store)
        service = lived_service(store, RANKS[size])
        _take_up(service)
        with served(service, analyses=False) as url, chromium() as browser:
            shown = [_load(browser, url) for _ in range(LOADS[size])]
    first, whole, frames = (median(one[at] for one in shown) for at in range(3))
    return {
        "num_ranks": RANKS[size],
        "first_view_s": first / 1e3,
        "slowest_first_view_s": max(one[0] for one in shown) / 1e3,
        "whole_view_s": whole / 1e3,
        "frame_p95_ms": frames,
        "ok": size == "smoke" or (first / 1e3 <= MUST_S and frames <= FLUID_MS),
    }


def _take_up(service: Service) -> None:
    """What the analysis shows of a run it follows: without its other work, which would run beside the browser's."""
    with service.store.read() as connection:
        which = queries.attempt_of(connection, "bench", attempt=None)
        assert which is not None
        topology = build(progress.layouts_of(connection, which.id))
    now = RunNow(run=which.run, numbers=None, coverage_ratio=None, ranks_lost=0, topology=topology)
    service.published.show(runs=(now,), incidents=())


def table(result: Mapping[str, Any]) -> str:
    """One line, or why there is none."""
    if "not_measured" in result:
        return f"Not measured: {result['not_measured']}."
    return (
        "| ranks | first view, s | slowest load, s | whole page, s | frame while moving, p95 ms | must |\n"
        "|---|---|---|---|---|---|\n"
        f"| {result['num_ranks']:,} | {result['first_view_s']:.2f} | {result['slowest_first_view_s']:.2f} "
        f"| {result['whole_view_s']:.2f} | {result['frame_p95_ms']:.0f} | {MUST_S:g} s, {FLUID_MS:g} ms |\n\n"
        "First view: verdict, step times and ranks over time of an incident's page stand there, from the beginning "
        "of the load in a browser that has nothing cached. Browser and service share the machine."
    )


def _load(browser: Browser, url: str) -> tuple[float, float, float]:
    """Milliseconds to the first view and to the whole, and between frames while the pointer moves."""
    with tab(browser) as shown:
        shown.page.goto(f"{url}/#/incidents")
        shown.page.click("a.incident")
        target = shown.page.url
    with tab(browser) as shown:
        shown.page.goto(target)
        first = shown.first_view_ms()
        shown.whole_view()
        whole = float(
            shown.page.evaluate("performance.getEntriesByName('argus-whole-view').at(-1).startTime")
        )
        assert not shown.faults, shown.faults
        shown.page.evaluate(f"() => void (window.frames = ({FRAMES})())")
        for selector in (".heat canvas", ".map canvas"):
            box = shown.page.locator(selector).first.bounding_box()
            assert box is not None
            shown.page.locator(selector).first.scroll_into_view_if_needed()
            for at in range(MOVES // 2):
                shown.page.mouse.move(box["x"] + 80 + at * 12, 300 + at)
        gaps = sorted(float(gap) for gap in shown.page.evaluate("window.frames"))
    return first, whole, gaps[int(len(gaps) * 0.95)]
