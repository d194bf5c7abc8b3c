"""One file per trace format: files in, the collectors' own records out.

A reader is a module of this folder with `sniff(head, name) -> bool`, which looks at the first
(uncompressed) bytes before the name, and `read(path) -> Iterator[Reading]`. A file that cannot be used
raises `ReaderError`; one that is damaged yields what is readable with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, cast

from argus.collectors.records.events import RankRecords
from argus.collectors.records.flight import FlightDump
from argus.collectors.records.heartbeat import Status
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.series import StepSeries
from argus.collectors.records.stacks import StackDump


class Ending(StrEnum):
    """How a file ends: it does not say, with the rank's goodbye, without one, inside a record or damaged, or where the
    recording had reached its size limit.
    """

    UNTOLD, GOODBYE, OPEN, CUT, FULL = "untold", "goodbye", "open", "cut", "full"


class ReaderError(ValueError):
    """A file that cannot be used: one sentence that names the file and what is missing."""


class NothingFound(ReaderError):
    """A log without a line for its reader, which others may find more in."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One rank's records out of one file.

    `warnings` are sentences. `is_world_known` is False if the world size is only a lower bound;
    `is_seq_known` is False if sequence numbers count the calls of this file in order.
    `is_time_known` is False if its clock has no common origin with other files. `stands_for` ranks from this
    one on do the same work and only this one was recorded. `dump` is what its flight recorder held, `series`
    the step times of a file that knows no ranks. `events` and `stacks` are what others than the ranks saw;
    an event at time 0 does not say when. `also` maps an event's node to other names of it. `are_members_known`
    is False if the groups list only the members this file tells of: the others are in other files.
    `is_rank_known` is False if ranks only count the processes of this file, `is_rank_named` is True if only a file's
    name says the rank. `ending` is how the file ends, `status` the rank's last sign of life in it.
    """

    records: RankRecords
    source: str
    warnings: tuple[str, ...] = ()
    is_world_known: bool = True
    is_seq_known: bool = True
    is_time_known: bool = True
    stands_for: int = 1
    dump: FlightDump | None = None
    series: StepSeries | None = None
    events: tuple[OutsideEvent, ...] = ()
    stacks: tuple[StackDump, ...] = ()
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    are_members_known: bool = True
    is_rank_known: bool = True
    is_rank_named: bool = False
    ending: Ending = Ending.UNTOLD
    status: Status | None = None


class Reader(Protocol):
    """What a reader module offers."""

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this reader takes a file that begins with `head`."""

    def read(self, path: Path) -> Iterator[Reading]:
        """The ranks in the file. Raises ReaderError."""


HEAD_BYTES = 1 << 16
"""How much of a file `sniff` is shown: enough to get past the device list of a trace."""


@cache
def readers() -> Mapping[str, Reader]:
    """Every reader by name, found by walking this folder."""
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return {name: cast(Reader, import_module(f"{__name__}.{name}")) for name in names}


def reader_for(head: bytes, name: str) -> Reader | None:
    """The reader that takes a file with this beginning, None if there is none."""
    return next((reader for reader in readers().values() if reader.sniff(head, name)), None)


def log_readers() -> tuple[Reader, ...]:
    """Readers of lines of text, which one log may hold for several of them: they set `IS_LOG`."""
    return tuple(reader for reader in readers().values() if getattr(reader, "IS_LOG", False))
