"""Driving a course: the one loop between logic and the world, in a blocking and in an async form."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

from argus.agent.context import ToolContext
from argus.agent.evidence import ToolResult
from argus.agent.loop.course import Course, Effect, Heard, Step, UseTool
from argus.agent.loop.spans import Span, named, span, told
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, ModelError, Reply
from argus.agent.pseudonyms import Pseudonyms
from argus.agent.registry import Registry

T = TypeVar("T")
Asked = Callable[[Ask], Reply]
AskedAsync = Callable[[Ask], Awaitable[Reply]]
Watch = Callable[[Step], None]


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a course meets: tools over facts, a clock in seconds, who watches, other names for hosts."""

    registry: Registry
    context: ToolContext
    clock: Callable[[], float]
    watch: Watch = lambda step: None
    pseudonyms: Pseudonyms = field(default_factory=lambda: Pseudonyms(names={}))
    endpoint: Endpoint | None = None

    def span(self, effect: Effect) -> AbstractContextManager[Span]:
        """A span around an effect that is an operation of an endpoint's model."""
        found = named(effect, self.endpoint, model=self.endpoint.model) if self.endpoint else None
        return span(*found) if found else nullcontext(Span(None))

    def use(self, effect: UseTool) -> ToolResult:
        """Call a tool."""
        return self.registry.call(effect.name, effect.arguments, self.context)


def drive(course: Course[T], ask: Asked, around: Surroundings) -> T:
    """Run a course to its end, blocking."""
    start_s, answer = around.clock(), None
    while True:
        try:
            effect = course.send(answer) if answer else next(course)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        with around.span(effect) as open_span:
            value = _meet(effect, ask, around)
            open_span.tell(told(value))
        answer = Heard(value=value, at_s=around.clock() - start_s)


async def drive_async(course: Course[T], ask: AskedAsync, around: Surroundings) -> T:
    """Run a course to its end; tools run in a thread, so that the loop goes on serving others."""
    start_s, answer = around.clock(), None
    while True:
        try:
            effect = course.send(answer) if answer else next(course)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        with around.span(effect) as open_span:
            value = await _meet_async(effect, ask, around)
            open_span.tell(told(value))
        answer = Heard(value=value, at_s=around.clock() - start_s)


def _meet(effect: Effect, ask: Asked, around: Surroundings) -> Reply | ModelError | ToolResult | None:
    if isinstance(effect, Step):
        around.watch(effect)
        return None
    if isinstance(effect, UseTool):
        return around.use(effect)
    try:
        return around.pseudonyms.show(ask(around.pseudonyms.hide(effect)))
    except ModelError as error:
        return error


async def _meet_async(
    effect: Effect, ask: AskedAsync, around: Surroundings
) -> Reply | ModelError | ToolResult | None:
    if isinstance(effect, Step):
        around.watch(effect)
        return None
    if isinstance(effect, UseTool):
        return await asyncio.to_thread(around.use, effect)
    try:
        return around.pseudonyms.show(await ask(around.pseudonyms.hide(effect)))
    except ModelError as error:
        return error
