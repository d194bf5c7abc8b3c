"""An incident: one cause that lasts, and the decision that was taken about it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

from argus.analytics.finding import Evidence
from argus.analytics.syndrome import syndrome_of

VERDICTS = ("CONFIRMED", "LIKELY", "INCONCLUSIVE", "NO_FAULT")
SEVERITIES = ("critical", "warning", "info")


@dataclass(frozen=True, kw_only=True)
class RuledOut:
    """A tempting cause and the evidence against it."""

    fault_class: str
    why: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Separation:
    """One command that tells the best cause from the second best, and what it shows in either case."""

    command: str
    first_if: str
    second_if: str


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What the incident costs; `method` says how it was estimated, `num_steps` over how many slow steps."""

    s_per_step: float
    share_of_step: float
    gpu_hours_so_far: float
    gpu_hours_per_day: float
    method: str
    num_steps: int = 0


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What `fuse` decided: class, who, where, how sure, and what it is not.

    `scope` is the node id of the smallest object that explains the suspects. `findings` are ids. `paths` are those
    whose transfers are slow, of a link only (`delays`). `from_start_s` = seconds a step that were lost in the
    first windows already, None if nothing says that it was so from the start.
    """

    fault_class: str
    verdict: str
    suspects: tuple[int, ...]
    scope: str
    victims: tuple[int, ...] = ()
    phase: str | None = None
    group: str | None = None
    paths: tuple[str, ...] = ()
    second_best: str | None = None
    separation: Separation | None = None
    ruled_out: tuple[RuledOut, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    findings: tuple[str, ...] = ()
    share_of_step: float = 0.0
    s_per_step: float = 0.0
    onset_step: int = 0
    from_start_s: float | None = None

    def __post_init__(self) -> None:
        assert self.verdict in VERDICTS, self

    @property
    def syndrome(self) -> str | None:
        """Communication or non-communication, hang or slow; None where that is not decided."""
        return syndrome_of(self.fault_class, evidence=self.evidence, group=self.group)


@dataclass(frozen=True, kw_only=True)
class Incident:
    """A cause with its life; `diagnosis` is filled by the triage, None before, `ended` says why it was resolved.

    `launch` tells apart launches of one run under the same name and attempt; 0 is the first. `again` counts those like
    it that opened in the same window before: a job may stand still several times in one.
    """

    run: str
    attempt: int
    status: str
    severity: str
    cause: Cause
    onset_step: int
    end_step: int | None
    opened_window: int
    last_window: int
    cost: Cost
    diagnosis: dict[str, Any] | None = None
    ended: str = ""
    launch: int = 0
    again: int = 0

    @property
    def counted_to(self) -> int:
        """Last step that its cost holds."""
        return self.onset_step + self.cost.num_steps - 1

    @property
    def fingerprint(self) -> str:
        """The same cause at the same place of the same run, however often it comes back."""
        parts = (self.run, self.cause.fault_class, self.cause.scope)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @property
    def id(self) -> str:
        """One opening of the fingerprint."""
        parts: tuple[object, ...] = (self.fingerprint, self.attempt, self.opened_window)
        parts += (self.launch,) if self.launch else ()
        parts += (f"again {self.again}",) if self.again else ()
        return "i-" + hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The shared JSON form of an incident."""
        cause = self.cause
        return {
            "id": self.id,
            "fingerprint": self.fingerprint,
            "run": self.run,
            "attempt": self.attempt,
            "status": self.status,
            "severity": self.severity,
            "verdict": cause.verdict,
            "class": cause.fault_class,
            "syndrome": cause.syndrome,
            "scope": cause.scope,
            "suspects": list(cause.suspects),
            "victims": list(cause.victims),
            "onset_step": self.onset_step,
            "end_step": self.end_step,
            "ended": self.ended,
            "cost": asdict(self.cost),
            "findings": list(cause.findings),
            "diagnosis": self.diagnosis,
        }
