"""Derived numbers: arithmetic over numbers of evidence, kept as evidence itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from argus.agent import arithmetic
from argus.agent.arithmetic import NotComputable
from argus.agent.context import ToolContext, Unknown
from argus.agent.evidence import Answer, EvidenceBook, NoSuchPlace, at_pointer
from argus.agent.rows import number
from argus.agent.schema import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Input:
    """One number of evidence."""

    name: str
    evidence: Annotated[str, "evidence id, ev-…"]
    path: Annotated[str, "JSON pointer into its data"]


def call(
    context: ToolContext,
    *,
    expression: Annotated[str, "of + - * / ( ) min max abs sum over the names; numbers only for units"],
    values: list[Input],
    unit: Annotated[Literal["s", "x", "share", "count", "GPU-h", "none"], "of the result"],
) -> Answer:
    """Compute a ratio, difference or sum from numbers in evidence; the only source of derived numbers."""
    if not values:
        raise ArgumentError("values is empty: an expression computes with numbers of evidence")
    known: dict[str, float] = {}
    for value in values:
        if value.name in known:
            raise ArgumentError(f"{value.name[:40]!r} is two values: give each a name of its own")
        known[value.name] = _number(context.book, value)
    if idle := known.keys() - arithmetic.names_in(expression):
        raise ArgumentError(f"{', '.join(sorted(idle))[:60]!r} does not occur in {expression[:60]!r}")
    try:
        result = arithmetic.compute(expression, known)
    except NotComputable as error:
        raise ArgumentError(str(error)) from None
    inputs = [
        {"name": v.name[:40], "evidence": v.evidence, "path": v.path, "value": known[v.name]} for v in values
    ]
    return Answer(
        data={
            "value": number(result),
            "unit": "" if unit == "none" else unit,
            "expression": expression,
            "inputs": inputs,
        }
    )


def _number(book: EvidenceBook, value: Input) -> float:
    page = book.get(value.evidence)
    if page is None:
        raise Unknown(f"no evidence {value.evidence[:24]!r}")
    try:
        found = at_pointer(page.data, value.path)
    except NoSuchPlace as error:
        raise Unknown(f"{value.evidence}: {error}") from None
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise Unknown(f"{value.evidence} has no number at {value.path[:60]!r}")
    return float(found)
