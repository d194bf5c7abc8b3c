"""Checking an answer in words: pointers are rendered, typed numbers are compared with what the sentence cites."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from argus.agent.entities import RANKS, SHORT_UNIT, UNIT_WORD, Entities, ranks_in, texts_of
from argus.agent.evidence import EvidenceBook, ToolResult
from argus.agent.named_numbers import COUNTED, NAMED, counted_on, is_among
from argus.agent.pointers import NotCited, number_at, numbers_in
from argus.agent.wording import quantity

UNVERIFIED = "(unverified)"
UNKNOWN = "(not in topology or evidence)"
NO_LINK = "(link removed)"

_POINTER = re.compile(r"\{\s*(ev-[0-9a-f]{6,64})\s*[:#]?\s*(/[^{}\s]*)\s*\}")
_CITED = re.compile(r"(?<![\w-])ev-[0-9a-f]{6,64}(?!\w)")
_LINK = re.compile(r"(?:https?://|www\.)\S+|<[!@#][^>\s]{0,80}>?|@(?:here|channel|everyone)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_NUMERAL = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,2})?"
_UNIT = rf"(?:\s?(?:%|×|°C|x\b|{SHORT_UNIT}\b)|[ \xa0-]?{UNIT_WORD}\b|[kKMGd]\b|\s)?"
_NUMBER = re.compile(
    rf"(?<![\w./:-])([-+\u2212]?{_NUMERAL})({_UNIT})(?:[-\u2013/]({_NUMERAL})({_UNIT}))?(?![\w/]|\.\d)"
)
"""A number, or the two ends of a range or the two of a share such as 99/100, each with its unit."""
_DIGITS = re.compile(r"(?<![\w.-])(?:\d{4}-\d{2}-\d{2}|\d+(?:\.\d+){2,})(?![\w-])")
"""A day or a version."""
_ORDINAL = re.compile(r"\s*(?:[-*]\s*)?\d{1,2}[.)]\s")
_SCALES = {
    "": (1.0,),
    "%": (0.01, 1.0),
    "×": (1.0,),
    "x": (1.0,),
    "s": (1.0,),
    "ms": (1e-3,),
    "µs": (1e-6,),
    "\u03bcs": (1e-6,),
    "us": (1e-6,),
    "ns": (1e-9,),
    "min": (60.0,),
    "h": (3600.0, 1.0),
    "d": (86_400.0,),
    "k": (1e3,),
    "K": (1e3,),
    "M": (1e6,),
    "G": (1e9,),
    "millisecond": (1e-3,),
    "microsecond": (1e-6,),
    "nanosecond": (1e-9,),
    "second": (1.0,),
    "minute": (60.0,),
    "hour": (3600.0, 1.0),
    "day": (86_400.0,),
    "percent": (0.01, 1.0),
}
"""What a displayed unit is worth in the units of evidence; words in the singular."""

_PER_S = re.compile(r"/s(?:tep)?$")
_IN_WORDS = re.compile(r"^-?(?:(\w*(?:second|minute|hour|day))s?|(per) ?(cent))$")


Steps = tuple[frozenset[float], frozenset[float], frozenset[str]]
"""Numbers of steps and windows: those evidence has, those that were named to the model; and the days and versions evidence has."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """An answer as it may be shown. `cited` are the pages it stands on."""

    text: str
    cited: tuple[str, ...]
    num_pointed: int
    num_verified: int
    num_unverified: int
    unknown: tuple[str, ...]

    @property
    def stands_on_evidence(self) -> bool:
        """Something in it was cited, pointed to or verified."""
        return bool(self.cited or self.num_pointed or self.num_verified)

    @property
    def is_clean(self) -> bool:
        """Nothing had to be marked."""
        return not self.num_unverified and not self.unknown


def check_text(
    text: str,
    *,
    book: EvidenceBook,
    entities: Entities,
    seen: Iterable[ToolResult] = (),
    told: frozenset[float] = frozenset(),
) -> Checked:
    """The text with its pointers rendered and everything that cannot be verified marked.

    Steps and windows count as verified if a page cited or `seen` has them; those of `told`, which the reader or the
    first view named, are left as they are.
    """
    counts = {"pointed": 0, "verified": 0, "unverified": 0}
    plain = _LINK.sub(NO_LINK, text)
    said = _POINTER.sub(" ", plain)
    unknown = entities.unknown_in(_CITED.sub(" ", said))
    unknown += [key for key in dict.fromkeys(_CITED.findall(said)) if not _is_page(key, book, entities)]
    cited = [page for key in _CITED.findall(plain) if (page := book.get(key)) is not None]
    pages = [*seen, *cited]
    texts = [text for page in pages for text in texts_of(page.data)]
    steps = (counted_on(pages), told, frozenset(one for text in texts for one in _DIGITS.findall(text)))
    parts = []
    for sentence, gap in _sentences(plain):
        parts += [_checked(sentence, book, counts, steps), gap]
    shown = "".join(parts)
    for name in unknown:
        shown = _marked(shown, name)
    return Checked(
        text=shown.strip(),
        cited=tuple(key for key in dict.fromkeys(_CITED.findall(plain)) if book.get(key) is not None),
        num_pointed=counts["pointed"],
        num_verified=counts["verified"],
        num_unverified=counts["unverified"],
        unknown=tuple(unknown),
    )


def _marked(shown: str, name: str) -> str:
    """The text with the first mention of an unknown name marked; that of a rank may stand in a list, bold or as code."""
    if ranks := ranks_in(name):
        for match in RANKS.finditer(shown):
            if set(ranks) & set(ranks_in(match[0])):
                at = match.start() + len(match[0].rstrip())
                is_marked = shown.startswith(f" {UNKNOWN}", at)
                return shown if is_marked else f"{shown[:at]} {UNKNOWN}{shown[at:]}"
        return shown
    named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
    return named.sub(lambda match: f"{match[0]} {UNKNOWN}", shown, count=1)


def _sentences(text: str) -> list[tuple[str, str]]:
    """Each sentence with the white space after it; the number of a list's item is a part of its own."""
    found = []
    for line in text.splitlines(keepends=True):
        ordinal = _ORDINAL.match(line)
        at = ordinal.end() if ordinal else 0
        found.append(("", line[:at]))
        for match in _SENTENCE.finditer(line, at):
            found.append((line[at : match.start()], match[0]))
            at = match.end()
        found.append((line[at:], ""))
    return found


