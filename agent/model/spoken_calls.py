"""Tool calls that a model wrote into its text instead of the field meant for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from argus.agent.model.arguments import objects_in, read_arguments

_THINK = re.compile(r"<think(?:ing)?>(.*?)(?:</think(?:ing)?>|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"<function=([\w.-]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>((?:(?!<parameter=).)*?)</parameter>", re.DOTALL)
_NAMED_FENCE = re.compile(
    r"(?<![\w.-])([\w.-]+)[ \t]*\n```(?:json)?[ \t]*\n(\{(?:(?!```).)*\})\s*\n```", re.DOTALL
)
_CALL = re.compile(r'"name"\s*:\s*"([\w.:/-]{1,64})"\s*,\s*"(?:arguments|parameters)"\s*:')
_MARKS = re.compile(
    r"</?tool_calls?>|\[/?TOOL_CALLS\]|<\|python_tag\|>|<[|｜]tool[^>]*>|<function=[\w.-]+>|</function>|```(?:json)?"
)

Spoken = tuple[str, dict[str, Any], str]
"""Name, arguments, error."""


def split_thoughts(content: str) -> tuple[str, str]:
    """Text and reasoning of models that think aloud in tags.

    >>> split_thoughts("<think>hm</think>Rank 3.")
    ('Rank 3.', 'hm')
    """
    thoughts = "\n".join(match[1].strip() for match in _THINK.finditer(content))
    text = _THINK.sub("", content)
    if not thoughts and "</think>" in text:  # the opening tag was part of the prompt
        thoughts, _, text = text.partition("</think>")
    return text.strip(), thoughts.strip()


def spoken_calls(content: str, names: AbstractSet[str]) -> tuple[list[Spoken], str]:
    """Calls of the tools `names` in the text, and the text without them.

    JSON that merely looks like a call of something else stays text.

    >>> spoken_calls('<tool_call>{"name": "stacks", "arguments": {"rank": 3}}</tool_call>', {"stacks"})
    ([('stacks', {'rank': 3}, '')], '')
    """
    if not names:
        return [], content
    calls: list[Spoken] = []
    rest = content
    for form in (_functions, _named_fences, _objects):
        for text, call in form(rest, names):
            calls.append(call)
            rest = rest.replace(text, "", 1)
    return calls, (_MARKS.sub("", rest).strip() if calls else content)


def names_a_tool(content: str, names: AbstractSet[str]) -> bool:
    """Whether the text calls one of the tools, as far as it goes: it may be cut short.

    >>> names_a_tool('{"name": "stacks", "argu', {"stacks"}), names_a_tool("The stacks say", {"stacks"})
    (True, False)
    """
    either = "|".join(map(re.escape, sorted(names)))
    return (
        bool(names)
        and re.search(rf'["=](?:{either})["> ]|^(?:{either})\s*\n```', content, re.MULTILINE) is not None
    )


def strange_call(content: str, names: AbstractSet[str]) -> str:
    """Name in the first call in the text if it is none of the tools', "" otherwise; the text may be cut short.

    >>> strange_call('{"name": "rm", "arguments": {"x', {"stacks"})
    'rm'
    """
    found = _CALL.search(content)
    return found[1] if found and found[1] not in names else ""


def _functions(content: str, names: AbstractSet[str]) -> Iterator[tuple[str, Spoken]]:
    for match in _FUNCTION.finditer(content):
        if match[1] not in names:
            continue
        parameters = _PARAMETER.findall(match[2])
        if parameters:
            yield match[0], (match[1], {key: _value(text.strip()) for key, text in parameters}, "")
        else:
            yield match[0], (match[1], *read_arguments(match[2].strip()))


def _named_fences(content: str, names: AbstractSet[str]) -> Iterator[tuple[str, Spoken]]:
    for match in _NAMED_FENCE.finditer(content):
        if match[1] in names:
            yield match[0], (match[1], *read_arguments(match[2]))


def _objects(content: str, names: AbstractSet[str]) -> Iterator[tuple[str, Spoken]]:
    for text, value in objects_in(content):
        items = value if isinstance(value, list) else [value]
        calls = [call for item in items if (call := _call_of(item, names))]
        for number, call in enumerate(calls):
            yield (text if number == 0 else ""), call


def _call_of(item: object, names: AbstractSet[str]) -> Spoken | None:
    if not isinstance(item, dict):
        return None
    inner = item.get("function")
    body = inner if isinstance(inner, dict) else item
    keys = [
        key for key in ("name", "tool", "tool_name", "function", "action") if isinstance(body.get(key), str)
    ]
    if not keys or body[keys[0]] not in names:
        return None
    for key in ("arguments", "parameters", "args", "input", "action_input"):
        if key in body:
            return body[keys[0]], *read_arguments(body[key])
    return (
        body[keys[0]],
        {key: value for key, value in body.items() if key not in (keys[0], "id", "type")},
        "",
    )


def _value(text: str) -> object:
    found = objects_in(text, limit=1)
    if found and found[0][0] == text:
        return found[0][1]
    if text in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
