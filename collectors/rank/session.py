"""Everything of one armed rank: recorder, calls, collectors' switches, writer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from argus.collectors.rank.calls import CallLog
from argus.collectors.rank.claims import Claims
from argus.collectors.rank.guard import LOGGER, Part
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.records.channels import off_at

if TYPE_CHECKING:
    from torch import nn

    from argus.collectors.rank.cupti.channel import Channel


TOLD_REFUSALS = 3
"""The processor is asked again after half a second, one and two."""


class Hook(Protocol):
    """A module of `collectors/hooks`: install() once the module NEEDS is imported."""

    NEEDS: str

    def install(self, session: Session, part: Part) -> None:
        """Put the patches in, each with its undo in `part`."""


class Session:
    """Wires the collectors of this process together."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.run = ""  # name of the run, for what must be the same on all its ranks
        self.ring: Ring = recorder.ring
        self.calls = CallLog(recorder)
        self.claims = Claims()
        self.kernels: Channel | None = None  # where there is a GPU and CUPTI, once CUDA is initialised
        self.parts: list[Part] = []
        recorder.channels.on_level(self._say_level)
        self.notes: list[str] = []
        self._refusals = 0
        self.pipelines: list[
            tuple[int, ...]
        ] = []  # of ranks in the order of stages, over groups of no such name
        self._pending: list[tuple[str, Hook]] = []
        self._on_groups: list[Callable[[], None]] = []
        self._on_modules: list[Callable[[Sequence[nn.Module]], None]] = []
        self._on_tick: list[Callable[[], None]] = []

    def add(self, name: str, hook: Hook) -> None:
        """Install a hook now or as soon as the module it needs is imported."""
        self._pending.append((name, hook))
        self.install_pending()

    def install_pending(self) -> None:
        """Install the hooks whose module has been imported meanwhile."""
        ready = [item for item in self._pending if _is_imported(item[1].NEEDS)]
        self._pending = [item for item in self._pending if item not in ready]
        for name, hook in ready:
            part = Part(name, ring=self.ring, on_off=self.part_failed)
            self.parts.append(part)
            part.guard(hook.install)(self, part)

    def unseen(self, text: str) -> None:
        """Say in words what this rank cannot observe."""
        if text not in self.notes:
            self.notes.append(text)

    def part_failed(self, text: str) -> None:
        """A collector switched itself off."""
        self.unseen(text)
        self.recorder.forget_open()

    def control(self, body: dict[str, object]) -> None:
        """What the host's processor says: channels to have off, and from which step on; that it takes another for us;
        a warning for who looks at this job.
        """
        if isinstance(text := body.get("warning"), str):
            logging.getLogger(LOGGER).warning("argus: %s", text)
        if isinstance(why := body.get("refused"), str):
            self._refused(why)
        level, step = body.get("level"), body.get("from_step")
        if isinstance(level, int) and isinstance(step, int):
            self.recorder.channels.want(level, from_step=step)

    def _refused(self, why: str) -> None:
        """Said once, where the user of this job looks: a process that is just ending may be in the way for a moment."""
        self._refusals += 1
        if self._refusals == TOLD_REFUSALS:
            logging.getLogger(LOGGER).warning(
                "argus: this rank is not observed: %s; give each job a name of its own by --run or ARGUS_RUN",
                why,
            )

    def pause_kernels(self) -> None:
        """Have the kernel channel collect or not, as the level says."""
        if self.kernels is not None:
            self.kernels.pause(is_paused="kernels" in off_at(self.recorder.channels.level))

    def _say_level(self, level: int) -> None:
        self.pause_kernels()
        off = "+".join(off_at(level)) or "none"
        now_ns = self.recorder.now_ns()
        self.recorder.event(f"argus:off:{off}", start_ns=now_ns, dur_ns=0, value=float(level))

    def stop(self) -> None:
        """Take every patch out."""
        self._pending = []
        parts, self.parts = self.parts, []
        for part in reversed(parts):
            part.off()
        for calls in (self._on_groups, self._on_modules, self._on_tick, self.recorder.channels.on_profile):
            calls.clear()

    def on_group_change(self, call: Callable[[], None]) -> None:
        """Call when process groups appeared or went."""
        self._on_groups.append(call)

    def groups_changed(self) -> None:
        """Tell it."""
        for call in self._on_groups:
            call()

    def on_modules(self, call: Callable[[Sequence[nn.Module]], None]) -> None:
        """Call with every module of the process each time they were looked for."""
        self._on_modules.append(call)

    def modules_found(self, modules: Sequence[nn.Module]) -> None:
        """Tell it."""
        for call in self._on_modules:
            call(modules)

    def on_tick(self, call: Callable[[], None]) -> None:
        """Call on the writer thread, twice a second."""
        self._on_tick.append(call)

    def tick(self) -> None:
        """What the writer thread does for the collectors."""
        self.install_pending()
        for call in self._on_tick:
            call()


def _is_imported(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)
