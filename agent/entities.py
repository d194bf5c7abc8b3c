"""What an answer may speak of: ranks, nodes and names that the graph or the evidence knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from argus.agent.evidence import ToolResult
from argus.analytics.classes import cause_classes
from argus.topology.fleet import Fleet
from argus.topology.names import NotInTopology

MARKUP = r"[*`]{0,3}"
"""What Markdown puts around a word: models write most names bold or as code."""

UNIT = (
    r"\s?(?:%|[×x](?!\s*(?:tp|pp|dp|ep|cp|\d))(?![\w-])|(?:[mµun]?s|min|h|[kMGT]i?B|B|W|[MG]Hz)(?![\w-])|"
    r"(?:milli|micro|nano)?-?seconds?\b|minutes?\b|hours?\b|per ?cent\b)"
)
"""What makes a number a measure."""

SHORT_UNIT = r"(?:[mµ\u03bcun]?s|min|h|[kMGT]i?[Bb]|B|W|[MG]Hz)(?:/s(?:tep)?)?"
UNIT_WORD = r"(?:(?:milli|micro|nano)?second|minute|hour|day|per ?cent)s?"
"""Units beside signs such as %, and as words, that evidence has and an answer may be typed in."""

TO = "(?:\\s*(?:-|–|to|through|\\.\\.)\\s*|[\u2010-\u2015\u2212…])"
"""Between the ends of a range: a dash or a word; the long dashes only without blanks, or they begin something else."""

_NUMBER = rf"{MARKUP}\d+{MARKUP}"
_NO_MORE = rf"(?![*`\d]|\.\d|{UNIT})"
_RANGE = rf"{_NUMBER}(?:{TO}{_NUMBER}{_NO_MORE})?"
RANKS = re.compile(
    r"(?:\branks?[ \xa0:#*`]+(?:(?:number|no\.)[ \xa0]?)?|(?<![\w-])rank[-=](?=\d+(?![\w-])))"
    rf"({_RANGE}(?:\s*(?:,|and|or|, and|&)\s*{_RANGE}{_NO_MORE})*)",
    re.IGNORECASE,
)
"""A mention of ranks; group 1 are their numbers."""

_WORD = re.compile(r"[^\s,;()\[\]{}<>\"'`“”‘’…!?=+*|]+")
_QUOTED = re.compile(r"`([^`]{1,200})`")
_GENERAL = re.compile(
    r"(?:L[1-5]|[pP]\d{1,2}(?:\.\d+)?|bf16|fp(?:8|16|32|64)|int[48]|i/o|1F1B|cgroup2?|v\d+|x86|W1|H[12]00|A100|B[23]00|GB200"
    r"|and/or|n/a|[a-z]+(?:-[a-z]+)+|[A-Za-z]{2,}/[A-Za-z]{2,}|(?:s|h|ms|[kMGT]i?[Bb])/s(?:tep)?|\d+(?:st|nd|rd|th))",
    re.IGNORECASE,
)
"""Terms of the trade that look like names and are none."""

_ID = re.compile(r"(?:f|i)-[0-9a-f]{8,64}")
"""Ids of findings and incidents; all letters or not."""

_EDGE = ".,:;-–/…"


@dataclass(frozen=True, kw_only=True)
class Entities:
    """The names known; `words` are those that occur in evidence, whole and in their parts."""

    world_size: int
    fleet: Fleet | None
    words: AbstractSet[str]

    def is_node(self, node: str) -> bool:
        """Whether `kind:name` is in the graph, or the run itself is meant."""
        kind, _, name = node.partition(":")
        if not name:
            return False
        if kind == "rank":
            return name.isascii() and name.isdecimal() and len(name) < 10 and int(name) < self.world_size
        if self.fleet is not None:
            try:
                self.fleet.element(node)
            except NotInTopology:
                return node in self.words
            return True
        return node in self.words

    def ranks_of(self, node: str) -> frozenset[int]:
        """Ranks under a node; none if it is unknown."""
        kind, _, name = node.partition(":")
        if kind == "rank" and self.is_node(node):
            return frozenset({int(name)})
        if self.fleet is None:
            return frozenset()
        try:
            return frozenset(self.fleet.ranks_of(node))
        except NotInTopology:
            return frozenset()

    def unknown_in(self, text: str) -> list[str]:
        """Ranks and names in a text that neither the graph nor the evidence has."""
        unknown = [f"rank {rank}" for rank in ranks_in(text) if rank >= self.world_size]
        rest = RANKS.sub(" ", text)
        unknown += [name for name in _QUOTED.findall(rest) if not self._is_known(name)]
        unknown += [name for name in _names(rest) if not self._is_known(name)]
        return list(dict.fromkeys(unknown))

    def _is_known(self, name: str) -> bool:
        if name in self.words or name in cause_classes():
            return True
        if _ID.fullmatch(name):
            return any(word.startswith(name) for word in self.words)
        if _GENERAL.fullmatch(name):
            return True
        return self.is_node(name) or all(part in self.words for part in re.split(r"[:/]", name) if part)


def entities_of(
    *, fleet: Fleet | None, world_size: int, pages: Iterable[ToolResult], more: Iterable[str] = ()
) -> Entities:
    """What graph and evidence name. `more` are names that are known besides, such as action ids.

    A page that says that something does not exist gives no name to it: only its data counts.
    """
    words: set[str] = set(more)
    for page in pages:
        words.add(page.evidence_id)
        words.add(page.tool)
        if page.status in ("ok", "gap"):
            for text in texts_of(page.data):
                words.update(_parts(text))
    if fleet is not None:
        for host in fleet.elements_of_kind("host"):
            words.add(host.partition(":")[2])
        words.update(fleet.aliases)
    return Entities(world_size=world_size, fleet=fleet, words=words)


def texts_of(value: object) -> Iterator[str]:
    """Every text in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from texts_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_of(item)


