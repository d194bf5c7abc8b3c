"""The arms of the overhead benchmark: what is on in a block."""

from __future__ import annotations

PROFILERS = ("torch.profiler", "torch.profiler with stacks")
SINGLE = ("phases", "collectives", "modules", "kernels", "stacks")
"""One channel alone. `kernels` are a CPU's operators, `modules` the phases inside the model."""

BARE = ("off", "null", "stopped", "stacks")
"""Arms without a hook: one warm step, for the caches. An observed block needs two: the first finds the modules
again, the second runs with everything in place."""

SHORT = ("phases", "collectives", "modules", "kernels", *PROFILERS)
"""Arms whose blocks are one step long: there are many of them, and none has a promise to keep."""
