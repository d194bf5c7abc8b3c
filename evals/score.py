"""Compare what was found with the truth: per trial, then per scenario."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from argus.analytics.incident import Incident
from argus.evals.truth import Truth


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is played: a scenario by name, with its seed, size and severity."""

    scenario: str
    seed: int
    ranks: int
    severity: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One trial scored. `found` = the right ranks were named in time, `right_class` = and the right cause.

    `num_false` counts incidents that name others, or nothing that was there. `delay_windows` is from the
    onset's window to the window that opened the incident (0 = the onset's own), None for a stop;
    `error` is a crash, which counts as a miss; `steps` = length of the run.
    """

    trial: Trial
    truth: Truth
    is_faulty: bool
    found: bool = False
    right_class: bool = False
    resolved: bool | None = None
    num_incidents: int = 0
    num_false: int = 0
    delay_windows: int | None = None
    delay_s: float | None = None
    got: tuple[str, ...] = ()
    error: str = ""
    steps: int = 0

    @property
    def ok(self) -> bool:
        """Nothing missed, nothing invented, nothing crashed."""
        return not self.error and not self.num_false and (self.right_class or not self.is_faulty)

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON-ready dict, with whether it is `ok`."""
        return {"ok": self.ok, **asdict(self)}


def score(
    trial: Trial,
    truths: Sequence[Truth],
    *,
    incidents: Iterable[Incident],
    told_s: Iterable[float],
    onset_s: float,
    window_steps: int,
) -> Outcome:
    """Score the incidents of one trial in order of opening; `told_s` are when they were first told.

    `truths` are its faults, the main one first: all must be found, and the main one is what is timed.
    """
    truth = truths[0]
    counted = [(i, s) for i, s in zip(incidents, told_s, strict=True) if i.cause.verdict != "NO_FAULT"]
    timely = [i for i, s in counted if s >= onset_s]
    true = [i for i in timely if any(is_true(i, one, window_steps=window_steps) for one in truths)]
    outcome = Outcome(
        trial=trial,
        truth=truth,
        is_faulty=truth.fault_class is not None,
        num_incidents=len(counted),
        num_false=len(counted) - len(true),
        got=tuple(describe(incident) for incident, _ in counted),
    )
    by_truth = [[i for i in true if is_true(i, one, window_steps=window_steps)] for one in truths]
    if not _all_found(by_truth, truths):
        return outcome
    right = _of_class(by_truth, truths)
    first = (right[0] or by_truth[0])[0]
    is_stop = truth.fault_class is not None and truth.fault_class.startswith("stop.")
    values = {
        **vars(outcome),
        "found": True,
        "right_class": _all_found(right, truths),
        "resolved": None if truth.end_step is None else first.status == "resolved",
        "delay_windows": None if is_stop else first.opened_window - truth.onset_step // window_steps,
        "delay_s": next(s for i, s in counted if i is first) - onset_s,
    }
    return Outcome(**values)


def _of_class(incidents: Sequence[Sequence[Incident]], truths: Sequence[Truth]) -> list[list[Incident]]:
    """Of each truth's incidents those that name its class."""
    return [
        [i for i in mine if i.cause.fault_class == one.fault_class]
        for mine, one in zip(incidents, truths, strict=True)
    ]


def _all_found(incidents: Sequence[Sequence[Incident]], truths: Sequence[Truth]) -> bool:
    return all(is_found(mine, one) for mine, one in zip(incidents, truths, strict=True))


def is_true(incident: Incident, truth: Truth, *, window_steps: int) -> bool:
    """Whether the incident says something of the truth: at its place, in its time, not what it tempts to.

    Some of several root ranks are true, though not all of the truth; where no rank is to be accused, an
    incident that accuses none is true if its scope is the truth's.
    """
    cause = incident.cause
    if truth.fault_class is None or cause.fault_class in truth.exonerated:
        return False
    is_before = incident.onset_step < truth.onset_step - window_steps
    is_after = truth.end_step is not None and incident.onset_step >= truth.end_step
    if is_before or is_after or not set(cause.suspects) <= set(truth.ranks):
        return False
    kind, _, name = truth.scope.partition(":")
    if kind == "group":
        return cause.group == name or cause.scope == truth.scope
    return bool(cause.suspects) or (cause.scope == truth.scope and kind in ("run", "stage"))


def is_found(incidents: Sequence[Incident], truth: Truth) -> bool:
    """Whether true incidents together name the whole truth."""
    if not incidents or truth.fault_class is None:
        return False
    if truth.scope.partition(":")[0] in ("group", "stage") or not truth.ranks:
        return True
    return {rank for i in incidents for rank in i.cause.suspects} == set(truth.ranks)


def describe(incident: Incident) -> str:
    """An incident in one line for the list of failures."""
    cause = incident.cause
    return (
        f"{cause.verdict} {cause.fault_class} {cause.scope} suspects {list(cause.suspects)} "
        f"onset {incident.onset_step} window {incident.opened_window}"
    )


@dataclass(frozen=True, kw_only=True)
class Row:
    """Scores of several trials; ratios are None where nothing was to be found or nothing was said.

    `ok_ratio` = trials without any mistake, `recall` = faulty trials whose ranks were named; `class_ratio` = and whose cause was; `precision` =
    incidents that were true.
    """

    trials: int
    ok_ratio: float
    recall: float | None
    class_ratio: float | None
    precision: float | None
    num_false: int
    delay_windows_median: float | None
    delay_windows_max: int | None
    resolved_ratio: float | None
    crashed: int


def summarise(outcomes: Iterable[Outcome]) -> Row:
    """Scores over `outcomes`, at least one."""
    rows = list(outcomes)
    faulty = [row for row in rows if row.is_faulty]
    said = sum(row.num_incidents for row in rows)
    delays = [row.delay_windows for row in rows if row.delay_windows is not None]
    ended = [row.resolved for row in rows if row.resolved is not None]
    return Row(
        trials=len(rows),
        ok_ratio=sum(row.ok for row in rows) / len(rows),
        recall=_ratio(sum(row.found for row in faulty), len(faulty)),
        class_ratio=_ratio(sum(row.right_class for row in faulty), len(faulty)),
        precision=_ratio(said - sum(row.num_false for row in rows), said),
        num_false=sum(row.num_false for row in rows),
        delay_windows_median=median(delays) if delays else None,
        delay_windows_max=max(delays, default=None),
        resolved_ratio=_ratio(sum(ended), len(ended)),
        crashed=sum(bool(row.error) for row in rows),
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
