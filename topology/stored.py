"""Layout records read back from their stored JSON, lists of ranks once each.

Every member of a group repeats the group's ranks: the records of 10,000 ranks hold millions of numbers in a few
thousand lists, and reading each list once is what makes the graph of such a job quick to build.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from argus.collectors.records.layout import GroupInfo, Layout

_RANKS = re.compile(r'"ranks":\[([0-9,]*)\]')
"""Inside a JSON string the quotes would be escaped, so this is a key; only groups have one of that name.

Evenly spaced ranks are written as a span and no list, and are one tuple by themselves.
"""


def read_layouts(bodies: Iterable[str]) -> list[Layout]:
    """Records of compact JSON as the store keeps them, checked when they came in; equal lists are one tuple.

    >>> text = '{"rank":0,"world_size":2,"groups":[{"name":"a","desc":"","ranks":[0,1]}]}'
    >>> one, other = read_layouts([text, text.replace('"rank":0', '"rank":1')])
    >>> one.groups[0].ranks is other.groups[0].ranks, other.rank
    (True, 1)
    """
    known: dict[str, tuple[int, ...]] = {}
    return [_read(body, known) for body in bodies]


def _read(body: str, known: dict[str, tuple[int, ...]]) -> Layout:
    lists: list[tuple[int, ...]] = []

    def taken(found: re.Match[str]) -> str:
        text = found.group(1)
        if text not in known:
            known[text] = tuple(map(int, text.split(","))) if text else ()
        lists.append(known[text])
        return '"ranks":[]'

    short = Layout.from_json(json.loads(_RANKS.sub(taken, body)))
    if len(lists) != sum(not group.ranks for group in short.groups):
        return Layout.from_json(json.loads(body))
    left = iter(lists)
    groups = (
        group if group.ranks else GroupInfo(name=group.name, desc=group.desc, ranks=next(left))
        for group in short.groups
    )
    return Layout(**{**vars(short), "groups": tuple(groups)})
