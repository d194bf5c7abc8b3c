"""What the service asks of a host: closer stacks, keeping raw records, sending them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from argus.collectors.records.errors import WireError

KINDS = ("burst", "pin", "capture")
MAX_RANKS = 4096
MAX_STEP = 1 << 53
RECORDING_TYPE = "application/x-argus-recording"
"""Content type of a captured rank: the frames of a recording, zstd."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """Steps are [first_step, end_step); `seconds` and `is_native` are of a burst, `capture` names a capture."""

    id: int
    kind: str
    run: str
    attempt: int
    ranks: tuple[int, ...]
    first_step: int = 0
    end_step: int = 0
    seconds: float = 0.0
    is_native: bool = False
    capture: str = ""

    def to_json(self) -> dict[str, Any]:
        """The order as JSON-ready dict."""
        return asdict(self)

    @staticmethod
    def from_json(raw: object) -> Order:
        """Parse and check. Raises WireError."""
        if not isinstance(raw, Mapping):
            raise WireError("an order must be an object")
        try:
            order = Order(
                id=int(raw["id"]),
                kind=str(raw["kind"]),
                run=str(raw["run"])[:256],
                attempt=int(raw["attempt"]),
                ranks=tuple(int(rank) for rank in raw["ranks"]),
                first_step=int(raw.get("first_step", 0)),
                end_step=int(raw.get("end_step", 0)),
                seconds=float(raw.get("seconds", 0.0)),
                is_native=bool(raw.get("is_native", False)),
                capture=str(raw.get("capture", ""))[:64],
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise WireError(f"order: {error!r:.120}") from None
        steps_fit = 0 <= order.first_step <= order.end_step <= MAX_STEP
        if order.kind not in KINDS or len(order.ranks) > MAX_RANKS or not steps_fit:
            raise WireError(f"order: unknown kind {order.kind!r:.40}, too many ranks or steps out of range")
        if not order.capture.replace("-", "").isalnum() and order.capture:
            raise WireError(f"order: {order.capture!r:.70} cannot name a capture")
        return order
