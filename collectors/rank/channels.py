"""What records in the step that runs now; decided once a step, never by the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from argus.collectors.records.channels import (
    ALL,
    BLOCK_STEPS,
    CHANNELS,
    Block,
    block_of,
    is_profiled,
    off_at,
)
from argus.collectors.records.events import FLAG_PROFILED, FLAG_SHADOW

OPERATOR_STEPS = "ARGUS_OPERATOR_STEPS"
"""One profiled step in so many; 0 profiles no operators; unset, the steps whose module phases are sampled."""


def period_of(text: str) -> int:
    """Steps of which one is profiled, as the setting says; what is no number changes nothing.

    >>> period_of("7"), period_of(""), period_of("0")
    (7, 50, 50)
    """
    return int(text) if text.isdecimal() and int(text) else BLOCK_STEPS


class Channels:
    """The switches. `run` names the job, "" disturbs no step; without shadows modules are sampled all the same.

    `plan` says of a step which channel it is about: one of `SHADOWED` or `all` is off in it, `modules` is on.
    """

    def __init__(self, run: str = "", *, has_shadows: bool = True, period: int = BLOCK_STEPS) -> None:
        self.run = run
        self._period = period
        self.has_shadows = has_shadows
        self.plan: Callable[[int], str] = self._planned
        self.phases = True
        self.collectives = True
        self.is_shadow = False  # everything is off in this step: the writer rests, too
        self.is_profiled = False
        self.level = 0
        self.is_off = False  # the whole run is switched off: no channel records, whatever the governor says
        self._governed = 0
        self._wanted: tuple[int, int] | None = None  # level, and the first step that has it
        self._block: Block | None = None
        self._block_end = BLOCK_STEPS
        self._on_level: list[Callable[[int], None]] = []
        self.on_profile: list[Callable[[bool], object]] = []
        """Called with True when a profiled step starts, with False when it is over."""

    def on_level(self, call: Callable[[int], None]) -> None:
        """Call with the new level when channels step down or come back."""
        self._on_level.append(call)

    def want(self, level: int, *, from_step: int) -> None:
        """Have the channels of `level` off from `from_step` on; said by the host's processor."""
        self._wanted = (min(max(level, 0), len(CHANNELS)), from_step)

    def begin(self, step: int) -> int:
        """Step `step` starts; returns its flags."""
        wanted = self._wanted
        if wanted is not None and step >= wanted[1]:
            self._wanted = None
            self._governed = wanted[0]
        self._set_level(len(CHANNELS) if self.is_off else self._governed)
        channel = self.plan(step)
        off = off_at(self.level)
        self.is_shadow = channel == ALL
        was_profiled, self.is_profiled = self.is_profiled, channel == "modules" and "modules" not in off
        if was_profiled != self.is_profiled:
            for call in self.on_profile:
                call(self.is_profiled)
        self.phases = channel not in (ALL, "phases") and "phases" not in off
        self.collectives = channel not in (ALL, "collectives") and "collectives" not in off
        if channel == "modules":
            return FLAG_PROFILED if self.is_profiled else 0
        return FLAG_SHADOW if channel else 0

    def _planned(self, step: int) -> str:
        if step >= self._block_end:
            self._block = block_of(self.run, step)
            self._block_end = step - step % BLOCK_STEPS + BLOCK_STEPS
        block = self._block
        if block is not None and self.has_shadows and step in (block.all_off, block.one_off):
            return ALL if step == block.all_off else block.channel
        if self._period != BLOCK_STEPS:
            return "modules" if is_profiled(self.run, step, period=self._period) else ""
        return "modules" if block is not None and step == block.profiled else ""

    def _set_level(self, level: int) -> None:
        if level == self.level:
            return
        self.level = level
        for call in self._on_level:
            call(level)


def channels_of(run: str, env: Mapping[str, str]) -> Channels:
    """The switches of a run as the job's environment wants them."""
    has_shadows, period = env.get("ARGUS_GOVERNOR") != "0", period_of(env.get(OPERATOR_STEPS, ""))
    return Channels(run, has_shadows=has_shadows, period=period)
