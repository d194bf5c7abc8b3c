"""A process group for tests that reports finished works as NCCL's does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from argus.collectors.hooks.torch_nccl import WorkInfo


@dataclass(frozen=True, kw_only=True)
class FakeWorkInfo:
    """One finished work."""

    seq: int
    active_duration: timedelta


class FakeNcclGroup:
    """Issue works, finish them later and in any order."""

    def __init__(self, group_name: str, *, has_hooks: bool = False) -> None:
        self.group_name = group_name
        self.is_timing = False
        self.hook: Callable[[WorkInfo], None] | None = None
        self._seq = 0
        self._foreign = has_hooks

    def issue(self) -> int:
        """Launch a work; its sequence number."""
        self._seq += 1
        return self._seq

    def finish(self, seq: int, *, ran_us: float) -> None:
        """The GPU has done work `seq`."""
        assert self.hook is not None
        self.hook(FakeWorkInfo(seq=seq, active_duration=timedelta(microseconds=ran_us)))

    def _has_hooks(self) -> bool:
        return self._foreign or self.hook is not None

    def _enable_collectives_timing(self) -> None:
        self.is_timing = True

    def _register_on_completion_hook(self, hook: Callable[[WorkInfo], None]) -> None:
        self.hook = hook

    def _get_sequence_number_for_group(self) -> int:
        return self._seq
