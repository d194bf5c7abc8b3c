"""The tools with what they work on: facts, the book of evidence, and the way to ask hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from argus.agent.context import Capture, ToolContext
from argus.agent.evidence import EvidenceBook, Json, MemoryBook, ToolResult
from argus.agent.facts import Facts
from argus.agent.registry import Registry
from argus.agent.registry import registry as all_tools
from argus.analytics.incident import Incident
from argus.api.cluster import cluster_facts
from argus.api.evidence_book import StoreBook
from argus.api.look_again import LookAgain, look_again_on
from argus.api.service import Service
from argus.api.store_facts import StoreFacts
from argus.api.tool_capture import capture_for

READ = frozenset({"read"})
ALL = frozenset({"read", "capture"})
"""What a caller with the service's key may do: the same key orders captures directly."""


def not_again(incident: Incident) -> None:
    """No second look: of a recording, nothing more comes in."""


class Face(Protocol):
    """What a way in offers: the tools, and what they and the analysis left behind, wherever it is kept."""

    @property
    def registry(self) -> Registry:
        """The tools."""

    def call(self, name: str, args: object) -> ToolResult:
        """One call."""

    def evidence(self, evidence_id: str) -> Json | None:
        """What a tool answered, by id."""

    def incident(self, incident_id: str) -> Json | None:
        """An incident by id."""

    def incidents(self, *, limit: int) -> Sequence[Json]:
        """Incidents, open ones first, then the latest."""


@dataclass(frozen=True, kw_only=True)
class Toolbox:
    """The tools over facts that are at hand; `look_again` has the analysis judge an incident anew."""

    facts: Facts
    book: EvidenceBook = field(default_factory=MemoryBook)
    capture: Capture | None = None
    scopes: frozenset[str] = READ
    registry: Registry = field(default_factory=all_tools)
    look_again: LookAgain = not_again

    def context(
        self, *, run: str | None = None, attempt: int | None = None, window: int | None = None
    ) -> ToolContext:
        """What a call is given; run, attempt and window are those in question."""
        return ToolContext(
            facts=self.facts,
            book=self.book,
            run=run,
            attempt=attempt,
            window=window,
            scopes=self.scopes,
            capture=self.capture,
        )

    def call(self, name: str, args: object) -> ToolResult:
        """One call outside of a conversation."""
        return self.registry.call(name, args, self.context())

    def evidence(self, evidence_id: str) -> Json | None:
        """What a tool answered, by id."""
        found = self.book.get(evidence_id)
        return None if found is None else found.to_json()

    def incident(self, incident_id: str) -> Json | None:
        """An incident by id."""
        found = self.facts.incident(incident_id)
        return None if found is None else self._shown(found)

    def incidents(self, *, limit: int) -> Sequence[Json]:
        """Incidents, open ones first, then the latest."""
        return [self._shown(one) for one in self.facts.incidents()[:limit]]

    def _shown(self, incident: Incident) -> Json:
        """Under the name by which tools find its run."""
        return {**incident.to_json(), "run": self.facts.run_of(incident)}


def toolbox_of(service: Service) -> Toolbox:
    """The tools over a service's database, with everything its key allows. Raises SettingsError."""
    book = StoreBook(store=service.store, clock=service.clock, keep_s=service.settings.keep_evidence_s)
    facts = StoreFacts.of(service.store, facts=cluster_facts(service.settings))
    return Toolbox(
        facts=facts,
        book=book,
        capture=capture_for(service),
        scopes=ALL,
        look_again=look_again_on(service.store, service.analyses),
    )