def _is_page(key: str, book: EvidenceBook, entities: Entities) -> bool:
    """Whether there is such a page, or one seen whose id begins so."""
    return book.get(key) is not None or any(word.startswith(key) for word in entities.words)


def _checked(sentence: str, book: EvidenceBook, counts: dict[str, int], steps: Steps) -> str:
    """One sentence: what it points to, then what it types."""
    pages = [page for key in _CITED.findall(sentence) if (page := book.get(key)) is not None]
    known = set().union(*(numbers_in(page.data) for page in pages)) if pages else set()
    held = [match.span() for pattern in (_POINTER, _CITED, NAMED) for match in pattern.finditer(sentence)]
    out, at = [], 0
    found = [match for one in (_POINTER, COUNTED, _DIGITS, _NUMBER) for match in one.finditer(sentence)]
    for match in sorted(found, key=lambda m: m.start()):
        if match.start() < at:
            continue
        if match.re is _POINTER:
            said = _pointed(match, book, counts)
        elif any(low <= match.start() < high for low, high in held):
            continue
        elif match.re is COUNTED:
            said = _counted(match[0], steps, counts)
        elif match.re is _DIGITS:
            said = _judged(match[0], match[0] in steps[2], counts)
        else:
            said = _typed(match, known, counts)
        out += [sentence[at : match.start()], said]
        at = match.end()
    return "".join([*out, sentence[at:]])


def _pointed(match: re.Match[str], book: EvidenceBook, counts: dict[str, int]) -> str:
    try:
        value, unit = number_at(book, match[1], match[2])
    except NotCited:
        counts["unverified"] += 1
        return f"unknown {UNVERIFIED}"
    counts["pointed"] += 1
    return quantity(value, unit)


def _counted(named: str, steps: Steps, counts: dict[str, int]) -> str:
    seen, told, _ = steps
    if is_among(named, seen):
        counts["verified"] += 1
        return named
    if is_among(named, seen | told):
        return named
    counts["unverified"] += 1
    return f"{named} {UNVERIFIED}"


def _typed(match: re.Match[str], known: set[float], counts: dict[str, int]) -> str:
    number, unit, last, last_unit = match[1], match[2].strip(), match[3], (match[4] or "").strip()
    is_known = _is_shown(number, unit or last_unit, known)
    return _judged(match[0], is_known and (last is None or _is_shown(last, last_unit, known)), counts)


def _judged(said: str, is_known: bool, counts: dict[str, int]) -> str:
    counts["verified" if is_known else "unverified"] += 1
    return said if is_known else f"{said.rstrip()} {UNVERIFIED}{' ' if said.endswith(' ') else ''}"


def _is_shown(number: str, unit: str, known: set[float]) -> bool:
    """Whether a typed number is one of the known ones at the precision shown, in the unit shown.

    >>> _is_shown("132", "ms", {0.13217}), _is_shown("133", "ms", {0.13217})
    (True, False)
    >>> _is_shown("132", "milliseconds", {0.13217}), _is_shown("132", "milliseconds", {132.0})
    (True, False)
    """
    digits = number.replace(",", "").replace("\u2212", "-")
    mantissa, _, exponent = digits.lower().partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    value, half = float(digits), 0.5 * 10.0**-decimals
    named = _IN_WORDS.sub(r"\1\2\3", unit)
    scales = _SCALES.get(_PER_S.sub("", named), (1.0,))
    return any(abs(one / scale - value) <= half * (1 + 1e-9) for one in known for scale in scales)
