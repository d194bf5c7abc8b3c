"""Which trials the semi-synthetic suite has, and who plays them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from argus.api.cli.errors import CliError
from argus.api.report import NothingUsable
from argus.collectors.readers import ReaderError
from argus.evals.marks import Mark
from argus.evals.score import Trial
from argus.evals.semi import kernels, phases, series
from argus.evals.systems import OURS, peers, reads

SEVERITIES = (1.05, 1.1, 1.3, 1.5, 2.0, 3.0)
AS_RECORDED = 1.0

FIRST_SEED = 3_000_000


class Source(Protocol):
    """A kind of recording: a module of this folder."""

    NAME: str

    def recordings(self, data: Path) -> tuple[Path, ...]:
        """Its files below a folder."""

    def compare(self, trial: Trial, *, names: Sequence[str], data: Path) -> list[Mark]:
        """The marks of each system."""


SOURCES: Mapping[str, Source] = {one.NAME: one for one in (series, phases, kernels)}


@dataclass(frozen=True, kw_only=True)
class Semi:
    """So many faulty trials of each source, and controls: the recordings as they are."""

    faulty: Mapping[str, int]
    controls: Mapping[str, int]

    def trials(self) -> Iterator[Trial]:
        """Source by source, the controls last."""
        for name, count in self.faulty.items():
            for number in range(count):
                yield _trial(name, number, SEVERITIES[number // 2 % len(SEVERITIES)])
            for number in range(self.controls[name]):
                yield _trial(name, number, AS_RECORDED)


def _trial(name: str, number: int, severity: float) -> Trial:
    return Trial(scenario=name, seed=FIRST_SEED + number, ranks=0, severity=severity)


def takes(scenario: str, system: str) -> bool:
    """Whether a system can read what a trial consists of."""
    if scenario == series.NAME:
        return system == OURS or (system not in peers() and reads(system) == {"steps"})
    return system not in peers() or scenario == kernels.NAME


def compare(trial: Trial, *, names: Sequence[str], data: Path) -> list[Mark]:
    """The marks of each system for one trial. CliError if its recording cannot be read."""
    try:
        return SOURCES[trial.scenario].compare(trial, names=names, data=data)
    except (ReaderError, NothingUsable) as error:
        raise CliError(f"the recording of {trial.scenario} below {data} cannot be read: {error}") from None


def lacking(data: Path) -> dict[str, str]:
    """Sources whose recordings are not below the folder, with a sentence each."""
    return {
        name: f"{name} is skipped: {data} holds none of its recordings"
        for name, source in SOURCES.items()
        if not source.recordings(data)
    }