def ids_in(text: str) -> list[str]:
    """Every id of a finding or an incident that a text names.

    >>> ids_in("finding f-deadbeefdeadbeef, [i-0123456789abcdef].")
    ['f-deadbeefdeadbeef', 'i-0123456789abcdef']
    """
    return [name for name in _names(text) if _ID.fullmatch(name)]


def ranks_in(text: str) -> list[int]:
    """Every rank a text names; long ranges by their ends.

    >>> ranks_in("Ranks 4–6 and 9 wait for rank **12**.")
    [4, 5, 6, 9, 12]
    """
    found: list[int] = []
    for low, high in spans_in(text):
        found += range(low, high + 1) if low <= high < low + 64 else (low, high)
    return found


def spans_in(text: str) -> list[tuple[int, int]]:
    """The ranges of ranks a text names, as (first, last); a single one is both.

    >>> spans_in("Ranks 0–127 and 9 wait.")
    [(0, 127), (9, 9)]
    """
    return [
        (int(first), int(last or first))
        for match in RANKS.finditer(text)
        for first, last in re.findall(
            rf"(\d{{1,9}})(?:{TO}(\d{{1,9}}))?", re.sub(r"[*`]", "", match[1]), re.IGNORECASE
        )
    ]


def without_ranks(text: str) -> str:
    """The text with its mentions of ranks taken out."""
    return RANKS.sub(" ", text)


def _names(text: str) -> Iterator[str]:
    """Words that look like the name of a thing: letters with digits, underscores, slashes, colons."""
    for word in _WORD.findall(text):
        name = word.strip(_EDGE)
        has_letter, has_digit = any(c.isalpha() for c in name), any(c.isdigit() for c in name)
        is_joined = any(mark in name for mark in ("_", "/", "::")) or re.search(r"\w:\w", name) is not None
        if _ID.fullmatch(name) or has_letter and (has_digit or is_joined) and not is_quantity(name):
            yield name


_QUANTITY = re.compile(
    r"[-+~≈<>]?(?:\d[\d.,]*(?:[eE][-+]?\d{1,2})?[a-zA-Zµ\u03bc%×]{0,2}[-\u2013])?"
    rf"\d[\d.,]*(?:[eE][-+]?\d{{1,2}}|(?:[eE][-+]?\d{{1,2}})?(?:%|x|×|°C|[kKMGd]|{SHORT_UNIT}|-?{UNIT_WORD}))"
)


def is_quantity(word: str) -> bool:
    """A number with a unit is no name.

    >>> is_quantity("12ms"), is_quantity("h-12"), is_quantity("40-millisecond")
    (True, False, True)
    """
    return _QUANTITY.fullmatch(word) is not None


def _parts(text: str) -> Iterator[str]:
    yield text
    for word in _WORD.findall(text):
        name = word.strip(_EDGE)
        yield name
        yield from (part for part in re.split(r"[:/]", name) if part)
