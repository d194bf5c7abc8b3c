"""What a system that asks a language model is given, and what comes back: the answer with what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from argus.agent.case import Case
from argus.agent.context import ToolContext
from argus.agent.loop.drive import Asked
from argus.agent.loop.limits import Limits, Spent
from argus.agent.model.endpoint import Endpoint


@dataclass(frozen=True, kw_only=True)
class Told:
    """A diagnosis in JSON form, the evidence ids seen on the way, what it cost, and why the model's answer is not in it.

    `is_answer` False = it stands for no answer at all, and is right of nothing.
    """

    diagnosis: Mapping[str, Any]
    pages: tuple[str, ...]
    spent: Spent
    failure: str = ""
    is_answer: bool = True


class AskedSystem(Protocol):
    """A module's `answer`: what the system says of a case when it may ask a model."""

    def __call__(
        self,
        case: Case,
        context: ToolContext,
        ask: Asked,
        *,
        endpoint: Endpoint,
        limits: Limits,
        question: str = "",
    ) -> Told:
        """The answer, to a question where one is put. Never raises for anything a model does."""
