"""How long a step would be if ranks were as fast as their peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from argus.agent.context import ToolContext, as_of, fleet_of, window_of
from argus.agent.evidence import Answer, Json
from argus.agent.facts import RunFacts, WindowFact
from argus.agent.rows import DOC_RUN, number
from argus.agent.schema import ArgumentError
from argus.analytics.call_replay import MAX_RANKS, step_gain
from argus.analytics.inefficiency import CALL_REPLAY
from argus.analytics.waits import waits_of
from argus.analytics.whatif.shares import MAX_ERROR, Replayer
from argus.topology.fleet import Fleet


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    ranks: Annotated[list[int], "made as fast as their peers"],
) -> Answer:
    """Seconds a step would gain if ranks were healthy: by replay of the pipeline where its operations are
    recorded, else of the latest window's calls, else from what the detectors measured. `method` says which; it is an estimate.
    """
    facts = context.of_run(run)
    fleet = fleet_of(facts)
    asked = tuple(fleet.topology.check_rank(rank) for rank in dict.fromkeys(ranks))
    if not asked:
        raise ArgumentError("ranks is empty: name the ranks to be healthy")
    replayer = facts.replayer()
    at = window_of(context, facts, None)
    if replayer is not None:
        return Answer(data=_replayed(replayer, fleet, asked), as_of=as_of(facts, at))
    data = _by_calls(facts, at, fleet, asked) or _measured(facts, at, fleet, asked)
    if data is None:
        note = (
            f"no operations of a pipeline are recorded, no calls of at most {MAX_RANKS} ranks could be replayed as "
            "they were, and no detector measured a loss by these ranks alone"
        )
        return Answer(status="no_data", note=note, as_of=as_of(facts, at))
    return Answer(data=data, as_of=as_of(facts, at))


def _by_calls(facts: RunFacts, at: WindowFact, fleet: Fleet, ranks: Sequence[int]) -> Json | None:
    """By replay of a window's calls; None where these are not there, too many, or do not play as they were."""
    everyone = fleet.topology.ranks
    window = facts.group_window(at.index, ranks=everyone) if len(everyone) <= MAX_RANKS else None
    if window is None or window.coverage.missing_ranks or not np.isfinite(window.step_s).any():
        return None  # without a member's calls its groups' are no part of the replay
    found = step_gain(window, waits_of(window), ranks)
    if found is None or found.error > MAX_ERROR:
        return None
    step_s = float(np.nanmedian(window.step_s))
    gain = _gain(CALL_REPLAY, step_s, max(step_s - found.gain_s, 0.0), fleet)
    return {**gain, "replay_error_median": number(found.error)}


def _replayed(replayer: Replayer, fleet: Fleet, ranks: Sequence[int]) -> Json:
    sim_s, healthy_s = float(replayer.recorded.step_s.mean()), float(replayer.healthy(ranks).mean())
    error = np.median(np.abs(replayer.recorded.step_s / replayer.operations.recorded_s - 1))
    gain = _gain("replay of the pipeline", sim_s, healthy_s, fleet)
    return {**gain, "replay_error_median": number(float(error))}


def _measured(facts: RunFacts, at: WindowFact, fleet: Fleet, ranks: Sequence[int]) -> Json | None:
    """The largest loss measured of a window's culprits that all are among the ranks."""
    lost = [
        one.effect_s_per_step
        for one in facts.findings(since=at.index, upto=at.index)
        if one.role == "culprit" and one.ranks and set(one.ranks) <= set(ranks) and one.effect_s_per_step
    ]
    points = facts.step_times(ranks=(), limit=1, upto=at.index)
    step_s = points[-1].job_s if points else None
    if not lost or step_s is None:
        return None
    return _gain("largest loss a detector measured of them", step_s, max(step_s - max(lost), 0.0), fleet)


def _gain(method: str, step_s: float, healthy_s: float, fleet: Fleet) -> Json:
    share = max(step_s - healthy_s, 0.0) / step_s if step_s > 0 else 0.0
    return {
        "method": method,
        "step_s": number(step_s),
        "healthy_step_s": number(healthy_s),
        "gain_s_per_step": number(max(step_s - healthy_s, 0.0)),
        "gain_share": number(share),
        "gpu_hours_per_day": number(share * fleet.topology.world_size * 24),
    }
