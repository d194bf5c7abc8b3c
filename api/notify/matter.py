"""A matter to tell of: an incident with what the agent found, what people said, who silenced it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, or_, select

from argus.analytics.incident import SEVERITIES, Incident
from argus.analytics.store import investigations, marks, notices
from argus.analytics.store.desk_tables import NOTICES
from argus.analytics.store.incidents import read_incident
from argus.analytics.store.investigations import Investigation
from argus.analytics.store.marks import Mark
from argus.analytics.store.notices import POSTED
from argus.analytics.store.silences import Silence
from argus.analytics.store.tables import HEARTBEATS, INCIDENTS

DEFAULT = "default"
"""The project that nobody has to name."""

MAX_HOSTS = 16
"""Hosts named of an incident; who has more is named by its scope."""

MAX_MATTERS = 500
"""Matters looked at in one turn, the latest first: beyond it is no longer news."""

MAX_TOLD = 256
"""Characters of what was told that are kept; of what is longer a digest stands for the rest."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Who tells: a project, and the address people open its pages at, "" if there is none."""

    public_url: str = ""
    project: str = DEFAULT

    def link(self, incident_id: str) -> str:
        """The page of an incident."""
        return f"{self.public_url.rstrip('/')}/#/incident/{incident_id}" if self.public_url else ""


def own_key(project: str, key: str) -> str:
    """A key that no other project has: all tell the same receivers, of runs that may have the same names.

    >>> own_key(DEFAULT, "daily:2026-01-31"), own_key("nlp", "daily:2026-01-31")
    ('daily:2026-01-31', 'nlp/daily:2026-01-31')
    """
    return key if project == DEFAULT else f"{project}/{key}"


@dataclass(frozen=True, kw_only=True)
class Matter:
    """`outcome` is the agent's final diagnosis in JSON form, None while it has given none."""

    incident: Incident
    opened_s: float
    updated_s: float
    hosts: tuple[str, ...] = ()
    outcome: Mapping[str, Any] | None = None
    outcome_id: str = ""
    marks: tuple[Mark, ...] = ()
    muted_until_s: float | None = None
    link: str = ""
    project: str = DEFAULT

    @property
    def run(self) -> str:
        """The run as people are told of it: with its project, unless that is the default one."""
        return self.incident.run if self.project == DEFAULT else f"{self.project}/{self.incident.run}"

    @property
    def topic(self) -> str:
        """The same cause at the same place of the same run: never its wording."""
        return f"incident:{self.incident.fingerprint}"

    @property
    def diagnosis(self) -> Mapping[str, Any]:
        """The best answer there is, empty if nobody has worded it yet."""
        return self.outcome or self.incident.diagnosis or {}

    @property
    def verdict(self) -> str:
        """The verdict of the best answer."""
        return str(self.diagnosis.get("verdict") or self.incident.cause.verdict)

    @property
    def told(self) -> str:
        """What of it is worth telling again when it changes: no number, no wording."""
        cause, incident = self.incident.cause, self.incident
        said = ",".join(f"{mark.what}:{mark.by}" for mark in self.marks[-3:])
        muted = "" if self.muted_until_s is None else f"{self.muted_until_s:.0f}"
        parts = (
            incident.id,
            incident.status,
            incident.severity,
            cause.verdict,
            cause.fault_class,
            self.outcome_id,
            said,
            muted,
        )
        text = "|".join(parts)
        if len(text) <= MAX_TOLD:
            return text
        return f"{text[: MAX_TOLD - 17]}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def labels(self) -> dict[str, str]:
        """By which silences and routes know it."""
        cause = self.incident.cause
        return {
            "alertname": "ArgusIncident",
            "run": self.incident.run,
            "class": cause.fault_class,
            "severity": self.incident.severity,
            "scope": cause.scope,
            "host": ",".join(self.hosts),
            "fingerprint": self.incident.fingerprint,
            **({} if self.project == DEFAULT else {"project": self.project}),
        }


