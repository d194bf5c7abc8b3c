"""What a live fault's right verdict is, and whether a run's incidents are it and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

SURE = ("CONFIRMED", "LIKELY")
"""Verdicts one can act on; anything less does not name a fault."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Classes that are right, several where what was done is several things by definition; sets of suspects.

    `scopes` are the places that are right, any if it is empty.
    """

    classes: tuple[str, ...]
    suspects: tuple[tuple[int, ...], ...]
    scopes: tuple[str, ...] = ()

    def names(self, incident: Mapping[str, Any]) -> bool:
        """Whether an incident is this fault."""
        return (
            incident["class"] in self.classes
            and incident["verdict"] in SURE
            and tuple(incident["suspects"]) in self.suspects
            and (not self.scopes or incident["scope"] in self.scopes)
        )

    def is_told_by(self, incidents: Sequence[Mapping[str, Any]]) -> bool:
        """Whether it was named, and nothing else was."""
        return bool(incidents) and all(self.names(incident) for incident in incidents)


def one_rank(rank: int, *classes: str) -> Truth:
    """A fault of one rank."""
    return Truth(classes=classes, suspects=((rank,),))


def link_of(rank: int, ranks: int) -> Truth:
    """A slow link of one rank: a pair it belongs to, or all ranks, for a collective of them does not tell which."""
    pairs = (pair for pair in combinations(range(ranks), 2) if rank in pair)
    return Truth(classes=("link.slow",), suspects=(*pairs, tuple(range(ranks))))


def told(incidents: Iterable[Mapping[str, Any]]) -> str:
    """Incidents in a few words."""
    parts = [
        f"{item['class']} on {item['suspects'] or item['scope']} ({item['verdict']})" for item in incidents
    ]
    return ", ".join(parts) or "nothing"
