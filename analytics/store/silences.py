"""Silences: which incidents nobody wants to hear of for a while, made here or taken from Alertmanager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from argus.analytics.store.desk_tables import SILENCES
from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import insert_new
from argus.analytics.store.patterns import pattern

ARGUS, ALERTMANAGER = "argus", "alertmanager"


@dataclass(frozen=True, kw_only=True)
class Matcher:
    """One condition on a label, as Alertmanager has it: a label that is not there is empty."""

    name: str
    value: str
    is_regex: bool = False
    is_equal: bool = True

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it. A pattern that cannot be told to fit or not to fit is met by nothing.

        >>> Matcher(name="run", value="llama-.*", is_regex=True).fits({"run": "llama-70b"})
        True
        """
        have = labels.get(self.name, "")
        if not self.is_regex:
            return (have == self.value) == self.is_equal
        known = pattern(self.value)
        return known is not None and known.fits(have) == self.is_equal


@dataclass(frozen=True, kw_only=True)
class Silence:
    """All `matchers` must fit; times in Unix seconds."""

    id: str
    source: str
    matchers: tuple[Matcher, ...]
    starts_s: float
    ends_s: float
    by: str = ""
    why: str = ""

    def covers(self, labels: Mapping[str, str], *, now_s: float) -> bool:
        """Whether something with these labels is silenced now."""
        is_now = self.starts_s <= now_s < self.ends_s
        return is_now and bool(self.matchers) and all(matcher.fits(labels) for matcher in self.matchers)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "matchers": [asdict(one) for one in self.matchers]}


def add_silence(connection: Connection, silence: Silence) -> None:
    """Keep a new silence."""
    connection.execute(insert(SILENCES), [_row(silence)])


def end_silence(connection: Connection, silence_id: str, *, now_s: float) -> bool:
    """End a silence of ours now; False if none of that id lasts."""
    here = (SILENCES.c.id == silence_id, SILENCES.c.source == ARGUS, SILENCES.c.ends_s > now_s)
    return bool(connection.execute(update(SILENCES).where(*here).values(ends_s=now_s)).rowcount)


def silence(connection: Connection, silence_id: str) -> Silence | None:
    """One by id; None if there is none."""
    row = connection.execute(select(SILENCES).where(SILENCES.c.id == silence_id)).one_or_none()
    return None if row is None else _silence(row._mapping)


def lasting_silences(connection: Connection, *, now_s: float) -> tuple[Silence, ...]:
    """Those that have not ended, the first to end first."""
    rows = connection.execute(
        select(SILENCES).where(SILENCES.c.ends_s > now_s).order_by(SILENCES.c.ends_s, SILENCES.c.id)
    )
    return tuple(_silence(row._mapping) for row in rows)


def replace_foreign(connection: Connection, silences: Sequence[Silence]) -> None:
    """Put what Alertmanager has now in place of what it had; another service may do the same at this moment."""
    connection.execute(delete(SILENCES).where(SILENCES.c.source == ALERTMANAGER))
    if silences:
        connection.execute(insert_new(connection, SILENCES), [_row(one) for one in silences])


def forget_silences(connection: Connection, *, before_s: float) -> None:
    """Drop those that ended before `before_s`."""
    connection.execute(delete(SILENCES).where(SILENCES.c.ends_s < before_s))


def _row(one: Silence) -> dict[str, Any]:
    row = asdict(one)
    return {**row, "matchers": dump({"matchers": row["matchers"]})}


def _silence(row: RowMapping) -> Silence:
    matchers = tuple(Matcher(**item) for item in load(row["matchers"])["matchers"])
    names = ("id", "source", "starts_s", "ends_s", "by", "why")
    return Silence(**{name: row[name] for name in names}, matchers=matchers)
