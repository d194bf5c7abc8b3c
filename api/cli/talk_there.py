"""A conversation with the agent of a running service, over HTTP."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from argus.agent.evidence import Json, Pages, ToolResult
from argus.agent.loop.chat import Answered
from argus.agent.loop.course import Step
from argus.agent.loop.drive import Watch
from argus.agent.loop.investigate import Outcome
from argus.agent.wording import printable
from argus.api.cli.errors import CliError
from argus.api.cli.over_http import NotThere, ask, events, quoted


class RemotePages:
    """The evidence of a service."""

    def __init__(self, server: str) -> None:
        self.server = server

    def get(self, evidence_id: str) -> ToolResult | None:
        """A result by id, None if there is none."""
        try:
            return ToolResult.from_json(ask(f"{self.server}/v1/evidence/{quoted(evidence_id)}"))
        except NotThere:
            return None


class There:
    """See `Talking`. Nothing is kept on this side."""

    def __init__(
        self, server: str, *, run: str | None, incident: str | None, conversation: str | None
    ) -> None:
        self.server, self.conversation = server, conversation
        if conversation is not None and run is None and incident is None:
            kept = ask(f"{server}/v1/conversations/{quoted(conversation)}")
            run, incident = kept["run"], kept["incident_id"]
        self.run, self.incident = run, incident

    @cached_property
    def case(self) -> Json:
        """What it is about."""
        about = {"run": self.run, "incident": self.incident}
        query = urllib.parse.urlencode({name: value for name, value in about.items() if value is not None})
        return ask(f"{self.server}/v1/case?{query}")

    @property
    def pages(self) -> Pages:
        """What tools answered."""
        return RemotePages(self.server)

    def answer(self, question: str, *, watch: Watch) -> Answered:
        """The answer to a question; the service keeps both."""
        body = {"question": question, **self._about(), "conversation": self.conversation, "stream": True}
        told = events(f"{self.server}/v1/chat", method="POST", body=body)
        last = _last(told, "answer", watch=watch)
        self.conversation = last["conversation"]
        return Answered.from_json(last["answer"])

    def investigate(self, question: str, *, watch: Watch) -> Outcome:
        """The whole case looked into."""
        begun = ask(
            f"{self.server}/v1/investigations", method="POST", body={**self._about(), "question": question}
        )
        told = events(f"{self.server}/v1/investigations/{quoted(str(begun['id']))}/events")
        return Outcome.from_json(_last(told, "outcome", watch=watch))

    def earlier(self, *, limit: int) -> Sequence[Json]:
        """The latest conversations."""
        found: list[Json] = ask(f"{self.server}/v1/conversations?limit={limit}")["items"]
        return found

    def _about(self) -> Mapping[str, str | None]:
        """The case of the beginning, however the run goes on."""
        case = self.case
        return {"run": None if case["incident"] else case["run"], "incident": case["incident"]}


def _last(told: Iterator[tuple[str, dict[str, Any]]], name: str, *, watch: Watch) -> dict[str, Any]:
    """The event that ends a stream; the steps before it are watched. Raises CliError."""
    for event, data in told:
        if event == name:
            return data
        if event == "step":
            watch(Step(what=data["what"], text=data["text"], details=data["details"]))
        elif event == "error":
            raise CliError(str(data.get("detail") or "the service could not answer"), code=1)
        elif event in ("failed", "cancelled", "interrupted"):
            raise CliError(f"the investigation was {event}: {printable(str(data.get('text', '')))}", code=1)
    raise CliError("the service broke off before its answer was whole; ask again", code=1)