def is_at_least(severity: str, floor: str) -> bool:
    """Whether a severity is as bad as `floor`.

    >>> is_at_least("critical", "warning"), is_at_least("info", "warning")
    (True, False)
    """
    return SEVERITIES.index(severity) <= SEVERITIES.index(floor)


def read_matters(
    connection: Connection, *, silences: Sequence[Silence], now_s: float, origin: Origin
) -> list[Matter]:
    """What is open or was told of, or begun to be, and not to its end; the latest of each topic, oldest first."""
    unfinished = select(NOTICES.c.incident_id).where(
        NOTICES.c.is_final.is_(False), NOTICES.c.status == POSTED, NOTICES.c.incident_id.is_not(None)
    )
    begun = sorted(notices.begun(connection))[:MAX_MATTERS]
    rows = connection.execute(
        select(INCIDENTS)
        .where(or_(INCIDENTS.c.status == "open", INCIDENTS.c.id.in_(unfinished), INCIDENTS.c.id.in_(begun)))
        .order_by(INCIDENTS.c.opened_s.desc(), INCIDENTS.c.id)
        .limit(MAX_MATTERS)
    ).all()
    latest: dict[str, Any] = {}
    for row in rows:
        latest.setdefault(row.fingerprint, row)
    return matters_of(connection, list(latest.values())[::-1], silences=silences, now_s=now_s, origin=origin)


def matters_of(
    connection: Connection, rows: Sequence[Any], *, silences: Sequence[Silence], now_s: float, origin: Origin
) -> list[Matter]:
    """Rows of the table of incidents with all that belongs to them."""
    ids = [str(row.id) for row in rows]
    done = investigations.last_done(connection, ids)
    said: dict[str, list[Mark]] = {}
    for mark in marks.marks_of(connection, ids):
        said.setdefault(mark.incident_id, []).append(mark)
    found = []
    for row in rows:
        incident = read_incident(row._mapping)
        matter = Matter(
            incident=incident,
            opened_s=row.opened_s,
            updated_s=row.updated_s,
            hosts=_hosts(connection, row.attempt_id, incident),
            marks=tuple(said.get(incident.id, ())),
            link=origin.link(incident.id),
            project=origin.project,
            **_outcome(done.get(incident.id)),
        )
        found.append(_muted(matter, silences, now_s=now_s))
    return found


def silenced(matter: Matter, silences: Sequence[Silence], *, now_s: float) -> Silence | None:
    """The silence that covers it longest; None if none does."""
    labels = {**matter.labels, "incident": matter.incident.id}
    covering = [one for one in silences if one.covers(labels, now_s=now_s)]
    return max(covering, key=lambda one: one.ends_s, default=None)


def _muted(matter: Matter, silences: Sequence[Silence], *, now_s: float) -> Matter:
    found = silenced(matter, silences, now_s=now_s)
    return matter if found is None else replace(matter, muted_until_s=found.ends_s)


def _outcome(done: Investigation | None) -> dict[str, Any]:
    if done is None or done.outcome is None:
        return {}
    return {"outcome": done.outcome, "outcome_id": done.id}


def _hosts(connection: Connection, attempt_id: int, incident: Incident) -> tuple[str, ...]:
    """Hosts of the suspects, as far as they were heard of."""
    kind, _, name = incident.cause.scope.partition(":")
    if kind == "host":
        return (name,)
    ranks = incident.cause.suspects[: 8 * MAX_HOSTS]
    rows = connection.execute(
        select(HEARTBEATS.c.host)
        .where(HEARTBEATS.c.attempt_id == attempt_id, HEARTBEATS.c.rank.in_(ranks))
        .distinct()
        .order_by(HEARTBEATS.c.host)
        .limit(MAX_HOSTS)
    )
    return tuple(str(host) for host in rows.scalars())
