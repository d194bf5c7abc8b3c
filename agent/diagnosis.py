"""The diagnosis: what is wrong, how sure we are, on what evidence, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA = "triage.diagnosis/1"
MAX_HEADLINE = 140
STATUSES = ("established", "supported", "hypothesis")


@dataclass(frozen=True, kw_only=True)
class Value:
    """A pointer to a number: a JSON pointer into a finding (by id) or into the diagnosis ("cause")."""

    evidence: str
    path: str
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence whose numbers are pointers; `text` holds {name} where a value goes.

    `cites` is evidence it stands on besides that of its values.
    """

    id: str
    text: str
    values: Mapping[str, Value] = field(default_factory=dict)
    status: str = "supported"
    cites: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.status in STATUSES, self

    @property
    def evidence(self) -> tuple[str, ...]:
        """What the claim stands on."""
        return tuple(dict.fromkeys([*(value.evidence for value in self.values.values()), *self.cites]))

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; numbers stay pointers."""
        return {
            "id": self.id,
            "text": self.text,
            "values": {name: asdict(value) for name, value in self.values.items()},
            "evidence": list(self.evidence),
            "status": self.status,
        }


@dataclass(frozen=True, kw_only=True)
class RootCause:
    """Where the trouble starts and which class it is of."""

    node: str
    fault_class: str
    role: str = "initiating"
    claim_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Edge:
    """One step of how the trouble spreads."""

    origin: str
    target: str
    claim_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NotIt:
    """A tempting cause and why it is not it."""

    node: str
    fault_class: str
    why: str
    claim_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing to do; a proposal, never carried out by us.

    `id` is its entry in the catalogue, `action` says it. `gain` is what the job would win if the cause were gone.
    """

    id: str
    action: str
    target: str
    command: str
    owner: str
    risk: str
    reversible: bool
    verify_by: str
    is_read_only: bool = True
    gain: Gain | None = None
    claim_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What is won when the cause is gone, and how that was estimated."""

    share_of_step: float
    gpu_hours_per_day: float
    method: str


@dataclass(frozen=True, kw_only=True)
class Impact:
    """What it costs the job."""

    affected_ranks: int
    slowdown_ratio: float | None
    gpu_hours_lost_per_hour: float


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The answer to "which rank, which host, why, and what now"; see `to_json` for its form.

    `evidence` are the numbers of the decision itself, which pointers to "cause" index. `separation` is the one
    command that tells the cause from the second best, with what it shows in either case. `past` tells of earlier
    incidents of the class (`agent.past`).
    """

    verdict: str
    confidence: float
    headline: str
    root_causes: tuple[RootCause, ...] = ()
    onset_step: int | None = None
    onset_time: str | None = None
    path: tuple[Edge, ...] = ()
    ruled_out: tuple[NotIt, ...] = ()
    second_best: str | None = None
    separation: Mapping[str, str] | None = None
    impact: Impact | None = None
    claims: tuple[Claim, ...] = ()
    remediation: tuple[Action, ...] = ()
    missing_evidence: tuple[str, ...] = ()
    evidence: tuple[Mapping[str, Any], ...] = ()
    past: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        assert len(self.headline) <= MAX_HEADLINE, self.headline

    def to_json(self) -> dict[str, Any]:
        """The form scored, stored and sent; numbers in claims stay pointers."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "confidence": self.confidence,
            "headline": self.headline,
            "root_causes": [_plain(asdict(cause)) for cause in self.root_causes],
            "onset": {"step": self.onset_step, "time": self.onset_time},
            "path": [
                {"from": edge.origin, "to": edge.target, "claim_ids": list(edge.claim_ids)}
                for edge in self.path
            ],
            "ruled_out": [_plain(asdict(item)) for item in self.ruled_out],
            "second_best": self.second_best,
            "separation": None if self.separation is None else dict(self.separation),
            "impact": asdict(self.impact) if self.impact else None,
            "claims": [claim.to_json() for claim in self.claims],
            "remediation": [_plain(asdict(action)) for action in self.remediation],
            "missing_evidence": list(self.missing_evidence),
            "evidence": [dict(item) for item in self.evidence],
            "past": [dict(item) for item in self.past],
        }


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    return {key: list(item) if isinstance(item, tuple) else item for key, item in value.items()}
