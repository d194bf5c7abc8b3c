"""Ranks that two hosts report as theirs at the same time: two jobs under one name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from argus.agent.wording import counted
from argus.collectors.records.heartbeat import Heartbeat

RETURNS = 2
"""How often a host must come back for a rank that another one reported meanwhile: once may be a request that was slow,
from a host whose rank has moved."""

RETURN_S = 60.0
"""A host that comes back later than this was not reporting all the time: hosts do every 5 s."""


@dataclass(kw_only=True)
class _Claim:
    host: str
    heard_s: float
    other: str = ""
    other_s: float = float("-inf")
    returns: int = 0


class Claims:
    """Which hosts report each running rank of one attempt, in the order they were heard."""

    def __init__(self) -> None:
        self._by_rank: dict[int, _Claim] = {}

    def hear(self, beats: Sequence[Heartbeat], *, now_s: float) -> None:
        """Heartbeats as they came in; of a rank that has ended none counts."""
        for beat in beats:
            if beat.state != "running":
                continue
            claim = self._by_rank.setdefault(beat.rank, _Claim(host=beat.host, heard_s=now_s))
            if beat.host != claim.host:
                is_return = beat.host == claim.other and now_s - claim.other_s <= RETURN_S
                claim.returns = claim.returns + 1 if is_return else 0
                claim.other, claim.other_s, claim.host = claim.host, claim.heard_s, beat.host
            claim.heard_s = now_s

    def told(self, run: str, *, now_s: float) -> str:
        """The sentence on two jobs under one name, with what to do; "" while there is none."""
        ranks = [
            rank
            for rank, claim in sorted(self._by_rank.items())
            if claim.returns >= RETURNS and now_s - claim.other_s <= RETURN_S
        ]
        if not ranks:
            return ""
        first = self._by_rank[ranks[0]]
        hosts = " and ".join(sorted((first.host, first.other)))
        more = f" (and {counted(len(ranks) - 1, 'more ranks')})" if len(ranks) > 1 else ""
        return (
            f"two jobs report as run {run}: rank {ranks[0]}{more} runs on {hosts} at once, and what is said of either "
            "is a mixture; give each its own name (ARGUS_RUN) and start one again"
        )
