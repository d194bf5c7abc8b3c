"""Cases of simulated jobs and the desk at which a model looks into them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from argus.agent.case import Case, case_of
from argus.agent.context import ToolContext
from argus.agent.guard import Guard
from argus.agent.loop.course import Course, Step
from argus.agent.loop.drive import Rejudge, Surroundings, Watch, drive, drive_async
from argus.agent.loop.investigate import Desk, Outcome, investigate
from argus.agent.loop.limits import Limits
from argus.agent.model.client import Model
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, Reply
from argus.agent.pseudonyms import Pseudonyms
from argus.agent.registry import Registry, registry
from tests.agent.jobs import facts_of

Script = Callable[[Ask], Reply]

USUAL = Limits()
NOWHERE = Endpoint(url="http://127.0.0.1:9/v1", model="none", context_tokens=16_384)


def case_for(scenario: str = "slow_rank", *, ranks: int = 8) -> tuple[Case, ToolContext]:
    """The costliest incident of a simulated job, or the job itself where there is none, and what tools may read."""
    facts = facts_of(scenario, ranks=ranks)
    run = facts.run(facts.runs()[0])
    assert run is not None
    incidents = sorted(facts.incidents(), key=lambda one: -one.cost.gpu_hours_per_day)
    return case_of(run, incidents[0] if incidents else None), ToolContext(facts=facts, run=run.run)


def desk_for(
    case: Case,
    context: ToolContext,
    *,
    endpoint: Endpoint = NOWHERE,
    limits: Limits = USUAL,
    tools: Registry | None = None,
) -> Desk:
    """A desk over the case's facts."""
    return Desk(
        guard=Guard(secret="5ecret"),
        endpoint=endpoint,
        registry=tools or registry(),
        book=context.book,
        limits=limits,
    )


class Ticks:
    """A clock that goes on by `step_s` with each look."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def scripted(
    script: Script,
    scenario: str = "slow_rank",
    *,
    limits: Limits = USUAL,
    tick_s: float = 0.0,
    pseudonyms: Pseudonyms | None = None,
    window_tokens: int = 16_384,
    ranks: int = 8,
    rejudge: Rejudge = lambda: None,
    endpoint: Endpoint = NOWHERE,
) -> tuple[Outcome, list[Step]]:
    """An investigation by a script, without HTTP."""
    case, context = case_for(scenario, ranks=ranks)
    steps: list[Step] = []
    around = Surroundings(
        registry=registry(),
        context=context,
        clock=Ticks(tick_s),
        watch=steps.append,
        pseudonyms=pseudonyms or Pseudonyms(names={}),
        rejudge=rejudge,
    )
    endpoint = replace(endpoint, context_tokens=window_tokens)
    desk = desk_for(case, context, endpoint=endpoint, limits=limits)
    return drive(investigate(case, desk), script, around), steps


def over_http(
    endpoint: Endpoint,
    scenario: str = "slow_rank",
    *,
    limits: Limits = USUAL,
    tools: Registry | None = None,
    clock: Callable[[], float] | None = None,
    watch: Watch = lambda step: None,
) -> Outcome:
    """An investigation by whatever stands at the endpoint; time stands still where no clock is given."""
    case, context = case_for(scenario)
    desk = desk_for(case, context, endpoint=endpoint, limits=limits, tools=tools)
    around = Surroundings(registry=desk.registry, context=context, clock=clock or Ticks(), watch=watch)
    return asyncio.run(_asked(investigate(case, desk), endpoint, around))


async def _asked(course: Course[Outcome], endpoint: Endpoint, around: Surroundings) -> Outcome:
    model = Model(endpoint)
    try:
        return await drive_async(course, model.ask, around)
    finally:
        await model.close()
