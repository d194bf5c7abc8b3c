"""Which launchers of this host still live: the processor stays as long as one may bring ranks."""

from __future__ import annotations

from pathlib import Path

from argus.collectors.host.process import read_stat
from argus.collectors.records.endpoint import private_directory


class Launchers:
    """A directory with one empty file per launcher, `PID-STARTTIME`.

    Every processor that is started notes its launcher here, also the one that finds another listening.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = private_directory(directory)

    def add(self, pid: int) -> None:
        """Note a launcher; one that is gone already is not noted."""
        stat = read_stat(pid)
        if stat is not None:
            (self._directory / f"{pid}-{stat.start}").touch(mode=0o600)

    def any_alive(self) -> bool:
        """Whether one lives; files of dead ones are removed."""
        alive = [path for path in self._directory.iterdir() if _is_alive(path)]
        return bool(alive)


def _is_alive(path: Path) -> bool:
    pid, _, start = path.name.partition("-")
    stat = read_stat(int(pid)) if pid.isdecimal() and start.isdecimal() else None
    if stat is not None and stat.start == int(start) and stat.letter not in "ZX":
        return True
    path.unlink(missing_ok=True)
    return False
