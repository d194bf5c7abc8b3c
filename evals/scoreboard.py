"""The scoreboard: marks of several systems as sums, tables and one page, failures first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from argus.evals.marks import Mark, Spent
from argus.evals.rates import poisson_upper, wilson
from argus.evals.systems import OURS

HEADLINE_TRIALS = 473
"""So many trials of one kind without an error bound the error rate below 0.8 %; with fewer a share is no headline."""

CLASS_TRIALS = 30
RANK_DAYS = 10_000 * 86_400.0
"""Rank-seconds of a day of 10,000 ranks."""

LEVELS = ("L1", "L2", "L3")
ALL_CLASSES = "all"


@dataclass(frozen=True, kw_only=True)
class Share:
    """`part` of `whole`, with its Wilson interval."""

    part: int
    whole: int

    @property
    def ratio(self) -> float | None:
        """None of none."""
        return self.part / self.whole if self.whole else None

    def __str__(self) -> str:
        bounds = wilson(self.part, self.whole)
        if bounds is None:
            return "–"
        return f"{self.part / self.whole:.1%} ({bounds[0]:.1%}–{bounds[1]:.1%})"


@dataclass(frozen=True, kw_only=True)
class Took:
    """Medians over trials but for `peak_bytes`, the most of any; None where nothing was measured.

    `diagnosis_s` is from the onset to the diagnosis, over the faults that were found; `_p95` its 95th percentile.
    """

    wall_s_per_window: float | None
    cpu_s_per_window: float | None
    peak_bytes: int | None
    bytes_per_rank_step: float | None
    diagnosis_s: float | None
    diagnosis_s_p95: float | None


@dataclass(frozen=True, kw_only=True)
class Line:
    """All marks of one system. `precision` is of incidents, all other shares are of trials.

    `noticed` = anything was said in the fault's time. `recall` is over counted faults, `recall_short` over those that
    end before ten windows, `recall_smaller` over those that cost less than a per cent of the step. `false_healthy` =
    incidents in healthy trials, `per_day` the same per 10,000 ranks and day with `per_day_upper` at 95 %.
    `brier` = mean squared error of taking CONFIRMED as 1, LIKELY as 0.75, anything else as 0.5. `forbidden` = actions
    advised that the truths forbid, `overclaimed` = verdicts firmer than the data supports, `took` what the answers took.
    """

    system: str
    right: Share
    precision: Share
    noticed: Share
    recall: Share
    recall_short: Share
    recall_smaller: Share
    top_1: Share
    right_class: Share
    right_scope: Share
    exonerated: Share
    abstained: Share
    healthy_quiet: Share
    f1: float | None
    onset_off_median: float | None
    delay_windows_median: float | None
    delay_windows_max: int | None
    false_healthy: int
    per_day: float | None
    per_day_upper: float | None
    unsafe: int
    forbidden: int
    overclaimed: int
    calibration: Mapping[str, Share]
    brier: float | None
    crashed: int
    took: Took


SAID = ("CONFIRMED", "LIKELY", "INCONCLUSIVE")
SURENESS = {"CONFIRMED": 1.0, "LIKELY": 0.75}


def line(system: str, marks: Iterable[Mark]) -> Line:
    """Sums of one system's marks. A crashed trial is a miss, and never quiet."""
    rows = list(marks)
    faulty = [one for one in rows if one.fault_class is not None]
    healthy = [one for one in rows if one.fault_class is None]
    delays, offs = _known([one.delay_windows for one in faulty]), _known([one.onset_off for one in faulty])
    said, false = sum(one.said for one in rows), sum(one.false for one in rows)
    precision = Share(part=said - false, whole=said)
    recall = _share([one.found for one in faulty if one.counted])
    alarms, days = sum(one.said for one in healthy), sum(one.rank_s for one in healthy) / RANK_DAYS
    sure = [pair for one in rows for pair in one.sure]
    return Line(
        system=system,
        right=_share([one.ok for one in rows]),
        precision=precision,
        noticed=_share([bool(one.noticed) for one in faulty]),
        recall=recall,
        recall_short=_share([one.found for one in faulty if not one.counted and not one.smaller]),
        recall_smaller=_share([one.found for one in faulty if one.smaller]),
        top_1=_share([bool(one.top_1) for one in faulty]),
        right_class=_share([one.right_class for one in faulty]),
        right_scope=_share([bool(one.right_scope) for one in faulty]),
        exonerated=_exonerated(rows),
        abstained=_share([one.abstained for one in faulty]),
        healthy_quiet=_share([one.ok for one in healthy]),
        f1=_f1(precision.ratio, recall.ratio),
        onset_off_median=median(offs) if offs else None,
        delay_windows_median=median(delays) if delays else None,
        delay_windows_max=max(delays, default=None),
        false_healthy=alarms,
        per_day=alarms / days if days else None,
        per_day_upper=poisson_upper(alarms) / days if days else None,
        unsafe=sum(one.unsafe for one in rows),
        forbidden=sum(len(one.forbidden) for one in rows),
        overclaimed=sum(one.overclaimed for one in rows),
        calibration={name: _share([true for verdict, true in sure if verdict == name]) for name in SAID},
        brier=_brier(sure),
        crashed=sum(bool(one.error) for one in rows),
        took=took([one.spent for one in rows]),
    )


