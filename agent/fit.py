"""Make an answer fit to show: its texts printable, its lists cut until it is small, with what was cut."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from argus.agent.evidence import Answer, Cut, Json
from argus.collectors.records.text import tame

MAX_RESULT_BYTES = 6_000
"""Compact JSON of one answer's data, about 1,500 tokens: eight of them beside the first view in a 16k window."""

MAX_TEXT = 600
MAX_NAME = 120
MAX_CLOSE = 12

LEAST = 1
"""Items a list keeps: what is first is what matters most."""


def fitted(answer: Answer, *, max_bytes: int = MAX_RESULT_BYTES) -> Answer:
    """The answer with its longest lists cut from the end until its data fits; `cut` tells the whole lengths.

    ValueError if it does not fit even so: a tool bounds its texts and its nesting itself.
    """
    data: Json = _tamed(json.loads(json.dumps(answer.data, allow_nan=False)))
    whole = {one.path: one.total for one in answer.cut}
    shown = {one.path: one.shown for one in answer.cut}
    while _size(data) > max_bytes:
        lists = [(path, items) for path, items in _lists(data, "") if len(items) > LEAST]
        if not lists:
            raise ValueError(f"{_size(data)} bytes that cannot be cut, at most {max_bytes} are allowed")
        path, items = max(lists, key=lambda found: _size(found[1]))
        whole.setdefault(path, len(items))
        del items[max(len(items) * 3 // 4, LEAST) :]
        shown[path] = len(items)
    there = {path for path, _ in _lists(data, "")}
    cut = tuple(Cut(path=p, shown=shown[p], total=whole[p]) for p in sorted(whole) if p in there)
    close = tuple(tame(name, MAX_NAME) for name in answer.close[:MAX_CLOSE])
    return replace(answer, data=data, cut=cut, note=tame(answer.note, MAX_TEXT), close=close)


def _tamed(value: Any) -> Any:
    """Every text short and printable, whoever wrote it: a kernel, a host, a log."""
    if isinstance(value, str):
        return tame(value, MAX_TEXT)
    if isinstance(value, list):
        return [_tamed(item) for item in value]
    return (
        {tame(key, MAX_NAME): _tamed(item) for key, item in value.items()}
        if isinstance(value, dict)
        else value
    )


def _size(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":"), allow_nan=False))


def _lists(value: Any, path: str) -> Iterator[tuple[str, list[Any]]]:
    """Every list with its pointer, outer ones first."""
    if isinstance(value, list):
        yield path, value
        for i, item in enumerate(value):
            yield from _lists(item, f"{path}/{i}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _lists(item, f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}")
