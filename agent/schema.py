"""The JSON Schema of a typed function, in the strict shape every endpoint takes, and arguments read by it.

All properties are required, an optional one is nullable, objects are closed, and there are no free-form
maps and no bounds: what strict modes of endpoints refuse is not used.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

Json = dict[str, Any]

_NAMES: Mapping[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_KINDS: Mapping[type, str] = {str: "a string", int: "an integer", float: "a number", bool: "a boolean"}

MAX_TEXT = 4_000
"""Characters of one text argument: more is no argument but a document."""

MAX_ITEMS = 512
"""Items of one list argument."""


MAX_NUMBER = 2**53
"""From here on not every reader of JSON has the same number."""


class ArgumentError(ValueError):
    """Arguments that do not fit a tool's schema; the message says which, what came and what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One argument or member: its type, what it is for, and whether it may be null."""

    name: str
    type: Any
    doc: str
    is_nullable: bool


def fields_of(function: Callable[..., object]) -> tuple[Field, ...]:
    """The keyword-only parameters of a function as the fields of its arguments."""
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    return tuple(_field(p.name, hints[p.name]) for p in parameters if p.kind is p.KEYWORD_ONLY)


def schema_of(members: Sequence[Field]) -> Json:
    """Strict JSON Schema of an object with these members."""
    return {
        "type": "object",
        "properties": {member.name: _described(member) for member in members},
        "required": [member.name for member in members],
        "additionalProperties": False,
    }


def read_arguments(members: Sequence[Field], raw: object, *, at: str = "") -> dict[str, Any]:
    """`raw` as the keyword arguments of the function; an absent nullable one is None. Raises ArgumentError."""
    if not isinstance(raw, Mapping):
        raise ArgumentError(f"{at or 'arguments'} must be an object, got {_shown(raw)}")
    known = {member.name: member for member in members}
    for key in raw:
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {close[0]!r}" if close else f"; there are {', '.join(known) or 'none'}"
            raise ArgumentError(f"no argument {_shown(key)}{hint}")
    return {name: _member(member, raw, at=at) for name, member in known.items()}


def _member(member: Field, raw: Mapping[Any, Any], *, at: str) -> object:
    where = f"{at}.{member.name}" if at else member.name
    if member.name not in raw and not member.is_nullable:
        raise ArgumentError(f"{where} is missing: {member.doc}")
    value = raw.get(member.name)
    # Small models write the word where they mean the value.
    if member.is_nullable and (value is None or value == "null"):
        return None
    return _read(member.type, value, at=where)


def _field(name: str, hint: Any) -> Field:
    hint, doc = _undressed(hint)
    inner = hint
    is_nullable = get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)
    if is_nullable:
        (inner,) = (part for part in get_args(hint) if part is not type(None))
    return Field(name=name, type=inner, doc=doc, is_nullable=is_nullable)


def _undressed(hint: Any) -> tuple[Any, str]:
    if get_origin(hint) is Annotated:
        inner, *rest = get_args(hint)
        return inner, next((part for part in rest if isinstance(part, str)), "")
    return hint, ""


def _members(kind: Any) -> tuple[Field, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field(member.name, hints[member.name]) for member in fields(kind))


def _described(member: Field) -> Json:
    schema = _schema(member.type)
    if member.is_nullable:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return {**schema, "description": member.doc} if member.doc else schema


def _schema(kind: Any) -> Json:
    kind, _ = _undressed(kind)
    if kind in _NAMES:
        return {"type": _NAMES[kind]}
    if get_origin(kind) is Literal:
        return {"type": "string", "enum": list(get_args(kind))}
    if get_origin(kind) in (list, tuple):
        return {"type": "array", "items": _schema(get_args(kind)[0])}
    if is_dataclass(kind):
        return schema_of(_members(kind))
    raise TypeError(f"a tool's argument cannot be of type {kind!r}")


def _read(kind: Any, value: object, *, at: str) -> object:
    kind, _ = _undressed(kind)
    if get_origin(kind) is Literal:
        return _choice(get_args(kind), value, at=at)
    if get_origin(kind) in (list, tuple):
        return _items(get_args(kind)[0], value, at=at)
    if is_dataclass(kind):
        return kind(**read_arguments(_members(kind), value, at=at))  # type: ignore[operator]
    return _scalar(kind, value, at=at)


def _choice(allowed: Sequence[str], value: object, *, at: str) -> object:
    if value not in allowed:
        raise ArgumentError(f"{at} must be one of {', '.join(allowed)}, got {_shown(value)}")
    return value


def _items(kind: Any, value: object, *, at: str) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        value = [value]  # one item without its brackets
    if len(value) > MAX_ITEMS:
        raise ArgumentError(f"{at} may have {MAX_ITEMS} items, got {len(value)}")
    return tuple(_read(kind, item, at=f"{at}[{i}]") for i, item in enumerate(value))


def _scalar(kind: Any, value: object, *, at: str) -> object:
    if kind is str and isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise ArgumentError(f"{at} may have {MAX_TEXT:,} characters, got {len(value):,}")
        if not _is_storable(value):
            raise ArgumentError(f"{at} may hold no NUL and no half of a character, got {_shown(value)}")
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind in (int, float) and not isinstance(value, bool):
        number = _number(value)
        if number is not None and (kind is float or number == int(number)):
            return kind(value) if isinstance(value, int) else kind(number)
        if isinstance(value, int | float) and abs(value) >= MAX_NUMBER:
            raise ArgumentError(f"{at} must be {_KINDS[kind]} below 2^53, got {_shown(value)}")
    raise ArgumentError(f"{at} must be {_KINDS[kind]}, got {_shown(value)}")


def _is_storable(text: str) -> bool:
    """Databases take no NUL, and nothing takes half a character."""
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _number(value: object) -> float | None:
    """A finite number that every database and reader can hold, also where it came as text."""
    if not isinstance(value, int | float | str) or (isinstance(value, str) and len(value) > 32):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < MAX_NUMBER else None


def _shown(value: object) -> str:
    text = repr(value)[:60]
    return text if text.isprintable() else ascii(text)
