"""Believing a submission only as far as its evidence goes: what cites nothing is dropped, and said to be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from argus.agent.diagnosis import STATUSES, Claim, Edge, NotIt, RootCause, Value
from argus.agent.entities import Entities, is_quantity, ranks_in, without_ranks
from argus.agent.evidence import EvidenceBook, ToolResult
from argus.agent.pointers import NotCited, number_at, numbers_in
from argus.agent.submission import Named, Said, Submission
from argus.analytics.classes import cause_classes

PREFIX = "m"
"""Ids of a model's claims, so that they are none of the triage's."""

_FIELD = re.compile(r"\{(\w+)\}")
_COUNTED = re.compile(
    r"\b(?:steps?|windows?|attempts?|stages?|tp|pp|dp|cp|ep|edp|etp|layers?|micro-?batch(?:es)?)[ :#/]*(\d{1,9})",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_LINK = re.compile(r"https?:|www\.|<[!@#]|@(?:here|channel|everyone)|\]\(", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """A part of a model's answer that is not believed."""

    what: str
    text: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Advice:
    """An action of the catalogue that a model proposes."""

    action: str
    target: str
    claim_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Grounded:
    """What is left of a submission. `is_sound`: every root cause stands on a claim that was kept."""

    verdict: str
    claims: tuple[Claim, ...]
    root_causes: tuple[RootCause, ...]
    ruled_out: tuple[NotIt, ...]
    path: tuple[Edge, ...]
    advice: tuple[Advice, ...]
    missing_evidence: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    is_sound: bool

    @property
    def cited(self) -> frozenset[str]:
        """Evidence that the kept claims stand on."""
        return frozenset(key for claim in self.claims for key in claim.evidence)


def ground(submission: Submission, *, book: EvidenceBook, entities: Entities) -> Grounded:
    """Check claims first, then everything that stands on them."""
    check = _Checker(book=book, entities=entities)
    claims = tuple(filter(None, map(check.claim, submission.claims)))
    kept = {claim.id for claim in claims}
    roots = tuple(filter(None, (check.root(item, kept) for item in submission.root_causes)))
    innocent = tuple(filter(None, (check.innocent(item, kept) for item in submission.ruled_out)))
    path = tuple(filter(None, (check.edge(*item, kept) for item in submission.path)))
    missing = tuple(text for text in submission.missing_evidence if check.text("missing evidence", text))
    advice = tuple(
        Advice(action=item.name, target=item.node, claim_ids=_kept(item.claim_ids, kept))
        for item in submission.actions
    )
    has_root = bool(roots) or not submission.root_causes
    is_sound = has_root and all(root.claim_ids for root in roots)
    verdict = submission.verdict if is_sound else "INCONCLUSIVE"
    return Grounded(
        verdict=verdict,
        claims=claims,
        root_causes=roots,
        ruled_out=innocent,
        path=path,
        advice=advice,
        missing_evidence=missing,
        dropped=tuple(check.dropped),
        is_sound=is_sound,
    )


