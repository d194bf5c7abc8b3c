"""The conversation with the model: turns, tools, budgets, and always an end with the best there is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from argus.agent.evidence import ToolResult
from argus.agent.guard import Guard
from argus.agent.loop.course import Course, Step, UseTool
from argus.agent.loop.fitting import can_fit, fit, room_of
from argus.agent.loop.limits import Limits, Spent, is_over, reached
from argus.agent.loop.repeats import Repeats
from argus.agent.model.arguments import objects_in
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, Message, ModelError, Reply, ToolCall
from argus.agent.model.reading import counted
from argus.agent.model.spoken_calls import names_a_tool, strange_call
from argus.analytics.incident import VERDICTS

CALLS_PER_TURN = 8
"""Small models fire every tool at once with made-up arguments: what is beyond is refused, not run."""

LEAST_REQUEST_S = 1.0
"""A request is given at least so long, or is not made."""

FIRST_LOOK = "list_findings"
"""The tool shown to a model that does not come to call one: it takes no argument that must be known before."""

MAX_LENGTH_RAISES = 2

MAX_KEPT = 8_000
"""Characters of its own words that a model is shown again: what is longer would take the room of evidence."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a conversation ended: `submitted` arguments of the terminal tool, or `said` in words, or an `error`.

    `budget` is what ran out before, "" if nothing did. `leaked` = the model repeated its instructions.
    """

    submitted: Mapping[str, Any] | None = None
    said: str = ""
    error: ModelError | None = None
    budget: str = ""
    leaked: bool = False


@dataclass(kw_only=True)
class Talk:
    """A conversation under way. `terminal` is the tool that ends it, "" where an answer in words does.

    `view` is what the model was shown last, of the first `num_shown` messages.
    """

    messages: list[Message]
    tools: tuple[Mapping[str, Any], ...]
    guard: Guard
    endpoint: Endpoint
    limits: Limits = field(default_factory=Limits)
    terminal: str = ""
    last_call: str = "Your budget is used up. Answer now with what you have."
    schema: Mapping[str, Any] | None = None
    spent: Spent = field(default_factory=Spent)
    repeats: Repeats = field(default_factory=Repeats)
    num_results: int = 0
    view: tuple[Message, ...] = ()
    num_shown: int = 0
    nudged: bool = False
    max_reply_tokens: int = 0
    num_raises: int = 0
    squeeze: float = 1.0

    def __post_init__(self) -> None:
        self.max_reply_tokens = self.limits.max_reply_tokens

    def goes_on(self) -> Course[Ended]:
        """Ask, call, listen, until the model ends it or a budget does."""
        budget = ""
        while True:
            budget = budget or self._budget()
            if is_over(self.limits, self.spent):
                return Ended(budget=budget or "seconds")
            reply = yield from self._turn(is_last=bool(budget))
            if isinstance(reply, ModelError):
                if reply.kind == "context" and self.squeeze > MIN_SQUEEZE:
                    self.squeeze /= 2
                    continue
                return Ended(error=reply, budget=budget)
            if self._leaks(reply):
                return Ended(leaked=True, budget=budget)
            if self._is_raise_due(reply, budget):
                self.num_raises, self.max_reply_tokens = self.num_raises + 1, self.max_reply_tokens * 2
                continue
            if reply.calls and not budget:
                submitted = yield from self._use_tools(reply)
                if submitted is not None:
                    return Ended(submitted=submitted)
                continue
            if self._is_nudge_due(reply, budget):
                self._nudge(reply)
                continue
            if budget and self.terminal and self._last_words(reply):
                return Ended(submitted=self._last_words(reply), budget=budget)
            return Ended(said=reply.content, budget=budget)

    def _budget(self) -> str:
        return reached(self.limits, self.spent) or ("repeats" if self.repeats.is_circling else "")

    def _turn(self, *, is_last: bool) -> Course[Reply | ModelError]:
        tools = () if is_last else self.tools
        try:
            room = room_of(self.endpoint.window_tokens, reply_tokens=self.max_reply_tokens, tools=tools)
        except ModelError as error:
            return error
        messages = (
            [*self.messages, Message(role="user", content=self.last_call)] if is_last else self.messages
        )
        left_s = self.limits.max_s - self.spent.seconds
        self.view, self.num_shown = fit(messages, int(room * self.squeeze)), len(self.messages)
        ask = Ask(
            messages=self.view,
            tools=tools,
            schema=self.schema if is_last else None,
            max_tokens=self.max_reply_tokens,
            timeout_s=max(min(left_s, self.limits.max_request_s), LEAST_REQUEST_S),
        )
        yield Step(what="asking", text="asks the model" if tools else "asks the model for its answer")
        heard = yield ask
        value = heard.value
        if isinstance(value, ModelError):
            self.spent = replace(self.spent, turns=self.spent.turns + 1, seconds=heard.at_s)
            return value
        assert isinstance(value, Reply), value
        value = counted(value, ask)
        self.spent = self.spent.after(value, usd=self.endpoint.usd(value.usage), at_s=heard.at_s)
        self.repeats.hear(value.content)
        return value

    def _leaks(self, reply: Reply) -> bool:
        spoken = json.dumps([dict(call.arguments) for call in reply.calls], default=str)
        return self.guard.is_leaked(reply.content) or self.guard.is_leaked(spoken)

    def _is_raise_due(self, reply: Reply, budget: str) -> bool:
        """The same again with more room helps a call that was cut, a thought, and an answer where words are one."""
        if budget or not reply.is_cut or self.num_raises >= MAX_LENGTH_RAISES or not self._can_raise():
            return False
        if reply.calls:
            return any(call.error for call in reply.calls)
        is_prose = bool(reply.content.strip()) and not names_a_tool(reply.content, self._names)
        return self.nudged or not (self.terminal and is_prose)

    def _can_raise(self) -> bool:
        """Whether the window has room for twice as long a reply beside what must stay in view."""
        more, window_tokens = 2 * self.max_reply_tokens, self.endpoint.window_tokens
        room = room_of(window_tokens, reply_tokens=more, tools=self.tools)
        return can_fit(self.messages, int(room * self.squeeze))

    @property
    def _names(self) -> frozenset[str]:
        return frozenset(str(tool["function"]["name"]) for tool in self.tools)

    def _is_nudge_due(self, reply: Reply, budget: str) -> bool:
        if budget:
            return False
        is_mute = not reply.content.strip()
        due = not self.nudged and (is_mute or bool(self.terminal))
        return due or bool(strange_call(reply.content, self._names))

    def _nudge(self, reply: Reply) -> None:
        """A model that answers in prose where a call is wanted, or not at all, is told how to go on, once; one that calls
        in words what there is not, each time, until that is a circle."""
        strange = strange_call(reply.content, self._names)
        self.nudged = True
        self.repeats.num_stale += bool(strange)
        self.spent = replace(self.spent, num_repairs=self.spent.num_repairs + 1)
        self.messages.append(Message(role="assistant", content=reply.content[:MAX_KEPT] or "…"))
        missing = f"There is no tool {strange}. " if strange else ""
        self.messages.append(Message(role="user", content=missing + self._how_on()))

    def _how_on(self) -> str:
        """How to go on. A small model does what it read last, so before it has looked at anything that is a whole call."""
        end = (
            f"End by calling the tool {self.terminal}." if self.terminal else "Answer the question in words."
        )
        looks = [tool["function"] for tool in self.tools if tool["function"]["name"] != self.terminal]
        if self.num_results or not looks:
            return end
        look = next((one for one in looks if one["name"] == FIRST_LOOK), looks[0])
        call = {"name": look["name"], "arguments": dict.fromkeys(look["parameters"].get("properties", {}))}
        return f"{end} First look, by a call such as {json.dumps(call)}"

    def _last_words(self, reply: Reply) -> Mapping[str, Any] | None:
        """The terminal tool's arguments in a last answer that may call nothing any more."""
        for call in reply.calls:
            if call.name == self.terminal and not call.error:
                return call.arguments
        found = [value for _, value in objects_in(reply.content) if isinstance(value, dict)]
        for value in found:
            inner = value.get("arguments")
            body = inner if isinstance(inner, dict) else value
            if body.get("verdict") in VERDICTS:
                return body
        return None

    def _use_tools(self, reply: Reply) -> Course[Mapping[str, Any] | None]:
        """Run the calls of one turn; the terminal tool's arguments once they are taken."""
        self.messages.append(
            Message(
                role="assistant",
                content=reply.content[:MAX_KEPT],
                calls=reply.calls,
                reasoning=reply.reasoning[:MAX_KEPT],
            )
        )
        ended = None
        for number, call in enumerate(reply.calls):
            if why := "it is over" if ended is not None else self._too_much(call, reply.calls[:number]):
                self._refuse(call, f"not run: {why}")
                continue
            if call.error:
                self.spent = replace(self.spent, num_repairs=self.spent.num_repairs + 1)
                yield Step(what="refused", text=f"{call.name}: arguments that are no JSON")
                self._refuse(call, f"error: {call.error}; send one JSON object")
                self.repeats.num_stale += 1
                continue
            if known := self._seen(call):
                self.repeats.num_stale += 1
                self._refuse(
                    call, f"you have made this very call; its answer is evidence {known}. Use it or end."
                )
                continue
            result = yield from self._call(call)
            if call.name == self.terminal and result.status == "ok":
                ended = call.arguments
        return ended

    def _too_much(self, call: ToolCall, before: Sequence[ToolCall]) -> str:
        """Why a call is one too many of its turn or in all, "" if it is not: the first that ends the talk never is."""
        if call.name == self.terminal and all(one.name != self.terminal for one in before):
            return ""
        if self.spent.tool_calls >= self.limits.max_tool_calls:
            return f"your budget of {self.limits.max_tool_calls} tool calls is used up"
        return f"more than {CALLS_PER_TURN} calls at once" if len(before) >= CALLS_PER_TURN else ""

    def _seen(self, call: ToolCall) -> str:
        """Evidence id of the same call's answer while the model can see it, "" if it was cut or there is none."""
        known = self.repeats.known(call.name, call.arguments)
        begin = f'\n{{"evidence":"{known}"'  # as `Guard.fenced` shows it
        in_view = (*self.view, *self.messages[self.num_shown :])
        return known if call.name != self.terminal and any(begin in one.content for one in in_view) else ""

    def _call(self, call: ToolCall) -> Course[ToolResult]:
        yield Step(what="calling", text=call.name, details=dict(call.arguments))
        heard = yield UseTool(name=call.name, arguments=call.arguments, call_id=call.id)
        result = heard.value
        assert isinstance(result, ToolResult), result
        self.spent = replace(self.spent, tool_calls=self.spent.tool_calls + 1, seconds=heard.at_s)
        self.repeats.add(call.name, call.arguments, evidence_id=result.evidence_id)
        self.num_results += 1
        fenced = self.guard.fenced(result, f"result {self.num_results}")
        self.messages.append(Message(role="tool", call_id=call.id, content=fenced))
        told = {"evidence": result.evidence_id, "status": result.status, "note": result.note}
        yield Step(what="called", text=call.name, details=told)
        return result

    def _refuse(self, call: ToolCall, why: str) -> None:
        self.messages.append(Message(role="tool", call_id=call.id, content=why))


MIN_SQUEEZE = 0.3
"""A server that says the context is exceeded has a smaller window than we think: half, then a quarter, then no more."""


def open_talk(*, system: str, view: str, history: Sequence[Message] = (), **settings: Any) -> Talk:
    """A conversation that begins with instructions, what came before, and the first view."""
    first = [
        Message(role="system", content=system, is_kept=True),
        *history,
        Message(role="user", content=view, is_kept=True),
    ]
    return Talk(messages=first, **settings)
