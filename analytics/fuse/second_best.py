"""Test 10: the second-best cause, and the one command that separates the two."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from argus.analytics.classes import cause_classes
from argus.analytics.incident import Cause, Separation
from argus.analytics.view import View

NUM_PEERS = 2
"""Healthy hosts the suspect's is measured beside."""

MAX_SUSPECTS = 4
"""Ranks and hosts a command names: one that fills the screen is not run."""


@dataclass(frozen=True, kw_only=True)
class _Pair:
    command: str
    shows: Mapping[str, str]


def with_separation(cause: Cause, view: View) -> Cause:
    """The cause with a second best and what tells the two apart; as it is where nothing resembles it."""
    near = cause_classes()[cause.fault_class].near_miss
    second = cause.second_best or next(iter(near), None)
    if second is None or second == cause.fault_class:
        return cause
    return replace(cause, second_best=second, separation=_separation(cause, second, view))


def _separation(cause: Cause, second: str, view: View) -> Separation:
    """From the list of pairs; else the second's own test, whose silence speaks for the first."""
    pair = _pairs().get(frozenset((cause.fault_class, second)))
    if pair is None:
        other = cause_classes()[second]
        known = _clause(other.definition)
        own = cause_classes()[cause.fault_class].near_miss.get(second, f"that is not so: {known}")
        return Separation(command=_filled(other.command, cause, view), first_if=own, second_if=known)
    return Separation(
        command=_filled(pair.command, cause, view),
        first_if=pair.shows[cause.fault_class],
        second_if=pair.shows[second],
    )


def _clause(sentence: str) -> str:
    """A sentence to go on with after "if"; names keep their capital."""
    first, _, rest = sentence.removesuffix(".").partition(" ")
    is_name = first == "Python"
    return f"{first if is_name else first.lower()} {rest}"


def _filled(command: str, cause: Cause, view: View) -> str:
    """The command with the names of this run; whoever runs it must be able to paste it."""
    topology = view.topology
    hosts = list(dict.fromkeys(topology.host_of(rank) for rank in cause.suspects if topology.host_of(rank)))
    known = [host for host in dict.fromkeys(topology.hosts.values()) if host]
    hosts = hosts or known[:1]  # where nobody is suspected one host is as good as another
    asked = set(hosts)
    peers = [host for host in known if host not in asked]
    words = {
        "{run}": shlex.quote(view.run),
        " {ranks}": "".join(f" --rank {rank}" for rank in cause.suspects[:MAX_SUSPECTS]),
        "{hosts}": shlex.quote(",".join(hosts[:MAX_SUSPECTS]) or "HOST"),
        "{peers}": shlex.quote(",".join(peers[:NUM_PEERS]) or "PEER"),
    }
    # At once: a name may hold what looks like another field, and its own spaces.
    return re.sub("|".join(map(re.escape, words)), lambda field: words[field[0]], command)


@cache
def _pairs() -> Mapping[frozenset[str], _Pair]:
    text = files("argus.analytics").joinpath("between.toml").read_text(encoding="utf-8")
    return {
        frozenset(row["causes"]): _Pair(
            command=row["command"], shows=dict(zip(row["causes"], row["shows"], strict=True))
        )
        for row in tomllib.loads(text)["pair"]
    }
