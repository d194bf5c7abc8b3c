"""Votes over windows: which symptoms lasted, and what each suspect costs by then."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from argus.analytics.incident import Incident
from argus.analytics.lifecycle import is_recurring, is_stop
from argus.analytics.link_symptom import LinkSymptom
from argus.analytics.robust import at
from argus.analytics.symptom import RankSymptom, measure
from argus.analytics.view import View

VOTES = 2
VOTE_WINDOWS = 3
"""A cause must show in 2 of the last 3 windows before it becomes an incident."""

UNEXPLAINED_VOTES = 3
"""Lateness without any excess of own work needs all three."""

STILL = 0.5
"""An open incident lasts while at least half of its cost is still seen, detectors silent or not."""


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """Who was suspected in one window."""

    window: int
    ranks: tuple[RankSymptom, ...] = ()
    links: tuple[LinkSymptom, ...] = ()


def blame(
    ballots: Sequence[Ballot], incidents: Sequence[Incident], ranks: Sequence[RankSymptom]
) -> dict[int, float]:
    """What each rank suspected of late costs per step, by this window, the last ones or an open incident.

    What comes and goes counts in its bouts only: in a quiet window it explains nothing.
    """
    recent = [s for ballot in ballots[-VOTE_WINDOWS + 1 :] for s in ballot.ranks]
    found: dict[int, float] = {}
    for symptom in (*recent, *ranks):
        if symptom.is_vote:
            found[symptom.rank] = max(found.get(symptom.rank, 0.0), symptom.impact_s)
    for incident in incidents:
        is_link = incident.cause.fault_class == "link.slow"
        if incident.status == "open" and not is_link and not is_recurring(incident):
            for rank in incident.cause.suspects:
                found[rank] = max(found.get(rank, 0.0), incident.cause.s_per_step)
    return found


def lasting_ranks(
    ballots: Sequence[Ballot], incidents: Sequence[Incident], *, votes: int
) -> tuple[tuple[RankSymptom, ...], ...]:
    """Symptoms of each rank that has the votes in the newest window, or whose open incident still shows."""
    lasting = []
    suspects = _open_suspects(incidents)
    for symptom in ballots[-1].ranks:
        mine = [s for ballot in ballots for s in ballot.ranks if s.rank == symptom.rank]
        agreed = [s for s in mine if s.is_vote]
        if symptom.rank in suspects:
            lasting.append(mine)
        elif symptom.is_vote and len(agreed) >= votes:
            lasting.append(agreed)
        elif "wait" in symptom.signals and len(mine) >= (UNEXPLAINED_VOTES if votes > 1 else 1):
            lasting.append(mine)
    return tuple(tuple(mine) for mine in lasting)


def lasting_links(
    ballots: Sequence[Ballot], incidents: Sequence[Incident], *, votes: int
) -> tuple[tuple[LinkSymptom, ...], ...]:
    """Symptoms of each path that has the votes in the newest window, or whose incident is open."""
    lasting = []
    for link in ballots[-1].links:
        mine = [s for ballot in ballots for s in ballot.links if s.path == link.path]
        if len(mine) >= votes or any(i.status == "open" and link.path in i.cause.paths for i in incidents):
            lasting.append(mine)
    return tuple(tuple(mine) for mine in lasting)


def still_slow(
    incidents: Sequence[Incident], view: View, *, known: AbstractSet[int]
) -> tuple[RankSymptom, ...]:
    """Suspects of open incidents whom no detector names now but who still cost half of what they did."""
    window, waits, digest = view.window, view.waits, view.digest
    assert window is not None and waits is not None and digest is not None
    found = []
    for incident in incidents:
        if incident.status != "open" or is_stop(incident) or is_recurring(incident):
            continue
        if incident.cause.fault_class == "link.slow":
            continue
        for rank in incident.cause.suspects:
            row = at(digest.ranks, rank)
            if rank in known or row < 0 or not digest.own_s[row] > 0:
                continue
            symptom = measure(window, waits, digest, rank=rank, worth_s=view.worth_s)
            if symptom.own_peers_s is None:  # own work that is compared with nobody's limits nothing
                costs = symptom.impact_s
            elif symptom.sees_waits or symptom.worth_s is not None:
                costs = min(symptom.impact_s, symptom.excess_s)
            else:
                costs = symptom.excess_s
            if costs >= STILL * incident.cause.s_per_step > 0:
                found.append(symptom)
    return tuple(found)


def _open_suspects(incidents: Sequence[Incident]) -> frozenset[int]:
    """Ranks an open incident accuses, links aside: their members are not at fault; nor faults that come and go."""
    return frozenset(
        rank
        for incident in incidents
        if incident.status == "open"
        and incident.cause.fault_class != "link.slow"
        and not is_recurring(incident)
        for rank in incident.cause.suspects
    )
