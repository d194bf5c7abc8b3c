"""The agent put together from the settings: endpoint, budgets, runbooks, metrics."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from argus.agent.case import Case, case_of
from argus.agent.context import Unknown
from argus.agent.guard import Guard
from argus.agent.loop.chat import Answered, chat_turn
from argus.agent.loop.course import Course, Step
from argus.agent.loop.drive import Surroundings, drive_async
from argus.agent.loop.investigate import (
    BROKE_OFF,
    NO_MODEL,
    Desk,
    Outcome,
    broke_off,
    investigate,
    without_model,
)
from argus.agent.loop.limits import Limits
from argus.agent.loop.spans import span
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Message
from argus.agent.pseudonyms import pseudonyms_of
from argus.agent.runbooks.books import Runbook, read_books
from argus.api.agent_metrics import AgentMetrics, make_agent_metrics
from argus.api.masking import mask
from argus.api.service import Service
from argus.api.settings import Settings, SettingsError
from argus.api.toolbox import Toolbox

if TYPE_CHECKING:
    from argus.agent.model.client import Model

LOG = logging.getLogger("argus.agent")

FORESEEN = (Unknown, ModuleNotFoundError)
"""What callers have a sentence of their own for."""

T = TypeVar("T")
Watch = Callable[[Step], None]


@dataclass(frozen=True, kw_only=True)
class Agent:
    """Answers about runs and incidents; without an endpoint it gives the deterministic triage."""

    endpoint: Endpoint | None
    limits: Limits
    metrics: AgentMetrics
    books: tuple[Runbook, ...] = ()
    hides_hosts: bool = False
    clock: Callable[[], float] = field(default=time.monotonic)

    def case(self, toolbox: Toolbox, *, run: str | None = None, incident: str | None = None) -> Case:
        """The case of an incident, else of a run's costliest open one, else of the run. Raises Unknown."""
        facts = toolbox.facts
        if incident is not None:
            found = facts.incident(incident)
            if found is None:
                known = [one.id for one in facts.incidents(run=run)]
                raise Unknown(f"no incident {incident[:80]!r}", close=known[:3])
            name = facts.run_of(found)
            of_run = toolbox.context(run=name, attempt=found.attempt).of_run(name)
            return case_of(of_run, found, books=self.books)
        of_run = toolbox.context(run=run).of_run(run)
        mine = [one for one in facts.incidents(run=of_run.run) if one.attempt == of_run.attempt]
        worst = max(mine, key=lambda one: (one.status == "open", one.cost.gpu_hours_per_day), default=None)
        return case_of(of_run, worst, books=self.books)

    async def investigate(
        self, toolbox: Toolbox, case: Case, *, question: str = "", watch: Watch = lambda step: None
    ) -> Outcome:
        """The final diagnosis of a case; the triage's where the model or the agent fails. Raises Unknown."""
        if self.endpoint is None:
            return without_model(case, reason=NO_MODEL)
        course = investigate(case, self._desk(self.endpoint, toolbox), question=question)
        try:
            outcome = await self._run(course, endpoint=self.endpoint, toolbox=toolbox, case=case, watch=watch)
            self.metrics.outcome(outcome)
        except FORESEEN:
            raise
        except Exception as error:
            LOG.error("an investigation broke off", exc_info=error)
            outcome = without_model(case, reason=broke_off(error), failure=BROKE_OFF)
            self.metrics.outcome(outcome)
        return outcome

    async def answer(
        self,
        toolbox: Toolbox,
        case: Case,
        *,
        question: str,
        history: Sequence[Message] = (),
        conversation: str = "",
        watch: Watch = lambda step: None,
    ) -> Answered:
        """The answer to one question of a chat, without text where the model or the agent fails. Raises Unknown.

        `conversation` is its id for who traces it.
        """
        if self.endpoint is None:
            return Answered(text="", note=NO_MODEL, failure="no_model")
        desk = self._desk(self.endpoint, toolbox)
        try:
            answered = await self._run(
                chat_turn(case, desk, question=question, history=history),
                endpoint=self.endpoint,
                toolbox=toolbox,
                case=case,
                watch=watch,
                conversation=conversation,
            )
            self.metrics.answered(answered)
        except FORESEEN:
            raise
        except Exception as error:
            LOG.error("a question broke off", exc_info=error)
            answered = Answered(text="", note=broke_off(error), failure=BROKE_OFF)
            self.metrics.answered(answered)
        return answered

    def _desk(self, endpoint: Endpoint, toolbox: Toolbox) -> Desk:
        facts = toolbox.facts
        return Desk(
            guard=Guard(secret=secrets.token_hex(16)),
            endpoint=endpoint,
            registry=toolbox.registry,
            book=toolbox.book,
            limits=self.limits,
            has=lambda key: (facts.incident(key) or facts.finding(key)) is not None,
        )

    async def _run(
        self,
        course: Course[T],
        *,
        endpoint: Endpoint,
        toolbox: Toolbox,
        case: Case,
        watch: Watch,
        conversation: str = "",
    ) -> T:
        def watched(step: Step) -> None:
            self.metrics.step(step)
            watch(step)

        around, model = await asyncio.to_thread(self._prepared, endpoint, toolbox, case)
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "argus"}
        if conversation:
            attributes["gen_ai.conversation.id"] = conversation
        try:
            with span("invoke_agent argus", attributes):
                return await drive_async(course, model.ask, replace(around, watch=watched, endpoint=endpoint))
        finally:
            await model.close()

    def _prepared(self, endpoint: Endpoint, toolbox: Toolbox, case: Case) -> tuple[Surroundings, Model]:
        """What takes a while, and on the event loop would hold up uploads and probes: openai, certificates, the database."""
        from argus.agent.model.client import Model  # a second that only a model is worth

        return self._around(toolbox, case), Model(endpoint)

    def _around(self, toolbox: Toolbox, case: Case) -> Surroundings:
        """What the course meets; reads the database."""

        def rejudge() -> Mapping[str, Any] | None:
            return None if case.incident is None else toolbox.look_again(case.incident)

        # Past incidents and other attempts were on hosts that are none of this run's.
        hosts = {*case.hosts, *toolbox.facts.hosts()} if self.hides_hosts else set()
        latest = next(iter(case.facts.windows(limit=1)), None)
        window = case.incident.last_window if case.incident else latest.index if latest else None
        return Surroundings(
            registry=toolbox.registry,
            context=toolbox.context(run=case.facts.run, attempt=case.facts.attempt, window=window),
            clock=self.clock,
            pseudonyms=pseudonyms_of(hosts),
            rejudge=rejudge,
        )


