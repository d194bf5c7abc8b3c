"""Run a step's graph again with given durations, all steps and pipelines at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.whatif.graph import OVER_ALL, OVER_DATA, Graph, Meeting
from argus.analytics.whatif.operations import COMMUNICATION, Operations
from argus.analytics.window import Floats

BACKWARDS_S = 1e-2
"""A transfer may seem to end so much before its last start, by clocks; beyond it it is none."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """`start_s`, `end_s` (node, step, pipeline) since the step began; `step_s` (step,) = its last end."""

    start_s: Floats
    end_s: Floats

    @property
    def step_s(self) -> Floats:
        """Length of each step."""
        return np.asarray(self.end_s.max(axis=(0, 2)))


def replay(graph: Graph, operations: Operations, dur_s: Floats) -> Timeline:
    """Every operation as soon as what it waits for has ended; `dur_s` (node, step, pipeline) as `work_s` gives."""
    start, end = np.zeros(dur_s.shape), np.zeros(dur_s.shape)
    for meeting in graph.meetings:
        for node in meeting.nodes:
            needed = graph.before[node]
            if len(needed) == 1:
                start[node] = end[needed[0]]
            elif needed:
                start[node] = end[list(needed)].max(axis=0)
        if not meeting.is_communication:
            for node in meeting.nodes:
                end[node] = start[node] + dur_s[node]
            continue
        begun = _last_start(start, meeting, operations)
        for node in meeting.nodes:
            end[node] = begun + dur_s[node]
    return Timeline(start_s=start, end_s=end)


def work_s(graph: Graph, operations: Operations) -> Floats:
    """What each operation took by itself: compute its duration, communication its transfer after the last start."""
    took = operations.end_s - operations.start_s
    for meeting in graph.meetings:
        if meeting.is_communication:
            begun = _last_start(operations.start_s, meeting, operations)
            for node in meeting.nodes:
                transfer = operations.end_s[node] - begun
                took[node] = np.where(transfer <= -BACKWARDS_S, 0.0, transfer)
    return took


def ideal_s(operations: Operations, took_s: Floats) -> Floats:
    """Mean of the type for compute, median for communication, over all workers and steps."""
    ideal = np.empty_like(took_s)
    types = np.array([node.type for node in operations.nodes])
    for kind in np.unique(types):
        mine = types == kind
        middle = np.median if kind in COMMUNICATION else np.mean
        ideal[mine] = middle(took_s[mine])
    return ideal


def _last_start(start: Floats, meeting: Meeting, operations: Operations) -> Floats:
    """When the last member starts, (step, pipeline)."""
    begun: Floats = start[meeting.nodes[0]]
    for node in meeting.nodes[1:]:
        begun = np.maximum(begun, start[node])
    if meeting.scope == OVER_ALL:
        return np.asarray(np.broadcast_to(begun.max(axis=1, keepdims=True), begun.shape))
    if meeting.scope == OVER_DATA:
        begun = begun.copy()
        member = operations.data_group[:, operations.nodes[meeting.nodes[0]].stage]
        for number in np.unique(member):
            begun[:, member == number] = begun[:, member == number].max(axis=1, keepdims=True)
    return begun
