"""What is said before an answer in words: the triage's verdict, and where the answer does not stand on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from argus.agent.case import Case
from argus.agent.entities import Entities, ranks_in
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


def lead_of(case: Case) -> str:
    """The triage's verdict and headline in a line."""
    diagnosis = case.diagnosis
    return f"Triage, {diagnosis['verdict']}: {printable(str(diagnosis['headline']))}"


def doubt_of(text: str, case: Case, *, entities: Entities, cites: bool) -> str:
    """Where a checked answer does not stand on evidence or on the triage's suspects, "" where it does."""
    return " ".join([*([] if cites else [NO_EVIDENCE]), *_elsewhere(text, case, entities)])


def ranks_said(text: str) -> set[int]:
    """Every rank a text names, in digits or, to twenty, in words.

    >>> sorted(ranks_said("Rank zero waits for ranks 3-4, ranks one by one."))
    [0, 3, 4]
    """
    found = set(ranks_in(text))
    for match in _IN_WORDS.finditer(text):
        found |= {_WORDS.index(word.lower()) for word in re.findall(_WORD, match[1], re.IGNORECASE)}
    return found


def _elsewhere(text: str, case: Case, entities: Entities) -> Iterator[str]:
    """A sentence if ranks are named and none of them, nor their host, is what the triage suspects."""
    said = ranks_said(text)
    if case.incident is None or not said:
        return
    cause = case.incident.cause
    suspects = set(cause.suspects) | entities.ranks_of(cause.scope)
    if not suspects or said & suspects or _names_place(text, case, suspects):
        return
    yield f"It names {ranks(sorted(said))}; the triage suspects {ranks(sorted(suspects))}."


def _names_place(text: str, case: Case, suspects: set[int]) -> bool:
    """Whether the text names the cause's scope or a host of a suspect."""
    assert case.incident is not None
    names = {case.incident.cause.scope}
    if case.fleet is not None:
        names |= {case.fleet.topology.host_of(rank) for rank in suspects}
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in names)