def took(spent: Iterable[Spent]) -> Took:
    """Sums of what answers took."""
    rows = list(spent)
    diagnosed = [one.diagnosis_s for one in rows if one.diagnosis_s is not None]
    return Took(
        wall_s_per_window=_median([one.wall_s / one.windows for one in rows if one.wall_s and one.windows]),
        cpu_s_per_window=_median([one.cpu_s / one.windows for one in rows if one.cpu_s and one.windows]),
        peak_bytes=max((one.peak_bytes for one in rows if one.peak_bytes is not None), default=None),
        bytes_per_rank_step=_median(
            [one.bytes_per_rank_step for one in rows if one.bytes_per_rank_step is not None]
        ),
        diagnosis_s=_median(diagnosed),
        diagnosis_s_p95=float(np.percentile(diagnosed, 95)) if diagnosed else None,
    )


def _exonerated(rows: Sequence[Mark]) -> Share:
    return _share([one.exonerated and not one.error for one in rows if one.exonerated is not None])


def _known(values: Sequence[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def lines(marks: Iterable[Mark]) -> list[Line]:
    """One line per system, in the order of their first mark."""
    by_system: dict[str, list[Mark]] = {}
    for one in marks:
        by_system.setdefault(one.system, []).append(one)
    return [line(name, rows) for name, rows in by_system.items()]


def matrix(marks: Iterable[Mark], *, system: str = OURS) -> dict[str, dict[str, Share]]:
    """Of the trials of each class, and of all: recall, class, and at which levels there was a finding."""
    rows = [one for one in marks if one.system == system and one.fault_class is not None]
    by_class = {
        name: [one for one in rows if one.fault_class == name]
        for name in sorted({str(one.fault_class) for one in rows})
    }
    return {name: _levels(mine) for name, mine in (*by_class.items(), (ALL_CLASSES, rows)) if mine}


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Windows from the onset to the incident over the found faults of a class; `slowest` = scenario of the longest."""

    trials: int
    median: float
    most: int
    slowest: str


def delays(marks: Iterable[Mark], *, system: str = OURS) -> dict[str, Delays]:
    """Of each class that takes windows to be told, which a stop does not."""
    by_class: dict[str, list[tuple[int, str]]] = {}
    for one in marks:
        if one.system == system and one.fault_class is not None and one.delay_windows is not None:
            by_class.setdefault(one.fault_class, []).append((one.delay_windows, one.scenario))
    return {
        name: Delays(
            trials=len(rows), median=median(late for late, _ in rows), most=max(rows)[0], slowest=max(rows)[1]
        )
        for name, rows in sorted(by_class.items())
    }


def _levels(mine: Sequence[Mark]) -> dict[str, Share]:
    return {
        "found": _share([one.found for one in mine]),
        "class": _share([one.right_class for one in mine]),
        **{level: _share([level in one.levels for one in mine]) for level in LEVELS},
        "any level": _share([bool(one.levels) for one in mine]),
    }


def ladder(marks: Sequence[Mark]) -> dict[str, dict[str, Share]]:
    """Recall of each system by severity of the fault; stops have none and are left out."""
    rows = [one for one in marks if one.fault_class is not None and not one.fault_class.startswith("stop.")]
    return {
        system: {
            f"{severity:g}×": _share(
                [one.found for one in rows if (one.system, one.severity) == (system, severity)]
            )
            for severity in sorted({one.severity for one in rows})
        }
        for system in dict.fromkeys(one.system for one in rows)
    }


def to_json(marks: Sequence[Mark]) -> dict[str, Any]:
    """Everything the page shows, with every mark of ours that is not in order."""
    return {
        "systems": [asdict(one) for one in lines(marks)],
        "matrix": {
            name: {key: asdict(share) for key, share in row.items()} for name, row in matrix(marks).items()
        },
        "ladder": {
            name: {key: asdict(share) for key, share in row.items()} for name, row in ladder(marks).items()
        },
        "failures": [one.to_json() for one in failures(marks)],
    }


def failures(marks: Iterable[Mark]) -> list[Mark]:
    """Our own marks that are not in order."""
    return [one for one in marks if one.system == OURS and not one.ok]


def nothing_failed(marks: Iterable[Mark]) -> str:
    """In place of the failures, if there are none."""
    num = sum(one.system == OURS for one in marks)
    return f"None of the {num} trials of Argus." if num else "Argus was not among those that were played."


def _share(values: Sequence[bool]) -> Share:
    return Share(part=sum(values), whole=len(values))


def _brier(sure: Sequence[tuple[str, bool]]) -> float | None:
    if not sure:
        return None
    return sum((SURENESS.get(verdict, 0.5) - true) ** 2 for verdict, true in sure) / len(sure)


def _f1(precision: float | None, recall: float | None) -> float | None:
    if precision is None or recall is None or not precision + recall:
        return None
    return 2 * precision * recall / (precision + recall)