class _Checker:
    """Collects what it drops."""

    def __init__(self, *, book: EvidenceBook, entities: Entities) -> None:
        self.book, self.entities = book, entities
        self.dropped: list[Dropped] = []

    def claim(self, said: Said) -> Claim | None:
        """The claim with checked pointers and our units, or None."""
        try:
            return self._claim(said)
        except NotCited as error:
            self._drop("claim", said.text, str(error))
            return None

    def _claim(self, said: Said) -> Claim | None:
        values = {}
        for pointer in said.values:
            _, unit = number_at(self.book, pointer.evidence, pointer.path)
            values[pointer.name] = Value(evidence=pointer.evidence, path=pointer.path, unit=unit)
        lacking = set(_FIELD.findall(said.text)) - set(values)
        if lacking:
            raise NotCited(f"no value is given for {', '.join(sorted(lacking))}")
        cited = dict.fromkeys([*(value.evidence for value in values.values()), *said.evidence])
        pages = [page for page in map(self.book.get, cited) if page is not None]
        if not pages or len(pages) < len(cited):
            raise NotCited("it cites nothing" if not cited else "it cites evidence that does not exist")
        text = _FIELD.sub(" ", said.text)
        if not said.text or (reason := self._fault(text, pages)):
            raise NotCited(reason if said.text else "it says nothing")
        used = {name: value for name, value in values.items() if f"{{{name}}}" in said.text}
        return Claim(
            id=f"{PREFIX}{said.id}",
            text=said.text,
            values=used,
            status=said.status if said.status in STATUSES else "hypothesis",
            cites=tuple(cited),
        )

    def root(self, item: Named, kept: Iterable[str]) -> RootCause | None:
        """A root cause at a place that exists, of a class that exists."""
        if not self._is_place(item):
            self._drop("root cause", f"{item.node} {item.name}", self._why_no_place(item))
            return None
        return RootCause(node=item.node, fault_class=item.name, claim_ids=_kept(item.claim_ids, kept))

    def innocent(self, item: Named, kept: Iterable[str]) -> NotIt | None:
        """A ruled-out cause; its reason passes the check of any text."""
        if not self._is_place(item):
            self._drop("ruled out", f"{item.node} {item.name}", self._why_no_place(item))
            return None
        ids = _kept(item.claim_ids, kept)
        if not ids:
            self._drop("ruled out", f"{item.node} {item.name}", "it cites nothing")
            return None
        if not self.text("ruled out", item.why):
            return None
        return NotIt(node=item.node, fault_class=item.name, why=item.why, claim_ids=ids)

    def edge(self, origin: str, target: str, claim_ids: tuple[str, ...], kept: Iterable[str]) -> Edge | None:
        """A step of the path between places that exist."""
        for node in (origin, target):
            if not self.entities.is_node(node):
                self._drop("path", f"{origin} → {target}", f"{node[:60]!r} is not in topology")
                return None
        return Edge(origin=origin, target=target, claim_ids=_kept(claim_ids, kept))

    def text(self, what: str, text: str) -> bool:
        """Whether a text without citations holds no number and no unknown name."""
        reason = self._fault(text, [])
        if reason:
            self._drop(what, text, reason)
        return not reason

    def _fault(self, text: str, pages: list[ToolResult]) -> str:
        """What is wrong with a text besides its pointers, "" if nothing."""
        if _LINK.search(text):
            return "it holds a link or a mention"
        unknown = self.entities.unknown_in(text)
        if unknown:
            return f"unknown: {', '.join(unknown[:3])}"
        known = set().union(*(numbers_in(page.data) for page in pages)) if pages else set()
        named = set(ranks_in(text))
        if pages and named and not named & {int(n) for n in known if n.is_integer()}:
            return f"the evidence it cites does not speak of rank {min(named)}"
        rest = without_ranks(text)
        counted = {float(n) for n in _COUNTED.findall(rest)}
        if counted - known:
            return "it types a number instead of pointing to one"
        return _typed_number(_COUNTED.sub(" ", rest), self._is_name)

    def _is_name(self, word: str) -> bool:
        return any(c.isalpha() for c in word) and not self.entities.unknown_in(word) and not _bare(word)

    def _is_place(self, item: Named) -> bool:
        return item.name in cause_classes() and self.entities.is_node(item.node)

    def _why_no_place(self, item: Named) -> str:
        if item.name not in cause_classes():
            return f"no class {item.name[:40]!r}"
        return f"{item.node[:60]!r} is not in topology"

    def _drop(self, what: str, text: str, why: str) -> None:
        self.dropped.append(Dropped(what=what, text=text[:200], why=why[:200]))


def _kept(claim_ids: Iterable[str], kept: Iterable[str]) -> tuple[str, ...]:
    known = set(kept)
    return tuple(f"{PREFIX}{key}" for key in claim_ids if f"{PREFIX}{key}" in known)


def _typed_number(text: str, is_name: Callable[[str], bool]) -> str:
    """A reason if a number stands in the text that is no part of a name."""
    for word in text.split():
        if _DIGIT.search(word) and not is_name(word.strip(".,:;()[]\"'`")):
            return "it types a number instead of pointing to one"
    return ""


def _bare(word: str) -> bool:
    """A number with a unit is no name."""
    return is_quantity(word)