def agent_for(service: Service) -> Agent:
    """The agent of a service, counted among the service's own metrics. Raises SettingsError."""
    return agent_of(service.settings, metrics=service.agent_metrics)[0]


def agent_of(settings: Settings, *, metrics: AgentMetrics | None = None) -> tuple[Agent, tuple[str, ...]]:
    """The agent of the settings, and a sentence for each of the user's runbooks that cannot be read.

    Raises SettingsError.
    """
    books, warnings = read_books(Path(settings.runbooks)) if settings.runbooks else ((), ())
    agent = Agent(
        endpoint=endpoint_of(settings),
        limits=limits_of(settings),
        metrics=metrics or make_agent_metrics(CollectorRegistry()),
        books=books,
        hides_hosts=bool(settings.model_hide_hosts),
    )
    return agent, warnings


def endpoint_of(settings: Settings) -> Endpoint | None:
    """The endpoint, None if none is set up. Raises SettingsError."""
    if not settings.model_url:
        return None
    url = settings.model_url if "://" in settings.model_url else f"http://{settings.model_url}"
    if not _can_be_asked(url):
        raise SettingsError(
            f"model_url must be a URL like http://HOST:8000/v1, got {mask(settings.model_url)!a:.80}"
        )
    endpoint = Endpoint(
        url=url.rstrip("/"),
        model=settings.model,
        key=settings.model_key,
        profile_name=settings.model_profile,
        context_tokens=settings.model_context,
        usd_per_mtok_in=settings.model_usd_in,
        usd_per_mtok_out=settings.model_usd_out,
    )
    try:
        _ = endpoint.profile
    except ValueError as error:
        raise SettingsError(f"model_profile: {error}") from None
    return endpoint


def _can_be_asked(url: str) -> bool:
    """Whether a URL names a host and a port of one: the client library raises its own errors for the rest."""
    try:
        parts = urlsplit(url)
        is_port = parts.port is None or parts.port > 0  # reading it raises where it is none
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https") and bool(parts.hostname) and is_port and not re.search(r"\s", url)
    )


def limits_of(settings: Settings) -> Limits:
    """The budgets. Raises SettingsError for one that could never be kept."""
    if settings.model_usd and not (settings.model_usd_in or settings.model_usd_out):
        raise SettingsError("model_usd limits money, but no price is set: set model_usd_in and model_usd_out")
    return Limits(
        max_turns=settings.model_turns,
        max_tool_calls=settings.model_calls,
        max_tokens=settings.model_tokens,
        max_s=settings.model_deadline_s,
        max_usd=settings.model_usd,
    )
