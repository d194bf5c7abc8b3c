"""The registry: every tool of the folder `tools/`, its schema, and the one door through which it is called."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from argus.agent import tools
from argus.agent.context import ToolContext, Unknown
from argus.agent.evidence import Answer, Json, ToolResult
from argus.agent.fit import fitted
from argus.agent.schema import ArgumentError, Field, fields_of, read_arguments, schema_of
from argus.analytics.store.documents import clean
from argus.collectors.records.text import tame
from argus.topology.names import NotInTopology

MAX_ARGS_BYTES = 1 << 16
"""Arguments that are kept with their answer: a whole diagnosis is some 10 kB."""

LOG = logging.getLogger("argus.tools")


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool: a module of the folder with a typed function `call(context, *, …) -> Answer`."""

    name: str
    description: str
    arguments: tuple[Field, ...]
    function: Callable[..., Answer]
    read_only: bool = True
    is_terminal: bool = False
    scope: str = "read"

    @property
    def parameters(self) -> Json:
        """JSON Schema of the arguments, strict-shaped."""
        return schema_of(self.arguments)

    def to_openai(self, *, strict: bool = False) -> Json:
        """The function as Chat Completions takes it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": {**function, "strict": True} if strict else function}


@dataclass(frozen=True, kw_only=True)
class Registry:
    """Tools by name."""

    tools: Mapping[str, Tool] = field(default_factory=dict)

    def schemas(self, *, strict: bool = False) -> list[Json]:
        """Every tool in the form of Chat Completions."""
        return [tool.to_openai(strict=strict) for tool in self.tools.values()]

    def call(self, name: str, args: object, context: ToolContext) -> ToolResult:
        """Call a tool and keep what it said. What is wrong with a call is its status; only the book may raise."""
        tool = self.tools.get(name)
        name, shown = tame(name, 64), _kept(args)
        answer = _no_tool(name, self.tools) if tool is None else _answered(tool, args, context)
        try:
            result = _result(name, shown, fitted(answer))
        except (ValueError, TypeError) as error:
            LOG.error("the answer of tool %s cannot be kept", name[:64], exc_info=error)
            broken = Answer(status="error", note=f"the answer of {name[:64]} cannot be kept: {error}"[:300])
            result = _result(name, shown, broken)
        context.book.add(result)
        return result


def _kept(args: object) -> Json:
    """Arguments as they can be stored; none where they are no object of JSON, or a huge one."""
    try:
        text = json.dumps(clean(args), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return {}
    kept = json.loads(text) if len(text) <= MAX_ARGS_BYTES else None
    return kept if isinstance(kept, dict) else {}


def _result(name: str, args: Mapping[str, Any], answer: Answer) -> ToolResult:
    return ToolResult(
        tool=name[:64],
        args=args,
        status=answer.status,
        data=answer.data,
        note=answer.note,
        close=answer.close,
        as_of=answer.as_of,
        cut=answer.cut,
    )


def _no_tool(name: str, known: Mapping[str, Tool]) -> Answer:
    close = tuple(get_close_matches(name[:64], known, n=3, cutoff=0.4))
    return Answer(status="error", note=f"no tool {name[:64]!r}", close=close or tuple(known))


def _answered(tool: Tool, args: object, context: ToolContext) -> Answer:
    if tool.scope not in context.scopes:
        return Answer(status="denied", note=f"{tool.name} needs the scope {tool.scope!r}")
    try:
        return tool.function(context, **read_arguments(tool.arguments, args))
    except ArgumentError as error:
        return Answer(status="error", note=str(error))
    except (NotInTopology, Unknown) as error:
        return Answer(status="no_data", note=str(error)[:600], close=error.close)
    except Exception as error:  # a tool is a plug-in: what it raises is not known
        LOG.error("tool %s failed", tool.name, exc_info=error)
        return Answer(status="error", note=f"{tool.name} failed: {type(error).__name__}"[:300])


@cache
def registry() -> Registry:
    """Every tool, found by walking the folder."""
    names = sorted(module.name for module in iter_modules(tools.__path__) if not module.name.startswith("_"))
    return Registry(tools={name: tool_of(import_module(f"{tools.__name__}.{name}")) for name in names})


def tool_of(module: ModuleType) -> Tool:
    """The tool a module holds: `call`, and READ_ONLY, TERMINAL or SCOPE where it is not like the others."""
    function = module.call
    return Tool(
        name=module.__name__.rpartition(".")[2],
        description=inspect.cleandoc(function.__doc__),
        arguments=fields_of(function),
        function=function,
        read_only=getattr(module, "READ_ONLY", True),
        is_terminal=getattr(module, "TERMINAL", False),
        scope=getattr(module, "SCOPE", "read"),
    )
