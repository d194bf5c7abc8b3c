"""The catalogue of actions: only what is in it can be advised, whatever a model or a log says."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from argus.agent.diagnosis import RootCause
from argus.agent.entities import Entities
from argus.analytics.classes import CauseClass, cause_classes

RISKS = ("none", "low", "medium", "high")

ANY = "any"
"""A kind of target: whatever node the cause is at."""

LOOK, ACT = "look", "act"


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """One action. `classes` are those it is for, none = of no class; `targets` are node kinds; `is_read_only` = it changes nothing."""

    id: str
    title: str
    owner: str
    classes: tuple[str, ...] = ()
    command: str = ""
    risk: str = "none"
    is_read_only: bool = True
    reversible: bool = True
    targets: tuple[str, ...] = (ANY,)
    verify_by: str = ""

    def __post_init__(self) -> None:
        assert self.risk in RISKS, self


def of_class(known: CauseClass) -> tuple[Remedy, Remedy]:
    """A class' first look, which changes nothing, and what to do if it returns, which may."""
    look = Remedy(
        id=f"{known.id}/{LOOK}",
        title=known.next_step,
        owner=known.owner,
        classes=(known.id,),
        command=known.command,
        verify_by="The numbers above repeat on this suspect and not on two healthy peers.",
    )
    act = Remedy(
        id=f"{known.id}/{ACT}",
        title=known.if_it_returns,
        owner=known.owner,
        classes=(known.id,),
        risk="high" if known.takes_out else "medium",
        is_read_only=False,
        verify_by="The incident resolves: two windows without the signal.",
    )
    return look, act


@cache
def built_in() -> Mapping[str, Remedy]:
    """Every action that ships, by id."""
    own = [remedy for known in cause_classes().values() for remedy in of_class(known)]
    raw = tomllib.loads(files("argus.agent.runbooks").joinpath("actions.toml").read_text(encoding="utf-8"))
    general = [Remedy(id=key, **{**row, "targets": tuple(row["targets"])}) for key, row in raw.items()]
    return {remedy.id: remedy for remedy in (*own, *general)}


_FILLED = re.compile(r"\$(INCIDENT|RUN|RANK)\b")


def filled(command: str, known: Mapping[str, str]) -> str:
    """A command with what is known put in, each as one word of a shell; what is not known stays.

    >>> filled("argus stacks --run $RUN --rank $RANK", {"RUN": "a b"})
    "argus stacks --run 'a b' --rank $RANK"
    """
    return _FILLED.sub(lambda match: shlex.quote(known[match[1]]) if match[1] in known else match[0], command)


def is_settled(remedy: Remedy, verdict: str) -> bool:
    """Whether a verdict is firm enough for an action. What changes something needs a cause; what takes a machine out of
    the job, or is as risky by the word of a user's runbook, needs one that is confirmed: until then the look and the
    command that separates it from the second best come first.
    """
    if remedy.is_read_only:
        return True
    return verdict == "CONFIRMED" or (verdict == "LIKELY" and remedy.risk != "high")


def objection(
    remedy: Remedy | None,
    target: str,
    *,
    verdict: str,
    roots: Iterable[RootCause],
    suspected: Iterable[str],
    entities: Entities,
) -> str:
    """Why an action may not be advised for a target, "" if it may. `suspected` are classes under discussion.

    What changes something must fit the cause that stands, as firm as `is_settled` asks, and stay on the hosts it is
    at; looking is free to look
    at peers, but not for causes nobody speaks of.
    """
    if remedy is None:
        return "it is not in the catalogue"
    if not entities.is_node(target):
        return f"{target[:60]!r} is not in topology"
    kind = target.partition(":")[0]
    if ANY not in remedy.targets and kind not in remedy.targets:
        return f"it is not for a {kind}"
    roots = tuple(roots)
    if remedy.is_read_only:
        is_spoken_of = not remedy.classes or not set(remedy.classes).isdisjoint(suspected)
        return "" if is_spoken_of else "it looks for a cause that is not in question"
    if not is_settled(remedy, verdict):
        return f"it has risk {remedy.risk}, and the cause is {verdict}"
    if remedy.classes and set(remedy.classes).isdisjoint(root.fault_class for root in roots):
        return "it changes something and is not for this cause"
    if any(root.node == target for root in roots):
        return ""
    reach = (
        frozenset().union(*(_hosts_ranks(root.node, entities) for root in roots)) if roots else frozenset()
    )
    ranks = entities.ranks_of(target)
    is_near = bool(ranks) and ranks <= reach and kind in ("rank", "gpu", "nic", "host")
    return "" if is_near else "it changes something that is not at the cause"


def _hosts_ranks(node: str, entities: Entities) -> frozenset[int]:
    """Ranks on the host of a root; a root on several hosts reaches no further than itself."""
    ranks = entities.ranks_of(node)
    if entities.fleet is None:
        return ranks
    hosts = {f"host:{entities.fleet.topology.host_of(rank)}" for rank in ranks}
    return ranks | (entities.ranks_of(hosts.pop()) if len(hosts) == 1 else frozenset())
