"""The scoreboard: marks of several systems as sums, tables and one page, failures first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from argus.evals.marks import Mark
from argus.evals.rates import poisson_upper, wilson
from argus.evals.systems import OURS

HEADLINE_TRIALS = 473
"""So many trials of one kind without an error bound the error rate below 0.8 %; with fewer a share is no headline."""

CLASS_TRIALS = 30
RANK_DAYS = 10_000 * 86_400.0
"""Rank-seconds of a day of 10,000 ranks."""

LEVELS = ("L1", "L2", "L3")


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
class Line:
    """All marks of one system. `precision` is of incidents, all other shares are of trials.

    `noticed` = anything was said in the fault's time. `recall` is over counted faults, `recall_short` over those that end before ten windows. `false_healthy` =
    incidents in healthy trials, `per_day` the same per 10,000 ranks and day with `per_day_upper` at 95 %.
    `brier` = mean squared error of taking CONFIRMED as 1, LIKELY as 0.75, anything else as 0.5.
    """

    system: str
    right: Share
    precision: Share
    noticed: Share
    recall: Share
    recall_short: Share
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
    calibration: Mapping[str, Share]
    brier: float | None
    crashed: int


SAID = ("CONFIRMED", "LIKELY", "INCONCLUSIVE")
SURENESS = {"CONFIRMED": 1.0, "LIKELY": 0.75}


def line(system: str, marks: Iterable[Mark]) -> Line:
    """Sums of one system's marks. A crashed trial is a miss, and never quiet."""
    rows = list(marks)
    faulty = [one for one in rows if one.fault_class is not None]
    counted = [one for one in faulty if one.counted]
    healthy = [one for one in rows if one.fault_class is None]
    delays = [one.delay_windows for one in faulty if one.delay_windows is not None]
    offs = [one.onset_off for one in faulty if one.onset_off is not None]
    said, false = sum(one.said for one in rows), sum(one.false for one in rows)
    precision, recall = Share(part=said - false, whole=said), _share([one.found for one in counted])
    alarms, days = sum(one.said for one in healthy), sum(one.rank_s for one in healthy) / RANK_DAYS
    sure = [pair for one in rows for pair in one.sure]
    return Line(
        system=system,
        right=_share([one.ok for one in rows]),
        precision=precision,
        noticed=_share([bool(one.noticed) for one in faulty]),
        recall=recall,
        recall_short=_share([one.found for one in faulty if not one.counted]),
        top_1=_share([bool(one.top_1) for one in faulty]),
        right_class=_share([one.right_class for one in faulty]),
        right_scope=_share([bool(one.right_scope) for one in faulty]),
        exonerated=_share([one.exonerated and not one.error for one in rows if one.exonerated is not None]),
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
        calibration={name: _share([true for verdict, true in sure if verdict == name]) for name in SAID},
        brier=_brier(sure),
        crashed=sum(bool(one.error) for one in rows),
    )


def lines(marks: Iterable[Mark]) -> list[Line]:
    """One line per system, in the order of their first mark."""
    by_system: dict[str, list[Mark]] = {}
    for one in marks:
        by_system.setdefault(one.system, []).append(one)
    return [line(name, rows) for name, rows in by_system.items()]


def matrix(marks: Iterable[Mark], *, system: str = OURS) -> dict[str, dict[str, Share]]:
    """Of the trials of each class: recall, class, and at which levels there was a finding."""
    rows = [one for one in marks if one.system == system and one.fault_class is not None]
    table: dict[str, dict[str, Share]] = {}
    for name in sorted({str(one.fault_class) for one in rows}):
        mine = [one for one in rows if one.fault_class == name]
        table[name] = {
            "found": _share([one.found for one in mine]),
            "class": _share([one.right_class for one in mine]),
            **{level: _share([level in one.levels for one in mine]) for level in LEVELS},
            "any level": _share([bool(one.levels) for one in mine]),
        }
    return table


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
