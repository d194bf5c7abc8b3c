"""A finding: one suspected thing with its numbers."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

LEVELS = ("L1", "L2", "L3", "L5")
KINDS = (
    "spike",
    "shift",
    "drift",
    "oscillation",
    "periodic",
    "stop",
    "self_time",
    "wait",
    "transfer",
    "imbalance",
    "host_gap",
    "kernel_shift",
    "kernel_tail",
    "group_shift",
    "ratio_fall",
    "run_change",
)
ROLES = ("culprit", "victim", "link", "notice")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One number behind a finding; `baseline` is what it is compared with, in the same unit."""

    name: str
    value: float
    unit: str = ""
    baseline: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one detector says of one window; None where a field does not apply.

    `ratio` = got / expected. `significance` = −log10 of the number of such findings expected per
    healthy day. `nodes` are `kind:name` ids. `launch` tells apart launches of one run under the same name and
    attempt; 0 is the first.
    """

    run: str
    attempt: int
    window: int
    level: str
    detector: str
    kind: str
    role: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...] = ()
    group: str | None = None
    phase: str | None = None
    kernel: str | None = None
    start_step: int | None = None
    end_step: int | None = None
    ratio: float | None = None
    effect_s_per_step: float | None = None
    share_of_step: float | None = None
    significance: float | None = None
    evidence: tuple[Evidence, ...] = ()
    launch: int = 0

    def __post_init__(self) -> None:
        assert self.level in LEVELS and self.kind in KINDS and self.role in ROLES, self

    @property
    def id(self) -> str:
        """Deterministic: the same detector, window, kind and suspects give the same id."""
        parts = (
            self.run,
            self.attempt,
            self.window,
            self.detector,
            self.kind,
            self.role,
            self.ranks,
            self.group,
            self.phase,
            self.kernel,
            self.start_step,
            *((self.launch,) if self.launch else ()),
        )
        return "f-" + hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def measure(self, name: str) -> float | None:
        """Value of the evidence called `name`, None if there is none."""
        return next((item.value for item in self.evidence if item.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """The shared JSON form of a finding."""
        fields = asdict(self)
        if not self.launch:
            del fields["launch"]
        return {"id": self.id, **fields}

    @staticmethod
    def from_json(raw: dict[str, Any]) -> Finding:
        """Inverse of `to_json` for findings this product wrote itself."""
        fields = {key: value for key, value in raw.items() if key != "id"}
        fields["ranks"] = tuple(fields["ranks"])
        fields["nodes"] = tuple(fields["nodes"])
        fields["evidence"] = tuple(Evidence(**item) for item in fields["evidence"])
        return Finding(**fields)
