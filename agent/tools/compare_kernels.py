"""GPU kernels (or operators) of ranks beside their peers: launches, time each, time in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from argus.agent.context import ToolContext, Unknown, as_of, fleet_of, window_of
from argus.agent.coverage import with_gaps
from argus.agent.evidence import Answer, Cut, Json
from argus.agent.facts import RunFacts, WindowFact
from argus.agent.rows import DOC_RUN, DOC_WINDOW, number
from argus.agent.schema import ArgumentError
from argus.analytics.kernels.kinds import is_of_experts, kind_of, short_name
from argus.analytics.kernels.table import Kernel, KernelTable, dense
from argus.analytics.peers import expert_classes
from argus.collectors.records.text import tame
from argus.topology.fleet import Fleet
from argus.topology.names import close_names

MAX_RANKS = 4
MAX_PEERS = 8
"""Peers read for the comparison, spread over all of them: their median moves little with more."""

MAX_ROWS = 12
MAX_NAME = 80


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    window: Annotated[int | None, DOC_WINDOW],
    ranks: Annotated[list[int], "at most 4"],
    kernel: Annotated[str | None, "part of a kernel's name; null = those that cost most beyond the peers'"],
) -> Answer:
    """Kernels of ranks beside the median of their peers: launches, mean and p99 of one, seconds a step.
    One kind slow points to its library or input, all by one factor to the clock, more launches to more work."""
    facts = context.of_run(run)
    fleet, at = fleet_of(facts), window_of(context, facts, window)
    asked = tuple(fleet.topology.check_rank(rank) for rank in dict.fromkeys(ranks))
    if not 1 <= len(asked) <= MAX_RANKS:
        raise ArgumentError(f"ranks must name 1 to {MAX_RANKS} ranks, got {len(asked)}")
    beside = _beside(facts, fleet, at, asked=asked, kernel=kernel)
    rows = sorted(beside.rows(asked), key=lambda row: -abs(row["excess_s_per_step"] or 0.0))
    cut = (Cut(path="/rows", shown=MAX_ROWS, total=len(rows)),) if len(rows) > MAX_ROWS else ()
    answer = Answer(
        data={"num_peers": len(beside.peers), "rows": rows[:MAX_ROWS]}, as_of=as_of(facts, at), cut=cut
    )
    if away := sorted(set(asked) - set(beside.table.ranks.tolist())):
        answer = Answer(
            data=answer.data,
            as_of=answer.as_of,
            cut=cut,
            status="gap",
            note=f"no kernels were seen of ranks {away}",
        )
    return with_gaps(answer, at, asked=asked, world_size=fleet.topology.world_size)


def _beside(
    facts: RunFacts, fleet: Fleet, at: WindowFact, *, asked: Sequence[int], kernel: str | None
) -> _Beside:
    plain = _some([p for p in fleet.topology.peers_of(asked[0]) if p not in asked])
    everyone = np.array(fleet.topology.ranks, np.int64)
    holders = expert_classes(fleet.topology, everyone)
    experts = dict.fromkeys(asked, plain)
    if holders is not None:
        for rank in asked:
            same = everyone[holders == holders[fleet.topology.ranks.index(rank)]]
            experts[rank] = _some([p for p in same.tolist() if p not in asked])
    wanted = [*asked, *plain, *(peer for some in experts.values() for peer in some)]
    table = facts.kernels(at.index, ranks=list(dict.fromkeys(wanted)))
    if table is None or not table.kernels:
        raise Unknown(
            f"no kernel summaries of these ranks in window {at.index}: none came in, or they are not kept"
        )
    return _Beside(
        table=table, peers=plain, experts=experts, places=_named(table, kernel), num_steps=at.num_steps
    )


def _some(peers: Sequence[int]) -> tuple[int, ...]:
    """A few of them, spread over all."""
    at = np.unique(np.linspace(0, len(peers) - 1, MAX_PEERS).astype(int)) if peers else ()
    return tuple(peers[i] for i in at)


def _named(table: KernelTable, kernel: str | None) -> list[int]:
    names = [table.text(name) for name, _ in table.kernels]
    found = [i for i, name in enumerate(names) if kernel is None or kernel.lower() in name.lower()]
    if not found:
        close = close_names(str(kernel), [short_name(name) for name in names])
        raise Unknown(
            f"no kernel {str(kernel)[:60]!r} among {len(names)}",
            close=[tame(name, MAX_NAME) for name in close],
        )
    return found


@dataclass(frozen=True, kw_only=True)
class _Beside:
    """Ranks beside `peers`, in kernels of experts each beside its `experts`, who hold the same ones."""

    table: KernelTable
    peers: tuple[int, ...]
    experts: Mapping[int, tuple[int, ...]]
    places: Sequence[int]
    num_steps: int

    def rows(self, ranks: Sequence[int]) -> list[Json]:
        """Every kernel of every rank beside the peers' median."""
        wanted, known = set(self.places), self.table.ranks.tolist()
        kernels = [k for i, k in enumerate(dense(self.table, 0, last=len(self.table.kernels))) if i in wanted]
        here = [known.index(rank) for rank in ranks if rank in known]
        return [self._row(kernel, place) for kernel in kernels for place in here]

    def _row(self, kernel: Kernel, place: int) -> Json:
        name, role = (self.table.text(key) for key in kernel.key)
        count, total_s, p99_s = _sums(kernel)
        rank, known = int(self.table.ranks[place]), self.table.ranks.tolist()
        wanted = self.experts.get(rank, ()) if is_of_experts(name, role) else self.peers
        peers = [at for at in (known.index(peer) for peer in wanted if peer in known) if count[at] > 0]
        theirs = {
            "launches": _median(count[peers]),
            "total_s": _median(total_s[peers]),
            "p99_s": _median(p99_s[peers]),
        }
        steps = max(self.num_steps, 1)
        mean_s, peers_mean_s = (
            _ratio(total_s[place], count[place]),
            _ratio(theirs["total_s"], theirs["launches"]),
        )
        return {
            "rank": rank,
            "num_peers": len(peers),
            "kernel": tame(short_name(name), MAX_NAME),
            "role": tame(role, 32),
            "kind": kind_of(name, role),
            "launches_per_step": number(float(count[place]) / steps),
            "peers_launches_per_step": number(theirs["launches"] / steps),
            "mean_s": number(mean_s),
            "peers_mean_s": number(peers_mean_s),
            "ratio": number(_ratio(mean_s, peers_mean_s)),
            "p99_s": number(float(p99_s[place])),
            "peers_p99_s": number(theirs["p99_s"]),
            "excess_s_per_step": number((float(total_s[place]) - theirs["total_s"]) / steps),
        }


Reals = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _sums(kernel: Kernel) -> tuple[Reals, Reals, Reals]:
    """Launches, seconds in all and the slowest cluster's p99, each (rank,)."""
    count = kernel.count.astype(np.float64)
    # A summary in the paper's form has no mean: its median stands for it.
    log_mean = np.where(np.isfinite(kernel.log_mean), kernel.log_mean, kernel.log_p50).astype(np.float64)
    total_s = (count * np.exp(log_mean) * 1e-9).sum(axis=0)
    p99_s = np.where(count > 0, np.exp(kernel.log_p99.astype(np.float64)) * 1e-9, 0.0).max(axis=0)
    return count.sum(axis=0), total_s, p99_s


def _median(values: Reals) -> float:
    return float(np.median(values)) if values.size else float("nan")


def _ratio(a: float, b: float) -> float:
    return float(a) / float(b) if b > 0 else float("nan")
