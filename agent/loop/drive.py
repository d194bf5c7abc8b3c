"""Driving a course: the one loop between logic and the world, in a blocking and in an async form."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from argus.agent.context import ToolContext
from argus.agent.evidence import ToolResult
from argus.agent.loop.course import Course, Effect, Heard, LookAgain, Met, Step, UseTool
from argus.agent.loop.spans import Span, named, span, told
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, ModelError, Reply
from argus.agent.pseudonyms import Pseudonyms
from argus.agent.registry import Registry

T = TypeVar("T")
Asked = Callable[[Ask], Reply]
AskedAsync = Callable[[Ask], Awaitable[Reply]]
Watch = Callable[[Step], None]
Rejudge = Callable[[], Mapping[str, Any] | None]
"""The diagnosis as `fuse` gives it now, run again with all that came in since; None if there is none."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a course meets: tools over facts, a clock in seconds, who watches, other names for hosts.

    `rejudge` may take seconds and read the database, like a tool.
    """

    registry: Registry
    context: ToolContext
    clock: Callable[[], float]
    watch: Watch = lambda step: None
    pseudonyms: Pseudonyms = field(default_factory=lambda: Pseudonyms(names={}))
    endpoint: Endpoint | None = None
    rejudge: Rejudge = lambda: None

    def span(self, effect: Effect) -> AbstractContextManager[Span]:
        """A span around an effect that is an operation of an endpoint's model."""
        found = named(effect, self.endpoint, model=self.endpoint.model) if self.endpoint else None
        return span(*found) if found else nullcontext(Span(None))

    def use(self, effect: UseTool | LookAgain) -> ToolResult | Mapping[str, Any] | None:
        """Call a tool, or have the analysis look again."""
        if isinstance(effect, LookAgain):
            return self.rejudge()
        return self.registry.call(effect.name, effect.arguments, self.context)


def drive(course: Course[T], ask: Asked, around: Surroundings) -> T:
    """Run a course to its end, blocking."""
    start_s = around.clock()
    answer: Heard | None = None
    while True:
        effect = _next(course, answer)
        if isinstance(effect, Done):
            return effect.value
        with around.span(effect) as open_span:
            value = _meet(effect, ask, around)
            open_span.tell(told(value))
        answer = Heard(value=value, at_s=around.clock() - start_s)


async def drive_async(course: Course[T], ask: AskedAsync, around: Surroundings) -> T:
    """Run a course to its end; it and its tools run in threads, so that the loop goes on serving others.

    It reads the book of evidence, which may be a database.
    """
    start_s = around.clock()
    answer: Heard | None = None
    while True:
        effect = await asyncio.to_thread(_next, course, answer)
        if isinstance(effect, Done):
            return effect.value
        with around.span(effect) as open_span:
            value = await _meet_async(effect, ask, around)
            open_span.tell(told(value))
        answer = Heard(value=value, at_s=around.clock() - start_s)


@dataclass(frozen=True)
class Done(Generic[T]):
    """The end of a course: StopIteration cannot leave a thread."""

    value: T


def _next(course: Course[T], answer: Heard | None) -> Effect | Done[T]:
    try:
        return course.send(answer) if answer else next(course)
    except StopIteration as end:
        return Done(end.value)


def _meet(effect: Effect, ask: Asked, around: Surroundings) -> Met:
    if isinstance(effect, Step):
        around.watch(effect)
        return None
    if isinstance(effect, UseTool | LookAgain):
        return around.use(effect)
    try:
        return around.pseudonyms.show(ask(around.pseudonyms.hide(effect)))
    except ModelError as error:
        return error


async def _meet_async(effect: Effect, ask: AskedAsync, around: Surroundings) -> Met:
    if isinstance(effect, Step):
        around.watch(effect)
        return None
    if isinstance(effect, UseTool | LookAgain):
        return await asyncio.to_thread(around.use, effect)
    try:
        return around.pseudonyms.show(await ask(around.pseudonyms.hide(effect)))
    except ModelError as error:
        return error
