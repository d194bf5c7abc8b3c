"""Telemetry is text of others: bounded, stripped, fenced, so that a model meets it as data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from argus.agent.evidence import ToolResult
from argus.collectors.records.text import tame

MAX_TEXT = 240
"""Characters of one string of a result that a model sees."""

MAX_QUESTION = 4000
"""Characters of a question: people paste logs."""


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Fences of one conversation; `secret` is random and never leaves in a form that could be repeated as a fence."""

    secret: str = field(repr=False)

    @property
    def canary(self) -> str:
        """A word of the instructions that no answer has reason to hold."""
        return "ref-" + self._digest("canary")[:12]

    def nonce(self, label: str) -> str:
        """The fence of one text, such as the conversation's third result: nobody who wrote telemetry can know it."""
        return self._digest(f"fence {label}")[:12]

    def fenced(self, result: ToolResult, label: str) -> str:
        """A result for the model's eyes."""
        body: dict[str, object] = {
            "evidence": result.evidence_id,
            "status": result.status,
            **({"note": result.note} if result.note else {}),
            **({"close": list(result.close)} if result.close else {}),
            **(
                {"cut": [f"{one.path}: {one.shown} of {one.total}" for one in result.cut]}
                if result.cut
                else {}
            ),
            "data": result.data,
        }
        return self.fence(json.dumps(stripped(body), separators=(",", ":"), ensure_ascii=False), label)

    def fence(self, text: str, label: str) -> str:
        """Foreign text between marks that it cannot close."""
        nonce = self.nonce(label)
        return f"<data {nonce}>\n{text.replace(nonce, '')}\n</data {nonce}>"

    def is_leaked(self, text: str) -> bool:
        """The text repeats our instructions."""
        return self.canary in text or self.secret in text

    def _digest(self, what: str) -> str:
        return hashlib.sha256(f"{self.secret} {what}".encode()).hexdigest()


def stripped(value: object) -> object:
    """A JSON value with its texts cut and without control, bidirectional and invisible characters.

    >>> stripped({"k": "a\\u202eb" + "x" * 300})["k"][:3]
    'a\ufffdb'
    """
    if isinstance(value, str):
        return tame(value, MAX_TEXT) + ("…" if len(value) > MAX_TEXT else "")
    if isinstance(value, Mapping):
        return {tame(key, MAX_TEXT): stripped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [stripped(item) for item in value]
    return value


def question_of(text: str) -> str:
    """What a user typed or pasted, bounded, on lines of its own."""
    lines = (tame(line, MAX_QUESTION) for line in text[:MAX_QUESTION].splitlines())
    return "\n".join(lines).strip()
