"""What a failed request means to the user: its kind and one plain sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from argus.agent.model.endpoint import Endpoint
from argus.agent.model.foreign import MASK, safe
from argus.agent.model.message import ModelError

if TYPE_CHECKING:
    import openai

_CONTEXT = re.compile(
    r"context.{0,20}(length|size|window|exceed)|too many tokens|maximum.{0,20}tokens|prompt is too long|exceeds the available",
    re.IGNORECASE,
)
_TOOLS_OFF = re.compile(
    r"enable-auto-tool-choice|requires --jinja|does not support tools|tool-call-parser", re.IGNORECASE
)
_SECRET = re.compile(
    r"(sk-|key[-_=:\s'\"]*)[\w*.-]{6,}|bearer \S+"
    # A word after "token" is seldom one itself ("token exceeded"): what is assigned, quoted or has a digit is.
    r"|(token|secret)(\s*[=:'\"][=:\s'\"]*|[-_\s]+(?=\S*\d))[\w*.-]{6,}",
    re.IGNORECASE,
)

MAX_REASON = 160
"""Characters of a server's own words repeated to the user."""


MAX_READ = 4_000
"""Characters of a server's words that are looked at: its page of an error may have megabytes."""


def from_status(error: openai.APIStatusError, *, endpoint: Endpoint) -> ModelError:
    """The failure behind an HTTP status; `endpoint` is the one asked, with the model's name."""
    status, said, url, model = error.status_code, said_by(error), endpoint.shown_url, endpoint.model
    reason = tidy(_words_of(error), key=endpoint.key)
    if _TOOLS_OFF.search(said):
        return ModelError("server", f"the endpoint does not take tools: {reason}")
    if status in (400, 413, 422, 500) and _CONTEXT.search(said):
        return ModelError("context", f"the conversation does not fit the model's context: {reason}")
    if status in (401, 403):
        return ModelError("auth", f"the endpoint refuses the key ({status}); set ARGUS_MODEL_KEY")
    if status == 404:
        return ModelError(
            "no_model", f"the endpoint has no model {model!r}, or {url} is not its API: {reason}"
        )
    if status == 429:
        return ModelError("rate_limit", f"the endpoint takes no more requests for now (429): {reason}")
    if status in (408, 504):
        return ModelError("timeout", f"the endpoint gave up waiting for the model ({status})")
    if status >= 500:
        return ModelError("server", f"the endpoint fails ({status}): {reason}")
    return ModelError("server", f"the endpoint refuses the request ({status}): {reason}")


def unreachable(url: str, reason: str) -> ModelError:
    """Nothing answers."""
    return ModelError("unreachable", f"no answer from the model at {url}: {reason or 'connection failed'}")


def timed_out(timeout_s: float) -> ModelError:
    """It takes too long."""
    return ModelError("timeout", f"the model did not answer within {timeout_s:.3g} s")


def said_by(error: openai.APIStatusError) -> str:
    """The server's own words on one line, as they are: to be understood, not to be shown."""
    return _line(_words_of(error))[:MAX_REASON]


def _words_of(error: openai.APIStatusError) -> str:
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        text = inner.get("message") if isinstance(inner, dict) else inner
        return str(text or body)
    return str(body or error.message)


def tidy(text: str, *, key: str = "") -> str:
    """Foreign text for one line of ours, without the endpoint's key and what looks like a secret.

    >>> tidy("no such token=abcdefgh"), tidy("max_tokens must be 4096")
    ('no such ***', 'max_tokens must be 4096')
    """
    masked = _SECRET.sub(MASK, _line(str(safe(text, key=key))))
    return masked if len(masked) <= MAX_REASON else masked[: MAX_REASON - 1] + "…"


def _line(text: str) -> str:
    bare = re.sub(r"<[^>]*>", " ", text[:MAX_READ])
    return " ".join("".join(c if c.isprintable() else " " for c in bare).split())
