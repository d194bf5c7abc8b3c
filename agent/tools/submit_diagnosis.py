"""The end of an investigation: a typed diagnosis whose numbers are pointers into evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from argus.agent.context import ToolContext
from argus.agent.evidence import Answer, EvidenceBook, NoSuchPlace, at_pointer
from argus.agent.wording import counted
from argus.analytics.classes import cause_classes
from argus.collectors.records.text import tame
from argus.topology.names import close_names

TERMINAL = True

MAX_FAULTS = 20


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """One number of a claim."""

    name: Annotated[str, "as in the text, without braces"]
    evidence: Annotated[str, "evidence id, ev-…"]
    path: Annotated[str, "JSON pointer into its data"]
    unit: str


@dataclass(frozen=True, kw_only=True)
class Said:
    """One sentence."""

    id: str
    text: Annotated[str, "one sentence with {name} where a number goes; type no numbers"]
    values: list[Pointer]
    evidence: Annotated[list[str], "evidence ids it stands on"]
    status: Literal["established", "supported", "hypothesis"]


@dataclass(frozen=True, kw_only=True)
class Root:
    """Where it starts."""

    node: Annotated[str, "kind:name, such as rank:3, host:h-1, group:dp/0"]
    fault_class: str
    claim_ids: list[str]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of how it spreads."""

    origin: str
    target: str
    claim_ids: list[str]


@dataclass(frozen=True, kw_only=True)
class Innocent:
    """A tempting cause that it is not."""

    node: str
    fault_class: str
    why: str
    claim_ids: list[str]


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One action of the catalogue."""

    action: str
    target: str
    claim_ids: list[str]


def call(
    context: ToolContext,
    *,
    verdict: Literal["CONFIRMED", "LIKELY", "INCONCLUSIVE", "NO_FAULT"],
    confidence: Annotated[float, "probability, 0 to 1"],
    headline: Annotated[str, "who, where, what; at most 140 characters"],
    root_causes: list[Root],
    onset_step: int | None,
    path: Annotated[list[Step], "from the cause to its victims"],
    ruled_out: list[Innocent],
    claims: list[Said],
    remediation: list[Advice],
    missing_evidence: Annotated[list[str], "what would decide it; required when INCONCLUSIVE"],
) -> Answer:
    """Submit the diagnosis and end. Every number is a pointer into evidence; what cites nothing is dropped."""
    faults = [
        *_classes((*root_causes, *ruled_out)),
        *_pointers(context.book, claims),
        *_citations(claims, (*root_causes, *path, *ruled_out, *remediation)),
    ]
    if not 0 <= confidence <= 1:
        faults.append(f"confidence is a probability, got {confidence:g}")
    if verdict == "INCONCLUSIVE" and not missing_evidence:
        faults.append("an INCONCLUSIVE verdict says what evidence is missing")
    if verdict in ("CONFIRMED", "LIKELY") and not root_causes:
        faults.append(f"a {verdict} verdict names a root cause")
    shown = [tame(text, 200) for text in faults[:MAX_FAULTS]]
    note = f"{counted(len(faults), 'faults')}: what is concerned will be dropped" if faults else ""
    data = {"num_claims": len(claims), "num_faults": len(faults), "faults": shown, "onset_step": onset_step}
    return Answer(data={**data, "headline": tame(headline, 140)}, note=note)


def _classes(named: Sequence[Root | Innocent]) -> Iterator[str]:
    known = cause_classes()
    for one in named:
        if one.fault_class not in known:
            close = ", ".join(close_names(one.fault_class, known) or known)
            yield f"no class {one.fault_class[:40]!r}; close: {close}"


def _pointers(book: EvidenceBook, claims: Sequence[Said]) -> Iterator[str]:
    for claim in claims:
        names = {value.name for value in claim.values}
        for missing in sorted(set(re.findall(r"\{(\w+)\}", claim.text)) - names):
            yield f"claim {claim.id[:20]}: no value is given for {{{missing}}}"
        for value in claim.values:
            if (wrong := _wrong(book, value)) is not None:
                yield f"claim {claim.id[:20]}, value {value.name[:20]}: {wrong}"
        for key in claim.evidence:
            if book.get(key) is None:
                yield f"claim {claim.id[:20]}: no evidence {key[:24]!r}"


def _wrong(book: EvidenceBook, value: Pointer) -> str | None:
    page = book.get(value.evidence)
    if page is None:
        return f"no evidence {value.evidence[:24]!r}"
    try:
        found = at_pointer(page.data, value.path)
    except NoSuchPlace as error:
        return str(error)
    return None if isinstance(found, int | float) and not isinstance(found, bool) else "it is no number"


def _citations(claims: Sequence[Said], parts: Sequence[Root | Step | Innocent | Advice]) -> Iterator[str]:
    known = {claim.id for claim in claims}
    for part in parts:
        for key in part.claim_ids:
            if key not in known:
                yield f"no claim {key[:20]!r}"
