"""What a model submits, read with care: every field may be missing, foreign or of the wrong type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from argus.analytics.incident import VERDICTS
from argus.collectors.records.text import tame

MAX_ITEMS = 32
MAX_TEXT = 400
MAX_STEP = 1 << 53


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """A number as the model points to it."""

    name: str
    evidence: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Said:
    """A sentence of the model with its citations."""

    id: str
    text: str
    values: tuple[Pointer, ...]
    evidence: tuple[str, ...]
    status: str


@dataclass(frozen=True, kw_only=True)
class Named:
    """A node with a class, or an action with its target, and what it stands on."""

    node: str
    name: str
    why: str
    claim_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A model's diagnosis before anything of it is believed."""

    verdict: str
    confidence: float
    claims: tuple[Said, ...]
    root_causes: tuple[Named, ...]
    ruled_out: tuple[Named, ...]
    actions: tuple[Named, ...]
    path: tuple[tuple[str, str, tuple[str, ...]], ...]
    missing_evidence: tuple[str, ...]
    onset_step: int | None = None


def read_submission(raw: Mapping[str, Any]) -> Submission:
    """The submission in `raw`; what cannot be read is empty, an unknown verdict is INCONCLUSIVE."""
    verdict = _text(raw.get("verdict")).upper()
    return Submission(
        verdict=verdict if verdict in VERDICTS else "INCONCLUSIVE",
        confidence=_probability(raw.get("confidence")),
        claims=_unlike(_claim(item, number) for number, item in enumerate(_rows(raw.get("claims")))),
        root_causes=tuple(_named(item, "fault_class") for item in _rows(raw.get("root_causes"))),
        ruled_out=tuple(_named(item, "fault_class") for item in _rows(raw.get("ruled_out"))),
        actions=tuple(_named(item, "action", node="target") for item in _rows(raw.get("remediation"))),
        path=tuple(
            (
                _text(item.get("origin", item.get("from"))),
                _text(item.get("target", item.get("to"))),
                _ids(item),
            )
            for item in _rows(raw.get("path"))
        ),
        missing_evidence=tuple(filter(None, map(_text, _list(raw.get("missing_evidence"))))),
        onset_step=_step(raw.get("onset_step")),
    )


def _claim(item: Mapping[str, Any], number: int) -> Said:
    given = item.get("values")
    if isinstance(given, Mapping):  # {"v1": {"evidence": …}} instead of a list
        given = [{"name": name, **value} for name, value in given.items() if isinstance(value, Mapping)]
    values = tuple(
        Pointer(name=_text(v.get("name")), evidence=_text(v.get("evidence")), path=_text(v.get("path")))
        for v in _rows(given)
    )
    return Said(
        id=_text(item.get("id")) or f"m{number}",
        text=_text(item.get("text")),
        values=values,
        evidence=tuple(filter(None, map(_text, _list(item.get("evidence"))))),
        status=_text(item.get("status")),
    )


def _unlike(claims: Iterable[Said]) -> tuple[Said, ...]:
    """Claims of which no two have one id: the first keeps it, and what refers to it means that one."""
    found: dict[str, Said] = {}
    for number, claim in enumerate(claims):
        key = claim.id
        while key in found:
            key = f"{key}.{number}"
        found[key] = replace(claim, id=key)
    return tuple(found.values())


def _named(item: Mapping[str, Any], name: str, *, node: str = "node") -> Named:
    return Named(
        node=_text(item.get(node)),
        name=_text(item.get(name)),
        why=_text(item.get("why")),
        claim_ids=_ids(item),
    )


def _ids(item: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(filter(None, map(_text, _list(item.get("claim_ids")))))


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [item for item in _list(value) if isinstance(item, Mapping)]


def _list(value: object) -> list[Any]:
    return list(value[:MAX_ITEMS]) if isinstance(value, list | tuple) else []


def _text(value: object) -> str:
    return tame(value, MAX_TEXT).strip() if isinstance(value, str) else ""


def _step(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_STEP:
        return None
    return value


def _probability(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return 0.0
    return float(value)
