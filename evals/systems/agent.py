"""The product's own agent: the triage first, then a model with tools whose every word is checked."""

from __future__ import annotations

import time

from argus.agent.case import Case
from argus.agent.context import ToolContext
from argus.agent.loop.drive import Asked
from argus.agent.loop.limits import Limits
from argus.agent.model.endpoint import Endpoint
from argus.evals.agents.trials import asked_on
from argus.evals.systems._asked import Told

OF_EACH_INCIDENT = True


def answer(
    case: Case, context: ToolContext, ask: Asked, *, endpoint: Endpoint, limits: Limits, question: str = ""
) -> Told:
    """One investigation."""
    outcome = asked_on(
        case, context, ask, endpoint=endpoint, limits=limits, question=question, clock=time.monotonic
    )
    return Told(
        diagnosis=outcome.diagnosis, pages=outcome.pages, spent=outcome.spent, failure=outcome.failure
    )
