"""What answers look like, for the OpenAPI document: the words a client may branch on are enums that only grow."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field

T = TypeVar("T")


class WindowStatus(StrEnum):
    """Where a window is in its life."""

    OPEN = "open"
    CLOSED = "closed"
    ANALYSED = "analysed"
    FAILED = "failed"
    LATE = "late"


class IncidentStatus(StrEnum):
    """Whether the cause still lasts."""

    OPEN = "open"
    RESOLVED = "resolved"


class Level(StrEnum):
    """Level of a finding."""

    L1 = "L1"
    L2 = "L2"
    L3 = "L3"
    L5 = "L5"


class Verdict(StrEnum):
    """How sure a diagnosis is."""

    CONFIRMED = "CONFIRMED"
    LIKELY = "LIKELY"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_FAULT = "NO_FAULT"


class Severity(StrEnum):
    """How much it matters."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Role(StrEnum):
    """What a finding says of its ranks."""

    CULPRIT = "culprit"
    VICTIM = "victim"
    LINK = "link"
    NOTICE = "notice"


class Kind(StrEnum):
    """What was found."""

    SPIKE = "spike"
    SHIFT = "shift"
    DRIFT = "drift"
    OSCILLATION = "oscillation"
    PERIODIC = "periodic"
    STOP = "stop"
    SELF_TIME = "self_time"
    WAIT = "wait"
    TRANSFER = "transfer"
    IMBALANCE = "imbalance"
    HOST_GAP = "host_gap"
    KERNEL_SHIFT = "kernel_shift"
    KERNEL_TAIL = "kernel_tail"
    GROUP_SHIFT = "group_shift"
    RATIO_FALL = "ratio_fall"
    RUN_CHANGE = "run_change"


class Document(BaseModel):
    """One object."""

    model_config = {"extra": "allow"}


class Items(BaseModel):
    """One page of a list."""

    items: list[dict[str, object]]
    total: int = Field(description="length of the whole list")
    limit: int
    offset: int


class ListOf(Items, Generic[T]):
    """One page of a list of things of one kind."""

    items: list[T]  # type: ignore[assignment]


class Finding(Document):
    """One suspected thing with its numbers; null where a field does not apply."""

    id: str
    run: str
    attempt: int
    window: int
    level: Level
    detector: str
    kind: Kind
    role: Role
    ranks: list[int]
    nodes: list[str]
    ratio: float | None = Field(description="got / expected")
    effect_s_per_step: float | None
    significance: float | None = Field(description="−log10 of such findings expected per healthy day")
    evidence: list[dict[str, Any]]


class Incident(Document):
    """One cause with its life; `class` is an id of the cause classes."""

    id: str
    fingerprint: str
    run: str
    attempt: int
    status: IncidentStatus
    severity: Severity
    verdict: Verdict
    fault_class: str = Field(alias="class")
    scope: str
    suspects: list[int]
    victims: list[int]
    onset_step: int
    end_step: int | None
    findings: list[str]
    diagnosis: dict[str, Any] | None


class Diagnosed(Document):
    """A diagnosis with the incident it is of."""

    incident: str
    run: str
    attempt: int
    status: IncidentStatus
    severity: Severity
    verdict: Verdict
    fault_class: str = Field(alias="class")
    diagnosis: dict[str, Any]


class WindowItem(Document):
    """A window's place in its life."""

    window: int
    status: WindowStatus
    first_step: int
    num_steps: int
    ranks_in: int
    coverage: dict[str, Any] | None
    error: str | None


class ToolStatus(StrEnum):
    """What a tool's answer is."""

    OK = "ok"
    NO_DATA = "no_data"
    GAP = "gap"
    DENIED = "denied"
    ERROR = "error"


class ToolAnswer(Document):
    """What a tool said, kept under its evidence id."""

    evidence_id: str
    tool: str
    args: dict[str, Any]
    status: ToolStatus
    note: str
    data: dict[str, Any]
