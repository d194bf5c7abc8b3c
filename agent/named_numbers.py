"""Numbers that are names: of ranks, steps, windows and parts of the layout."""

from __future__ import annotations

import re
from collections.abc import Iterable

from argus.agent.entities import MARKUP, TO, UNIT, texts_of
from argus.agent.evidence import ToolResult
from argus.agent.pointers import USABLE, numbers_in

_ONE = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?!\d|\.\d|{UNIT})"
_MORE = rf"{_ONE}(?!\s+(?:ranks?|steps?|windows?|hosts?|GPUs?|times|of)\b)"
_LIST = rf"(?:{TO}|\s*(?:,|and|or|&)\s*)"

_MARKED = rf"{MARKUP}{_ONE}{MARKUP}"
_MARKED_MORE = rf"{MARKUP}{_MORE}{MARKUP}"

NAMED = re.compile(
    rf"\b(?:ranks?|attempts?|stages?|GPUs?|hosts?|layers?|tp|pp|dp|ep|cp)[ \xa0:#/]*{_MARKED}(?:{_LIST}{_MARKED_MORE})*"
    rf"|\branks?[ \xa0](?:number|no\.)[ \xa0]?{_MARKED}|\brank[-=]{_ONE}",
    re.IGNORECASE,
)
"""Never with a unit behind it: then it is a measure. The entity check judges ranks; the others are taken as they are."""

COUNTED = re.compile(
    rf"(?<![/.\w])(?:step|window)(?:s[ :#]*{_MARKED}(?:{_LIST}{_MARKED_MORE})*"
    rf"|[ :#]*{_MARKED}(?:(?:{TO}|\s*(?:and|or)\s*){_MARKED_MORE})*)",
    re.IGNORECASE,
)
"""Steps and windows, which must be among those known. After one in the singular a comma begins something else."""

_UNVERIFIED = re.compile(r"\s*\(unverified\)")


def is_among(named: str, known: frozenset[float]) -> bool:
    """Whether every number of a phrase is known; `1,200` is one number or two.

    >>> is_among("steps 1,200 to 7", frozenset({1200.0, 7.0})), is_among("step 8", frozenset({7.0}))
    (True, False)
    """
    parts = re.findall(r"\d+(?:,\d{3})*", named)
    return all(
        float(part.replace(",", "")) in known or all(float(one) in known for one in part.split(","))
        for part in parts
    )


def counted_in(text: str) -> frozenset[float]:
    """The steps and windows a text names, but for those marked as unverified."""
    found: set[float] = set()
    for match in COUNTED.finditer(text):
        if not _UNVERIFIED.match(text, match.end()):
            for part in re.findall(r"\d+(?:,\d{3})*", match[0]):
                found |= {float(part.replace(",", "")), *map(float, part.split(","))}
    return frozenset(found)


def counted_on(pages: Iterable[ToolResult]) -> frozenset[float]:
    """Numbers of pages that found something, those in their texts and that of their moment included."""
    found: set[float] = set()
    for page in pages:
        if page.status in USABLE:
            found |= numbers_in(page.data) | numbers_in([page.as_of.step, page.as_of.window])
            found |= set().union(*(counted_in(text) for text in texts_of(page.data)))
    return frozenset(found)
