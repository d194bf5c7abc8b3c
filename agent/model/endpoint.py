"""Where a model is, what it may cost, how long it may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from argus.agent.model.message import Usage
from argus.agent.model.profile import Profile, profile_of

NO_KEY = "EMPTY"
"""Sent where no key is set: the client library insists on one, local servers ignore it."""

TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An OpenAI-compatible endpoint. `model` "" takes the first it lists; prices are US dollars per million tokens."""

    url: str
    model: str = ""
    key: str = field(default="", repr=False)
    profile_name: str = "auto"
    context_tokens: int = 0
    usd_per_mtok_in: float = 0.0
    usd_per_mtok_out: float = 0.0

    @property
    def shown_url(self) -> str:
        """The URL without a name and a password in it, for whoever reads an answer.

        >>> Endpoint(url="http://ada:secret@gpu-7:8000/v1").shown_url
        'http://gpu-7:8000/v1'
        """
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    @property
    def profile(self) -> Profile:
        """The server's habits. Raises ValueError if the name is none."""
        return profile_of(self.profile_name, self.url)

    @property
    def window_tokens(self) -> int:
        """The context window: as set, else as the profile assumes."""
        return self.context_tokens or self.profile.context_tokens

    def usd(self, usage: Usage) -> float:
        """Price of a request."""
        return (
            usage.prompt_tokens * self.usd_per_mtok_in + usage.completion_tokens * self.usd_per_mtok_out
        ) / TOKENS_PER_PRICE
