"""What a job's attempt before says of it: the facts a service would compare a restarted run with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.numbers import WindowNumbers, window_numbers
from argus.analytics.run_diff import RunDiff, diff
from argus.analytics.run_facts import KernelLevel, RunFacts, facts_of, kernel_levels
from argus.analytics.window import Window, assemble
from argus.api.facts import COMPARED_WINDOWS, SETTLED_WINDOWS, START_UP
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.simulate import simulate
from argus.evals.truth import Scenario
from argus.topology.layout import Topology, build


def facts_before(scenario: Scenario, *, entropy: Sequence[int]) -> RunFacts | None:
    """Facts of the attempt before, over its last windows; None where the trial is a first attempt."""
    if scenario.before is None:
        return None
    done = simulate(scenario.before, rng=np.random.default_rng([*entropy, 2]))
    topology = build(done.layouts)
    windows = [assemble(closed.parts, topology) for closed in done.windows(WindowPlan()) if closed.parts]
    numbers = [window_numbers(window) for window in windows[START_UP:]][-COMPARED_WINDOWS:]
    return facts_of(topology, done.layouts, numbers, kernels=_kernels(windows[-1]))


def change_since(
    before: RunFacts | None, topology: Topology, layouts: Sequence[Layout], seen: Sequence[Window]
) -> RunDiff | None:
    """What the attempt's first windows `seen` differ in; None while they are too few to tell."""
    if before is None or len(seen) < SETTLED_WINDOWS:
        return None
    numbers: list[WindowNumbers] = [window_numbers(window) for window in seen[START_UP:SETTLED_WINDOWS]]
    return diff(before, facts_of(topology, layouts, numbers, kernels=_kernels(seen[SETTLED_WINDOWS - 1])))


def _kernels(window: Window) -> dict[str, KernelLevel]:
    if not window.kernels:
        return {}
    return dict(kernel_levels(window.kernels, names=window.kernel_names, num_steps=window.num_steps))
