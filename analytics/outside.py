"""What others say of the cluster: one out-of-band event, tied to the node it is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OutsideEvent:
    """A counter that grew, an Xid, an alert, "port down": confirms or contradicts, never accuses.

    `node` is a topology id (`host:h-3`, `nic:h-3/mlx5_0`), `source` who said it, `text` untrusted words.
    """

    time_s: float
    node: str
    source: str
    text: str
    kind: str = ""
