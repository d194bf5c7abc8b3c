"""What a failed request means to the user: its kind and one plain sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
_SECRET = re.compile(r"(sk-|key[-_ ]?)[\w*.-]{6,}|bearer \S+", re.IGNORECASE)

MAX_REASON = 160
"""Characters of a server's own words repeated to the user."""


def from_status(error: openai.APIStatusError, *, url: str, model: str) -> ModelError:
    """The failure behind an HTTP status."""
    status, reason = error.status_code, reason_of(error)
    if _TOOLS_OFF.search(reason):
        return ModelError("server", f"the endpoint does not take tools: {reason}")
    if status in (400, 413, 422, 500) and _CONTEXT.search(reason):
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


def unreachable(url: str, reason: object) -> ModelError:
    """Nothing answers."""
    return ModelError(
        "unreachable", f"no answer from the model at {url}: {tidy(str(reason)) or 'connection failed'}"
    )


def timed_out(timeout_s: float) -> ModelError:
    """It takes too long."""
    return ModelError("timeout", f"the model did not answer within {timeout_s:.3g} s")


def reason_of(error: openai.APIStatusError) -> str:
    """The server's own words, on one line, without secrets."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        text = inner.get("message") if isinstance(inner, dict) else inner
        return tidy(str(text or body))
    return tidy(str(body or error.message))


def tidy(text: str) -> str:
    """Foreign text for one line of ours."""
    line = " ".join("".join(c if c.isprintable() else " " for c in re.sub(r"<[^>]*>", " ", text)).split())
    masked = _SECRET.sub("***", line)
    return masked if len(masked) <= MAX_REASON else masked[: MAX_REASON - 1] + "…"
