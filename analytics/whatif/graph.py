"""The dependency graph of one step, rebuilt from the order its operations were recorded in.

Compute of a stage runs in its recorded order. A receive follows the previous compute of its direction and
precedes its own; a send follows its compute; both ends of a transfer end together. Parameters are gathered
before the first forward of their chunk. After the last compute come gradients, clipping, which waits for
everybody, and the optimizer; where gradients of the embedding are synchronised apart, reduce-scatters overlap
the backward pass and depend on the last backward of their chunk (arXiv 2505.05713 §3.2).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from argus.analytics.whatif.operations import (
    BACKWARD,
    CLIP,
    EMBEDDING,
    FORWARD,
    GATHER,
    GC,
    LAYERNORM,
    OPTIMIZER,
    P2P,
    SCATTER,
    SEPARATE,
    Operations,
)

CLOCK_S = 5e-5
"""Timers of one worker disagree by so much about what came first."""

WITHIN, OVER_DATA, OVER_ALL = "pipeline", "data", "all"
"""Who ends together: nodes of one pipeline, the replicas of a stage, or everybody."""


class NotReplayable(ValueError):
    """The recorded operations do not make up a step that can be replayed; says what is in the way."""


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """Nodes that start when each is ready; as communication they end their transfer after the last start."""

    nodes: tuple[int, ...]
    is_communication: bool
    scope: str = WITHIN


@dataclass(frozen=True, kw_only=True)
class Graph:
    """`before` lists the nodes each node waits for; `meetings` are in an order that respects them."""

    before: tuple[tuple[int, ...], ...]
    meetings: tuple[Meeting, ...]


def graph_of(operations: Operations) -> Graph:
    """The graph of the operations. Raises NotReplayable."""
    builder = _Builder(operations)
    for stage in range(operations.num_stages):
        builder.compute(stage)
        builder.transfers(stage)
        builder.gather(stage)
        builder.ending(stage)
    meetings = builder.meetings()
    return Graph(
        before=tuple(tuple(sorted(builder.before[n])) for n in range(len(operations.nodes))),
        meetings=_ordered(meetings, builder.before),
    )


class _Builder:
    """Collects edges stage by stage; one step of one pipeline serves as the pattern of all."""

    def __init__(self, operations: Operations) -> None:
        self.nodes = operations.nodes
        self.depth = operations.num_stages
        # The typical moment of each node: medians are not upset by one disturbed step.
        middle = (0.5 * (operations.start_s + operations.end_s)).reshape(len(self.nodes), -1)
        self.pattern = int(np.argmin(np.abs(middle - np.median(middle, axis=1, keepdims=True)).sum(axis=0)))
        self.start = operations.start_s.reshape(len(self.nodes), -1)[:, self.pattern]
        self.end = operations.end_s.reshape(len(self.nodes), -1)[:, self.pattern]
        self.before: dict[int, set[int]] = defaultdict(set)
        self.live: dict[tuple[str, int], list[int]] = {}
        self.of: dict[tuple[int, str], list[int]] = defaultdict(list)
        for index, node in enumerate(self.nodes):
            self.of[node.stage, node.type].append(index)
        self.chunks = 1 + max((node.chunk for node in self.nodes), default=0)
        self.has_replicas = operations.ranks.shape[0] > 1 or any(n.type == SCATTER for n in self.nodes)

    def order(self, stage: int) -> list[int]:
        """Compute of a stage as it ran."""
        both = [*self.of[stage, FORWARD], *self.of[stage, BACKWARD]]
        return sorted(both, key=lambda n: (self.start[n], self.end[n], n))

    def chain(self, nodes: list[int]) -> None:
        """Each node waits for the one before."""
        for one, other in pairwise(nodes):
            self.before[other].add(one)

    def compute(self, stage: int) -> None:
        """Compute in its order, and the first backward transfer after the forward that precedes its own."""
        order = self.order(stage)
        if not order:
            raise NotReplayable(f"stage {stage} has no forward or backward operation")
        self.chain(order)
        first = next((i for i, n in enumerate(order) if self.nodes[n].type == BACKWARD), 0)
        if first >= 2:
            for kind in ("backward-recv", "backward-send"):
                for node in self.of[stage, kind][:1]:
                    self.before[node].add(order[first - 2])

    def transfers(self, stage: int) -> None:
        """Sends after their compute, receives before theirs; those of one type one after the other."""
        for kind in P2P:
            nodes = self.of[stage, kind]
            self.chain(nodes)
            way, end = kind.split("-")
            work = self.of[stage, f"{way}-compute"]
            forth = 1 if kind in ("forward-send", "backward-recv") else -1
            live = [i for i, n in enumerate(work) if self._goes_on(n, stage=stage, forth=forth)]
            matched = self._matched(nodes, work, live=live, is_send=end == "send")
            for node, mine in matched:
                if end == "send":
                    self.before[node].add(work[mine])
                else:
                    self.before[work[mine]].add(node)
                    self.before[node].update(work[max(mine - 1, 0) : mine])
            self.live[kind, stage] = [node for node, mine in matched if mine in live]

    def _matched(
        self, nodes: list[int], work: list[int], *, live: list[int], is_send: bool
    ) -> list[tuple[int, int]]:
        """Transfers with the number of their compute; what lies outside of all compute was never sent.

        Timers hold either the transfers that took place, or one for each compute, of which the first receive
        may be missing.
        """
        if is_send:
            begun = min((self.end[n] for n in work), default=np.inf)
            used = [n for n in nodes if self.end[n] >= begun - CLOCK_S]
        else:
            over = max((self.start[n] for n in work), default=-np.inf)
            used = [n for n in nodes if self.start[n] <= over + CLOCK_S]
        if len(used) in (0, len(live)):
            return list(zip(used, live, strict=False))
        missing = len(work) - len(used)
        if missing == 0 or (missing == 1 and not is_send):
            return [(node, place + missing) for place, node in enumerate(used)]
        first = self.nodes[used[0]]
        raise NotReplayable(f"stage {first.stage} has {len(used)} {first.type} for {len(work)} operations")

    def _goes_on(self, work: int, *, stage: int, forth: int) -> bool:
        """Whether the model continues on the other side of a compute's transfer."""
        place = max(self.nodes[work].chunk, 0) * self.depth + stage + forth
        return 0 <= place < self.chunks * self.depth

    def gather(self, stage: int) -> None:
        """Parameters of a chunk before its first forward; the last gather of a chunk decides."""
        gathers, scatters = self.of[stage, GATHER], self.of[stage, SCATTER]
        self.chain(sorted([*gathers, *scatters], key=lambda n: (self.start[n], n)))
        last = {max(self.nodes[n].chunk, 0): n for n in gathers}
        for chunk, node in last.items():
            mine = [n for n in self.of[stage, FORWARD] if max(self.nodes[n].chunk, 0) == chunk]
            if mine:
                self.before[min(mine, key=lambda n: (self.start[n], n))].add(node)

    def ending(self, stage: int) -> None:
        """From the last compute to the optimizer."""
        last = max(self.order(stage), key=lambda n: (self.end[n], n))
        scatters, separate = self.of[stage, SCATTER], self.of[stage, SEPARATE]
        head = [last, *self.of[stage, GC]]
        overlaps = bool(separate)
        synced = separate if overlaps else scatters
        tail = [*self.of[stage, LAYERNORM], *self.of[stage, EMBEDDING], *synced]
        self.chain([*head, *tail, *self.of[stage, CLIP], *self.of[stage, OPTIMIZER]])
        if not overlaps or not scatters:
            return
        after = next(iter([*tail, *self.of[stage, CLIP], *self.of[stage, OPTIMIZER]]), None)
        if after is not None:
            self.before[after].add(scatters[-1])
        first = {max(self.nodes[n].chunk, 0): n for n in reversed(scatters)}
        for chunk, node in first.items():
            mine = [n for n in self.of[stage, BACKWARD] if max(self.nodes[n].chunk, 0) == chunk]
            if mine:
                self.before[node].add(max(mine, key=lambda n: (self.end[n], n)))

    def meetings(self) -> list[Meeting]:
        """Transfers with both their ends, collectives with all their members, everything else alone."""
        found = [*self._pairs(), *self._collectives()]
        met = {node for meeting in found for node in meeting.nodes}
        for index, node in enumerate(self.nodes):
            if index not in met:
                found.append(Meeting(nodes=(index,), is_communication=node.type in P2P))
        return found

    def _pairs(self) -> list[Meeting]:
        pairs = []
        for way, forth in (("forward", 1), ("backward", -1)):
            for stage in range(self.depth):
                sent = self.live.get((f"{way}-send", stage), [])
                got = self.live.get((f"{way}-recv", (stage + forth) % self.depth), [])
                if len(sent) != len(got):
                    raise NotReplayable(
                        f"stage {stage} sends {len(sent)} {way} transfers of which {len(got)} are received"
                    )
                pairs += [Meeting(nodes=two, is_communication=True) for two in zip(sent, got, strict=True)]
        return pairs

    def _collectives(self) -> list[Meeting]:
        found = [
            Meeting(nodes=(node,), is_communication=True, scope=OVER_DATA)
            for kind in (GATHER, SCATTER, SEPARATE)
            for stage in range(self.depth)
            for node in self.of[stage, kind]
        ]
        for kind, scope in ((EMBEDDING, WITHIN), (CLIP, OVER_ALL)):
            for members in zip(
                *(self.of[s, kind] for s in range(self.depth) if self.of[s, kind]), strict=False
            ):
                found.append(Meeting(nodes=members, is_communication=True, scope=scope))
        return found


def _ordered(meetings: list[Meeting], before: dict[int, set[int]]) -> tuple[Meeting, ...]:
    """Meetings after all that their nodes wait for (Kahn). Raises NotReplayable on a circle."""
    home = {node: at for at, meeting in enumerate(meetings) for node in meeting.nodes}
    waits = [{home[b] for n in meeting.nodes for b in before[n]} for meeting in meetings]
    after: dict[int, list[int]] = defaultdict(list)
    for at, needed in enumerate(waits):
        for one in needed:
            after[one].append(at)
    left = [len(needed) for needed in waits]
    ready = [at for at, count in enumerate(left) if not count]
    done = []
    while ready:
        at = ready.pop()
        done.append(meetings[at])
        for other in after[at]:
            left[other] -= 1
            if not left[other]:
                ready.append(other)
    if len(done) < len(meetings):
        stuck = next(at for at, count in enumerate(left) if count)
        raise NotReplayable(
            f"the recorded order of operations waits for itself ({len(meetings[stuck].nodes)} nodes)"
        )
    return tuple(done)
