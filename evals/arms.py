"""The arms of the overhead benchmark: what is on in a block."""

from __future__ import annotations

from typing import NamedTuple

PROFILERS = ("torch.profiler", "torch.profiler with stacks")
SINGLE = ("phases", "collectives", "modules", "kernels", "stacks")
"""One channel alone. `kernels` are a CPU's operators, `modules` the phases inside the model."""

BARE = ("off", "null", "stopped", "stacks")
"""Arms without a hook: one warm step, for the caches. An observed block needs two: the first finds the modules
again, the second runs with everything in place."""


class Part(NamedTuple):
    """Part of a run: `rounds`, in each of them `turn` blocks in a row of each of `arms`, which are paired with `off`'s.

    A machine that is shared changes from second to second: blocks next to each other tell most. Changing arms
    costs steps of warming up, which is why many arms take longer turns.
    """

    rounds: int
    turn: int
    arms: list[str]


SHORT = ("phases", "collectives", "modules", "kernels", *PROFILERS)
"""Arms whose blocks are one step long: there are many of them, and none has a promise to keep."""
