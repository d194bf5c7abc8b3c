"""Which runs are switched off on this host: by the service, or by hand with a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from argus.collectors.host.notices import Notices
from argus.collectors.records.switch import is_off, off_file

MAX_RUNS = 256
"""Runs one answer may switch; a host has a few."""


class Switches:
    """Writes the files the ranks look at. What the service said is taken back when the processor ends."""

    def __init__(self, socket: Path, *, notices: Notices) -> None:
        self._socket, self._notices = socket, notices
        self._ours: set[str] = set()

    def is_off(self, run: str) -> bool:
        """Whether nothing of `run` is to be observed now."""
        return is_off(self._socket, run)

    def follow(self, told: Mapping[str, bool]) -> None:
        """Do as the service says: `told` maps a run to whether it is off."""
        for run, off in list(told.items()):
            try:
                self._turn(run, off=off)
            except OSError as error:
                self._notices.once(
                    "switch", f"run {run} cannot be switched {'off' if off else 'on'}: {error}"
                )

    def close(self) -> None:
        """The next processor hears anew what the service wants."""
        self.follow(dict.fromkeys(self._ours, False))

    def _turn(self, run: str, *, off: bool) -> None:
        file = off_file(self._socket, run)
        if off == file.exists():
            return
        if off:
            file.touch(mode=0o600)
            self._ours.add(run)
        else:
            file.unlink(missing_ok=True)
            self._ours.discard(run)
        if off:
            self._notices.once(f"off {run}", f"run {run} is switched off")
        else:
            self._notices.clear(f"off {run}", f"run {run} is switched on again")


def parse_switches(raw: object) -> Mapping[str, bool]:
    """The switches of an answer; what cannot be understood changes nothing."""
    if not isinstance(raw, dict) or len(raw) > MAX_RUNS:
        return {}
    return {run: off for run, off in raw.items() if isinstance(run, str) and isinstance(off, bool)}
