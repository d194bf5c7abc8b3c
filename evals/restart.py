"""What a job's attempt before says of it: the facts a service would compare a restarted run with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from argus.analytics.numbers import window_numbers
from argus.analytics.run_diff import RunDiff, diff_since_restart
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


@dataclass(kw_only=True)
class Restart:
    """Compares an attempt with the one `before`, None if it is the first; `seen` are its windows so far."""

    before: RunFacts | None
    topology: Topology
    layouts: Sequence[Layout]
    seen: list[Window] = field(default_factory=list)
    change: RunDiff | None = None

    def hear(self, window: Window | None) -> RunDiff | None:
        """What the attempt's first windows differ in; None while they are too few to tell."""
        if self.before is None or self.change is not None or window is None:
            return self.change
        self.seen.append(window)
        numbers = [window_numbers(one) for one in self.seen[START_UP:]]
        facts = facts_of(self.topology, self.layouts, numbers, kernels=_kernels(window))
        self.change = diff_since_restart(self.before, facts, numbers, enough=SETTLED_WINDOWS - START_UP)
        return self.change


def _kernels(window: Window) -> dict[str, KernelLevel]:
    if not window.kernels:
        return {}
    return dict(kernel_levels(window.kernels, names=window.kernel_names, num_steps=window.num_steps))
