"""The page in a real Chromium: load, click, keys, a phone, a key to get in, and text that wants to be markup."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from argus.agent.stub_llm.scripts import confirm
from argus.agent.stub_llm.server import StubServer
from argus.analytics.store.engine import open_store
from argus.api.keyring import Keyring
from argus.api.keys import Wish
from argus.api.migrate import upgrade
from argus.api.service import Service, make_service
from argus.api.settings import Settings
from argus.evals.browser import Tab, lacking, tab
from argus.evals.served import served
from tests.api.kit import FakeClock, layouts_body, make_window, service_at, upload
from tests.api.web.conftest import NOW_S, Serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is a browser"),
]

PICTURES = os.environ.get("ARGUS_TEST_PICTURES", "")
"""A folder in which to keep screenshots; docs/img is where the documentation has them."""

NASTY = '<img src=x onerror="alert(1)"><script>alert(2)</script>*b*'


@contextmanager
def opened(browser: Browser, url: str, where: str, **how: int | bool) -> Iterator[Tab]:
    """A page of the service, with nothing wrong in it until it is closed."""
    with tab(browser, **how) as shown:  # type: ignore[arg-type]
        shown.page.goto(f"{url}/#/{where}")
        yield shown
        assert not shown.faults


def picture(shown: Tab, name: str, *, whole: bool = False) -> None:
    if PICTURES:
        shown.page.screenshot(path=str(Path(PICTURES) / f"{name}.png"), full_page=whole)


def to_incident(shown: Tab, run: str = "llm-pretrain") -> None:
    shown.page.click(f"a.incident:has-text('{run}')")
    shown.whole_view()


def test_from_the_list_to_the_verdict(browser: Browser, url: str) -> None:
    with opened(browser, url, "incidents") as shown:
        page = shown.page
        page.wait_for_selector("a.incident")
        picture(shown, "web-incidents")
        to_incident(shown)
        assert "rank 21" in page.inner_text("h1")
        verdict = page.inner_text("section:has(> h2:text-is('Verdict'))")
        assert "h-0002" in verdict and "Why" in verdict and "What it is not" in verdict
        assert page.locator("section canvas").count() >= 6
        assert not page.locator("main .problem").count() and not page.locator("main .loading").count()
        assert page.locator(".actions .command code").count() >= 1
        picture(shown, "web-first-view")
        picture(shown, "web-incident", whole=True)


def test_evidence_opens_and_closes_by_keys(browser: Browser, url: str) -> None:
    with opened(browser, url, "incidents") as shown:
        to_incident(shown)
        shown.page.locator("button.evidence").first.focus()
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_selector("dialog[open] table")
        picture(shown, "web-evidence")
        shown.page.keyboard.press("Escape")
        assert not shown.page.locator("dialog[open]").count()


def test_cells_are_read_by_arrow_keys_and_the_metric_changes(browser: Browser, url: str) -> None:
    with opened(browser, url, "incidents") as shown:
        to_incident(shown)
        canvas = shown.page.locator(".heat canvas").first
        canvas.focus()
        for _ in range(22):
            shown.page.keyboard.press("ArrowDown")
        told = shown.page.locator(".heat .told").first
        assert re.match(r"rank 21 · steps 0–9: .*×", told.inner_text())
        shown.page.select_option("section:has(> h2:text-is('Ranks over time')) select", "backward")
        shown.page.wait_for_selector(".heat canvas[aria-label^='backward']")


def test_chat_shows_steps_and_an_answer_with_its_evidence(browser: Browser, serve_demo: Serve) -> None:
    with (
        StubServer(confirm) as model,
        serve_demo(model_url=model.url, model="m", model_context=32_768) as service,
        served(service) as url,
        opened(browser, url, "incidents") as shown,
    ):
        to_incident(shown)
        shown.page.fill("#question", "why is it slow?")
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_selector(".chat-answer .said", timeout=60_000)
        assert shown.page.locator(".chat-steps li").count() >= 1
        shown.page.locator(".chat-answer button.evidence").first.click()
        shown.page.wait_for_selector("dialog[open] .facts")
        shown.page.keyboard.press("Escape")
        shown.page.locator(".chat-log").scroll_into_view_if_needed()
        picture(shown, "web-chat")


def test_without_a_model_the_triage_answers(browser: Browser, url: str) -> None:
    with opened(browser, url, "incidents") as shown:
        to_incident(shown)
        shown.page.fill("#question", "why?")
        shown.page.click("form.chat-form button[type=submit]")
        shown.page.wait_for_selector(".chat-answer .said")
        assert "21" in shown.page.inner_text(".chat-answer")
        shown.page.fill("#question", "and?")
        shown.page.focus("form.chat-form button[type=submit]")
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_selector(".chat-answer >> nth=1 >> .said")
        shown.page.wait_for_selector("form.chat-form button[type=submit]:focus", timeout=3000)


@pytest.mark.parametrize("where", ["incidents", "run/llm-pretrain", "runs", "fleet"])
def test_a_phone_has_no_sideways_scroll(browser: Browser, url: str, where: str) -> None:
    with opened(browser, url, where, width=390, height=844) as shown:
        shown.page.wait_for_selector("main h1")
        shown.page.wait_for_load_state("networkidle")
        assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if where == "incidents":
            to_incident(shown)
            assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            picture(shown, "web-phone")


def test_runs_and_fleet_in_the_dark(browser: Browser, url: str) -> None:
    with opened(browser, url, "runs", dark=True) as shown:
        shown.page.click("td a:text-is('llm-pretrain')")
        shown.whole_view()
        assert shown.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
        picture(shown, "web-run-dark")
        shown.page.click("nav a:text-is('Fleet')")
        shown.page.wait_for_selector(".u-legend")
        shown.page.wait_for_selector("main :text('GPU-6e000005')")
        picture(shown, "web-fleet-dark", whole=True)
        shown.page.click("#theme")
        assert shown.page.evaluate("document.documentElement.dataset.theme") == "light"


def test_stacks_show_what_the_suspect_does_and_zoom(browser: Browser, url: str) -> None:
    with opened(browser, url, "incidents") as shown:
        to_incident(shown, "vision-ddp")
        flame = shown.page.locator(".flame")
        flame.scroll_into_view_if_needed()
        picture(shown, "web-stacks")
        frame = flame.locator("button.more").first
        assert "others" in (frame.get_attribute("aria-label") or "")
        frame.click()
        shown.page.wait_for_selector("button:text-is('Whole stack')")


def test_a_key_lets_in_and_is_kept_nowhere(browser: Browser, serve_demo: Serve) -> None:
    with serve_demo(key="open sesame") as service, served(service) as url, tab(browser) as shown:
        page = shown.page
        page.goto(f"{url}/#/incidents")
        page.fill("#key", "wrong")
        page.click("button[type=submit]")
        page.wait_for_selector(".problem:not(:empty)")
        page.fill("#key", "open sesame")
        page.click("button[type=submit]")
        page.wait_for_selector("a.incident")
        kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
        assert "sesame" not in kept and "argus_session" not in kept
        to_incident(shown)
        page.click("#leave")
        page.wait_for_selector("#key")


def test_what_is_not_there_is_told_as_it_is(browser: Browser, url: str, tmp_path: Path) -> None:
    from tests.api.kit import FAKE_ANALYSES

    store = open_store(str(tmp_path / "new.sqlite"))
    upgrade(store)
    service = make_service(settings=Settings(), store=store, analyses=FAKE_ANALYSES, clock=lambda: NOW_S)
    with served(service, analyses=False) as new, opened(browser, new, "incidents") as shown:
        shown.page.wait_for_selector("main :text('nothing is watched')")
    store.close()
    with opened(browser, url, "run/%zz") as shown:
        shown.page.wait_for_selector(".problem:text('%zz')")
        shown.faults.clear()  # a run that is not there is a failed request
    with opened(browser, url, "incidents") as shown:
        shown.page.wait_for_selector("a.incident")
        shown.page.route("**/v1/incidents?*", lambda route: route.fulfill(json={"items": [], "total": 0}))
        shown.page.select_option("main select", "resolved")
        shown.page.wait_for_selector(".incidents :text('No resolved incident.')")
        assert shown.page.locator("a.incident").count() == 0


def test_ages_go_on_and_a_service_that_is_away_is_told(browser: Browser, serve_demo: Serve) -> None:
    now = [NOW_S]
    with serve_demo(clock=lambda: now[0]) as service, tab(browser) as shown:
        page = shown.page
        with served(service) as url:
            page.clock.install()
            page.goto(f"{url}/#/incidents")
            page.focus("a.incident >> nth=1")
            now[0] += 7200.0
            page.clock.run_for(16_000)
            page.wait_for_selector("a.incident:has-text('2.0 h ago')")
            assert page.evaluate("document.activeElement === document.querySelectorAll('a.incident')[1]")
            assert page.locator("#stale").is_hidden() and not shown.faults
        page.clock.run_for(16_000)
        page.wait_for_selector("#stale:has-text('does not answer')")
        page.select_option("main select", "open")
        page.wait_for_selector("main .problem:has-text('does not answer')")
        assert not [fault for fault in shown.faults if fault.startswith("script")]


def test_a_verdict_stands_where_the_windows_cannot_be_had(browser: Browser, url: str) -> None:
    with opened(browser, url, "incidents") as shown:
        shown.page.route("**/v1/runs/**", lambda route: route.fulfill(status=503, json={"detail": "busy"}))
        to_incident(shown)
        assert "rank 21" in shown.page.inner_text("h1")
        assert "Why" in shown.page.inner_text("section:has(> h2:text-is('Verdict'))")
        shown.faults.clear()


def test_a_run_with_a_name_like_a_command_is_one_word_of_it(browser: Browser, url: str) -> None:
    run, command = "x'; $(reboot) $& #1", "argus stacks --run $RUN --rank $RANK $PID"

    def renamed(route: Route) -> None:
        told = route.fetch().json()
        told["run"] = run
        told["diagnosis"]["remediation"][0]["command"] = command
        route.fulfill(json=told)

    with opened(browser, url, "incidents") as shown:
        shown.page.route("**/v1/incidents/*", renamed)
        to_incident(shown)
        words = shlex.split(shown.page.inner_text(".actions .command code >> nth=0"))
        assert words == ["argus", "stacks", "--run", run, "--rank", "21", "$PID"]
        shown.faults.clear()  # there is no such run


def test_a_job_without_phases_and_one_that_was_just_restarted(browser: Browser, tmp_path: Path) -> None:
    with service_at(
        tmp_path / "new.sqlite", clock=FakeClock(NOW_S), settle_s=0.0, window_steps=10
    ) as service:
        service.receive_layouts(layouts_body())
        for window in range(3):
            parts = [make_window(rank, window) for rank in range(4)]
            service.receive_windows(upload(*(replace(one, cells=one.cells[:0]) for one in parts)))
            service.worker.turn(NOW_S)
        service.receive_layouts(layouts_body(attempt=1))
        with served(service, analyses=False) as url, opened(browser, url, "run/job") as shown:
            shown.whole_view()
            assert "No window" not in shown.page.inner_text("section:has(> h2:text-is('GPU-hours lost'))")
            shown.page.route("**/v1/runs/job", lambda route: route.fulfill(json=first_attempt(route)))
            shown.page.reload()
            shown.whole_view()
            assert "no phases" in shown.page.inner_text("section:has(> h2:text-is('Ranks by phase'))")


def first_attempt(route: Route) -> dict[str, object]:
    """The run as it was before its restart."""
    told = route.fetch().json()
    return {**told, "attempts": told["attempts"][1:]}


def test_of_two_charts_the_one_asked_for_last_is_shown(browser: Browser, url: str) -> None:
    held: list[Route] = []
    choice = "section:has(> h2:text-is('Ranks over time')) select"
    with opened(browser, url, "run/llm-pretrain") as shown:
        shown.whole_view()
        shown.page.route("**/charts/heat?*metric=backward*", lambda route: held.append(route))
        shown.page.select_option(choice, "backward")
        shown.page.select_option(choice, "forward")
        shown.page.wait_for_selector(".heat canvas[aria-label^='forward']")
        held[0].fulfill(json={"note": "late"})
        shown.page.evaluate("fetch('healthz').then((answer) => answer.text())")  # comes after it
        assert shown.page.locator(".heat canvas[aria-label^='forward']").count() == 1


def test_more_incidents_show_none_twice(browser: Browser, url: str) -> None:
    """While the list was read one more was opened: all others moved down."""

    with opened(browser, url, "fleet") as shown:
        like = shown.page.request.get(f"{url}/v1/incidents?limit=1").json()["items"][0]

        def paged(route: Route) -> None:
            first = 0 if "offset=0" in route.request.url else 49
            items = [{**like, "id": f"i-{first + at}"} for at in range(50)]
            route.fulfill(json={"items": items, "total": 99})

        shown.page.route("**/v1/incidents?*", paged)
        shown.page.goto(f"{url}/#/incidents")
        shown.page.wait_for_selector("a.incident >> nth=49")
        shown.page.click("button:text-is('Show more')")
        shown.page.wait_for_selector("a.incident >> nth=98")
        assert shown.page.locator("a.incident").count() == 99
        assert shown.page.locator("button:text-is('Show more')").is_hidden()


def test_a_trace_that_cannot_be_had_is_told(browser: Browser, serve_demo: Serve) -> None:
    with (
        serve_demo(perfetto_url="http://127.0.0.1:9") as service,
        served(service) as url,
        tab(browser) as shown,
    ):
        shown.page.goto(f"{url}/#/incidents")
        to_incident(shown, "vision-ddp")
        shown.page.route("**/timeline", lambda route: route.fulfill(status=409, json={"detail": "torn"}))
        shown.page.click("button:text-is('Open in Perfetto')")
        shown.page.wait_for_selector("section:has(> h2:text-is('Further')) :text-is('torn')")
        assert not [fault for fault in shown.faults if fault.startswith("script")]


def test_the_page_says_who_is_logged_in_by_now(browser: Browser, serve_demo: Serve) -> None:
    """All tabs have one cookie: another one logs in as somebody else."""
    with serve_demo(key="open sesame") as service, served(service) as url, tab(browser) as shown:
        ring = Keyring(store=service.store, bootstrap="", is_exposed=False, clock=service.clock)
        wishes = [Wish(project="default", name=name, scopes=("investigate",)) for name in ("ann", "bob")]
        ann, bob = (ring.create(wish, by="test")[0] for wish in wishes)
        page = shown.page
        page.goto(f"{url}/#/incidents")
        page.fill("#key", ann)
        page.click("button[type=submit]")
        page.wait_for_selector("#who:text-is('ann')")
        assert page.request.post(f"{url}/v1/session", data={"key": bob}).ok
        to_incident(shown)
        page.wait_for_selector("#who:text-is('bob')")
        page.fill("#question", "why?")
        page.click("form.chat-form button[type=submit]")
        page.wait_for_selector(".chat-answer .said")


def test_planted_markup_stays_text(browser: Browser, serve_demo: Serve) -> None:
    with serve_demo(notice=NASTY) as service:
        plant(service)
        with served(service) as url, opened(browser, url, "incidents") as shown:
            page = shown.page
            page.wait_for_selector("a.incident")
            assert NASTY in page.inner_text("#notice") and NASTY in page.inner_text("main")
            assert not page.locator("main img, main script, #notice img").count()
            page.click("nav a:text-is('Runs')")
            page.wait_for_selector("td")
            assert page.locator(f"td a:has-text('{NASTY[:8]}')").count() == 1
            page.click(f"td a:has-text('{NASTY[:8]}')")
            page.wait_for_selector("h1")
            assert NASTY in page.inner_text("h1") and not page.locator("main img, main script").count()


def plant(service: Service) -> None:
    """An incident whose words, and a run whose name, would like to be markup."""
    from sqlalchemy import update

    from argus.analytics.store.documents import dump, load
    from argus.analytics.store.tables import INCIDENTS

    service.receive_layouts(layouts_body(run=NASTY))
    with service.store.write() as connection:
        for row in connection.execute(INCIDENTS.select()).all():
            told = {**load(row.diagnosis), "headline": NASTY}
            connection.execute(update(INCIDENTS).where(INCIDENTS.c.id == row.id).values(diagnosis=dump(told)))
