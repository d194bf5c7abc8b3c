"""What is said before an answer in words: the triage's verdict, and where the answer does not stand on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from argus.agent.case import Case
from argus.agent.entities import MARKUP, RANKS, Entities, ranks_in
from argus.agent.wording import printable, ranks

NO_EVIDENCE = "The answer below cites no evidence."

_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]
_WORD = rf"(?:{'|'.join(_WORDS)})"
_IN_WORDS = re.compile(
    rf"\branks?[ :#-]+(?:number )?({_WORD}(?:(?:,| and| or|, and| to) {_WORD})*)\b(?! (?:by|after|at|of|another|per)\b)",
    re.IGNORECASE,
)

_SAID_LAST = re.compile(
    rf"\branks? (?:is|are|was|were)(?: likely| probably| clearly)?[ :#]+{MARKUP}(\d{{1,9}}){MARKUP}(?=\s*(?:[,;\[\](]|\.(?!\d)|$))",
    re.IGNORECASE | re.MULTILINE,
)
"""The slow rank is 5. With a word or a unit behind the number it is a measure."""

_PLACED = re.compile(
    rf"{RANKS.pattern}(?:,? (?:on|of|at|in)|,| \()[ ]?(?:the )?(?:host |node )?{MARKUP}[\w.-]+", re.IGNORECASE
)
"""Ranks with the host they stand on: that accuses the ranks, not the host."""


def lead_of(case: Case) -> str:
    """The triage's verdict and headline in a line."""
    diagnosis = case.diagnosis
    return f"Triage, {diagnosis['verdict']}: {printable(str(diagnosis['headline']))}"


def doubt_of(text: str, case: Case, *, entities: Entities, cites: bool) -> str:
    """Where a checked answer does not stand on evidence or on the triage's suspects, "" where it does."""
    return " ".join([*([] if cites else [NO_EVIDENCE]), *_elsewhere(text, case, entities)])


def ranks_said(text: str) -> set[int]:
    """Every rank a text names, in digits or, to twenty, in words.

    >>> sorted(ranks_said("Rank zero waits for ranks 3-4, ranks one by one. The slow rank is **7**."))
    [0, 3, 4, 7]
    """
    found = {*ranks_in(text), *map(int, _SAID_LAST.findall(text))}
    for match in _IN_WORDS.finditer(text):
        found |= {_WORDS.index(word.lower()) for word in re.findall(_WORD, match[1], re.IGNORECASE)}
    return found


def _elsewhere(text: str, case: Case, entities: Entities) -> Iterator[str]:
    """A sentence if ranks are named and none of them, nor their host, is what the triage suspects."""
    said = ranks_said(text)
    if not said:
        return
    suspects = _suspects(case, entities)
    if said & suspects or _names_place(text, case, suspects):
        return
    yield f"It names {ranks(sorted(said))}; the triage suspects {ranks(sorted(suspects))}."


def _suspects(case: Case, entities: Entities) -> set[int]:
    """None where there is no incident, or its cause is at no place with ranks."""
    if case.incident is None:
        return set()
    cause = case.incident.cause
    return set(cause.suspects) | entities.ranks_of(cause.scope)


def _names_place(text: str, case: Case, suspects: set[int]) -> bool:
    """Whether the text names the cause's scope, or a host of a suspect other than as the place of the ranks it names."""
    if case.incident is None:
        return False
    names = {case.incident.cause.scope}
    if case.fleet is not None:
        names |= {case.fleet.topology.host_of(rank) for rank in suspects}
    rest = _PLACED.sub(" ", text)
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", rest) for name in names)
