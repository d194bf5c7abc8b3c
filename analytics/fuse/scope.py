"""Scope: the smallest object that explains the suspects."""

from __future__ import annotations

from collections.abc import Sequence

from argus.analytics.incident import Cause
from argus.analytics.view import View

HOST_SHARE = 0.75
"""A host is the scope when this share of its ranks is suspected, and other hosts are not."""


def scope_of_ranks(view: View, ranks: Sequence[int]) -> str:
    """The rank, else the one host that holds them all."""
    if len(ranks) == 1:
        return f"rank:{ranks[0]}"
    hosts = {view.topology.host_of(rank) for rank in ranks}
    return f"host:{min(hosts)}" if len(hosts) == 1 and "" not in hosts else f"run:{view.run}"


def join_hosts(view: View, causes: list[Cause]) -> list[Cause]:
    hosts: dict[str, list[Cause]] = {}
    for cause in causes:
        hosts.setdefault(view.topology.host_of(cause.suspects[0]), []).append(cause)
    several = len(set(view.topology.hosts.values())) > 1
    joined: list[Cause] = []
    for host, mine in hosts.items():
        members = view.topology.ranks_of_host(host)
        same = len({cause.fault_class for cause in mine}) == 1
        if several and host and same and len(mine) > 1 and len(mine) >= HOST_SHARE * len(members):
            joined.append(_host_cause(mine, f"host:{host}"))
        else:
            joined.extend(mine)
    return joined


def _host_cause(mine: list[Cause], scope: str) -> Cause:
    """The costliest of the host's ranks speaks for all of them."""
    worst = max(mine, key=lambda cause: cause.s_per_step)
    suspects = tuple(sorted(rank for cause in mine for rank in cause.suspects))
    return Cause(
        **{
            **vars(worst),
            "suspects": suspects,
            "scope": scope,
            "victims": tuple(sorted({rank for c in mine for rank in c.victims} - set(suspects))),
            "findings": tuple(dict.fromkeys(name for cause in mine for name in cause.findings)),
            "onset_step": min(cause.onset_step for cause in mine),
        }
    )
