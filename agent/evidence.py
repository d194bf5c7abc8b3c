"""Evidence: what a tool answered, kept as it was, openable by id."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

Json = dict[str, Any]
Status = Literal["ok", "no_data", "gap", "denied", "error"]
STATUSES: tuple[Status, ...] = ("ok", "no_data", "gap", "denied", "error")


@dataclass(frozen=True, kw_only=True)
class AsOf:
    """The moment an answer speaks of; None where it does not apply. `time_s` is Unix time."""

    run: str | None = None
    attempt: int | None = None
    window: int | None = None
    step: int | None = None
    time_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A list that was cut: `path` is a JSON pointer into the data."""

    path: str
    shown: int
    total: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a tool says.

    `no_data`: there is nothing to say, `note` has the reason and `close` the names that resemble what was
    asked. `gap`: something was not observed, so `data` is part of the answer or none of it.
    """

    data: Json = field(default_factory=dict)
    status: Status = "ok"
    note: str = ""
    close: tuple[str, ...] = ()
    as_of: AsOf = AsOf()
    cut: tuple[Cut, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """One call and its answer, immutable; pointers lead into `data`."""

    tool: str
    args: Mapping[str, Any]
    status: Status
    data: Json
    note: str = ""
    close: tuple[str, ...] = ()
    as_of: AsOf = AsOf()
    cut: tuple[Cut, ...] = ()

    @property
    def evidence_id(self) -> str:
        """Made of the content: the same answer to the same call has the same id."""
        text = json.dumps(self._content(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return "ev-" + hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> Json:
        """The form stored, sent and shown to models."""
        return {"evidence_id": self.evidence_id, **self._content()}

    def _content(self) -> Json:
        return {
            "tool": self.tool,
            "args": dict(self.args),
            "status": self.status,
            "note": self.note,
            "close": list(self.close),
            "as_of": asdict(self.as_of),
            "cut": [asdict(one) for one in self.cut],
            "data": self.data,
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> ToolResult:
        """Inverse of `to_json`."""
        return ToolResult(
            tool=raw["tool"],
            args=raw["args"],
            status=raw["status"],
            data=raw["data"],
            note=raw["note"],
            close=tuple(raw["close"]),
            as_of=AsOf(**raw["as_of"]),
            cut=tuple(Cut(**one) for one in raw["cut"]),
        )


class Pages(Protocol):
    """Where results are opened."""

    def get(self, evidence_id: str) -> ToolResult | None:
        """A result by id, None if there is none."""


class EvidenceBook(Pages, Protocol):
    """Where results are kept."""

    def add(self, result: ToolResult) -> None:
        """Keep a result; one that is there already stays as it is."""


class MemoryBook:
    """Evidence of one conversation, in memory."""

    def __init__(self) -> None:
        self._pages: dict[str, ToolResult] = {}

    def add(self, result: ToolResult) -> None:
        """Keep a result; one that is there already stays as it is."""
        self._pages.setdefault(result.evidence_id, result)

    def get(self, evidence_id: str) -> ToolResult | None:
        """A result by id, None if there is none."""
        return self._pages.get(evidence_id)

    def __iter__(self) -> Any:
        return iter(tuple(self._pages.values()))


class NoSuchPlace(LookupError):
    """A JSON pointer that leads nowhere; the message says from where on and what there is."""


def at_pointer(document: object, pointer: str) -> object:
    """What a JSON pointer (RFC 6901) leads to. Raises NoSuchPlace.

    >>> at_pointer({"ranks": [{"ratio": 2.0}]}, "/ranks/0/ratio")
    2.0
    """
    if pointer and not pointer.startswith("/"):
        raise NoSuchPlace(f"a pointer begins with '/', got {pointer[:60]!r}")
    here = document
    for number, part in enumerate(pointer.split("/")[1:], start=1):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and key in here:
            here = here[key]
        elif isinstance(here, Sequence) and not isinstance(here, str) and _is_index(key, len(here)):
            here = here[int(key)]
        else:
            raise NoSuchPlace(f"nothing at {'/'.join(pointer.split('/')[: number + 1])!r}; {_there(here)}")
    return here


def _is_index(key: str, length: int) -> bool:
    return key.isascii() and key.isdecimal() and len(key) < 10 and int(key) < length


def _there(here: object) -> str:
    if isinstance(here, Mapping):
        return f"there are {', '.join(list(map(str, here))[:12]) or 'no members'}"
    if isinstance(here, Sequence) and not isinstance(here, str):
        return f"the list has {len(here)} items"
    return "it has no members"
