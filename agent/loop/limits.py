"""What a conversation may use up, and what it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from argus.agent.model.message import Reply


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Upper bounds of one investigation or chat turn; `max_usd` 0 = no limit on money.

    12 turns and 24 calls are twice what a straightforward case needs: longer trajectories were measured elsewhere
    not to help. 120 s is what somebody on call waits; the deterministic answer stands before that.
    """

    max_turns: int = 12
    max_tool_calls: int = 24
    max_tokens: int = 200_000
    max_s: float = 120.0
    max_usd: float = 0.0
    max_reply_tokens: int = 2048
    max_request_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What was used up so far; `num_repairs` are answers sent back for a mistake of form."""

    turns: int = 0
    tool_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    num_retries: int = 0
    num_repairs: int = 0
    is_estimated: bool = False

    @property
    def tokens(self) -> int:
        """Both ways together."""
        return self.prompt_tokens + self.completion_tokens

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "tokens": self.tokens}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Spent:
        """Inverse of `to_json`; what a later version added is passed over."""
        return Spent(**{one.name: raw[one.name] for one in fields(Spent) if one.name in raw})

    def after(self, reply: Reply, *, usd: float, at_s: float) -> Spent:
        """One turn more."""
        return replace(
            self,
            turns=self.turns + 1,
            prompt_tokens=self.prompt_tokens + reply.usage.prompt_tokens,
            completion_tokens=self.completion_tokens + reply.usage.completion_tokens,
            seconds=at_s,
            usd=self.usd + usd,
            num_retries=self.num_retries + reply.num_retries,
            is_estimated=self.is_estimated or reply.usage.is_estimated,
        )


def reached(limits: Limits, spent: Spent) -> str:
    """The budget that allows only a last answer now, "" if none.

    A turn is kept for that answer: the last turn has no tools.

    >>> reached(Limits(max_turns=3), Spent(turns=2)), reached(Limits(), Spent())
    ('turns', '')
    """
    left = (
        ("turns", spent.turns + 1 >= limits.max_turns),
        ("tool_calls", spent.tool_calls >= limits.max_tool_calls),
        ("tokens", spent.tokens >= limits.max_tokens),
        ("seconds", spent.seconds >= limits.max_s * LAST_CALL),
        ("usd", limits.max_usd > 0 and spent.usd >= limits.max_usd),
    )
    return next((name for name, is_out in left if is_out), "")


LAST_CALL = 0.75
"""After three quarters of the time the model is asked for its answer: that takes time too."""


def is_over(limits: Limits, spent: Spent) -> bool:
    """Not even a last answer may be asked for. It may overdraw tokens and money, once: it is what they were spent for."""
    return spent.turns >= limits.max_turns or spent.seconds >= limits.max_s
