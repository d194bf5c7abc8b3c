"""What is said before an answer in words: the triage's verdict, and where the answer does not stand on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from argus.agent.case import Case
from argus.agent.entities import MARKUP, RANKS, UNIT, Entities, spans_in
from argus.agent.grounding_text import UNVERIFIED
from argus.agent.wording import printable, ranks
from argus.topology.layout import Topology

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

_BRACKETED = re.compile(
    r"(?<!low-)(?<!low )(?<!lora )\b(ranks?) ?[(\[\"'“‘]{1,2}"
    r"(\d{1,9}(?: ?(?:,|-|–|and|or) ?\d{1,9})*)[)\]\"'”’]{1,2}",
    re.IGNORECASE,
)
"""Rank (5), ranks [4, 5]. With anything else in the brackets it is something else."""

_FROM = re.compile(r"(\branks) (?:from|between) (?=\d)", re.IGNORECASE)

_ORDINALS = [
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
]
_NTH = re.compile(
    rf"\bthe ((?:{'|'.join(_ORDINALS)})|([3-9]|[1-9]\d{{1,3}})(?:st|nd|rd|th)) rank\b"
    r"(?! (?:of|to|in|from|on|that|which|who|behind|after|before)\b)",
    re.IGNORECASE,
)
"""The fifth rank: rank 4 to who counts from zero, rank 5 to others. With a place or a purpose behind it, it counts those."""

_GPU = re.compile(
    rf"(?<![\w-])GPU[ \xa0#:]{{1,2}}{MARKUP}(\d{{1,3}}){MARKUP}(?![\w*`]|\.\d|{UNIT}|\s(?:GPUs?|ranks?|hosts?|times)\b)",
    re.IGNORECASE,
)
"""GPU 5: rank 5, or the sixth of its host, or what its host calls so."""

MAX_UNSURE = 4
"""Of these that a sentence repeats."""

MAX_SPAN = 1 << 16
"""Ranks of one range that are counted up; of a longer one its ends stand for it."""

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
    plain = text.replace(f" {UNVERIFIED}", "")
    return " ".join([*([] if cites else [NO_EVIDENCE]), *_elsewhere(plain, case, entities)])


def ranks_said(text: str) -> set[int]:
    """Every rank a text names, in digits or, to twenty, in words.

    >>> sorted(ranks_said("Rank zero waits for ranks 3-4, ranks one by one. The slow rank is **7**; rank (9) waits."))
    [0, 3, 4, 7, 9]
    """
    found = set(map(int, _SAID_LAST.findall(text)))
    for low, high in _joined(spans_in(_FROM.sub(r"\1 ", _BRACKETED.sub(_opened, text)))):
        found |= set(range(low, high + 1)) if high < low + MAX_SPAN else {low, high}
    for match in _IN_WORDS.finditer(text):
        found |= {_WORDS.index(word.lower()) for word in re.findall(_WORD, match[1], re.IGNORECASE)}
    return found


def _opened(match: re.Match[str]) -> str:
    """Ranks without their brackets; one number behind several ranks says how many they are."""
    return match[0] if match[1].endswith("s") and match[2].isdecimal() else f"{match[1]} {match[2]}"


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans without overlaps, so that what is named again and again is counted up once."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted((min(span), max(span)) for span in spans):
        if joined and low <= joined[-1][1] + 1:
            low, high = joined[-1][0], max(high, joined.pop()[1])
        joined.append((low, high))
    return joined


def _elsewhere(text: str, case: Case, entities: Entities) -> Iterator[str]:
    """A sentence if ranks are named and none of them, nor their host, is what the triage suspects."""
    said = ranks_said(text)
    unsure = dict(_unsure(text, case))
    if not said and not unsure:
        return
    suspects = _suspects(case, entities)
    if said & suspects or _names_place(text, case, suspects):
        return
    if any(meant & suspects for meant in unsure.values()):
        return
    named = ([ranks(sorted(said))] if said else []) + list(unsure)[:MAX_UNSURE]
    yield f"It names {' and '.join(named)}; the triage suspects {ranks(sorted(suspects))}."


def _unsure(text: str, case: Case) -> Iterator[tuple[str, frozenset[int]]]:
    """Names of ranks that may be read in several ways, each with all the ranks it may mean."""
    for match in _NTH.finditer(text):
        word = match[1].lower()
        number = int(match[2]) if match[2] else _ORDINALS.index(word) + 3
        yield f"the {word} rank", frozenset({number - 1, number})
    if case.fleet is None:
        return
    topology = case.fleet.topology
    for match in _GPU.finditer(text):
        number = int(match[1])
        yield f"GPU {number}", frozenset({number, *_of_index(topology, number)})


def _of_index(topology: Topology, number: int) -> Iterator[int]:
    """The ranks whose host may call their GPU by this number."""
    places: Counter[str] = Counter()
    for rank in topology.ranks:
        host = topology.host_of(rank)
        if places[host] in (number - 1, number) or topology.devices.get(rank, "") == str(number):
            yield rank
        places[host] += 1


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
