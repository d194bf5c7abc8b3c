"""The book of evidence in the service's database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from argus.agent.evidence import ToolResult
from argus.analytics.store import evidence
from argus.analytics.store.engine import Store


@dataclass(frozen=True, kw_only=True)
class StoreBook:
    """Keeps every result for `keep_s`; `clock` gives Unix seconds."""

    store: Store
    clock: Callable[[], float]
    keep_s: float

    def add(self, result: ToolResult) -> None:
        """Keep a result; one that is there already stays as it is, for its time anew."""
        now_s = self.clock()
        with self.store.write() as connection:
            evidence.add_evidence(connection, result.to_json(), now_s=now_s)
            evidence.forget_evidence(connection, before_s=now_s - self.keep_s)

    def get(self, evidence_id: str) -> ToolResult | None:
        """A result by id, None if there is none."""
        with self.store.read() as connection:
            found = evidence.evidence_of(connection, evidence_id)
        return None if found is None else ToolResult.from_json(found)
