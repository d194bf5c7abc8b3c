"""What one system said of one trial, measured against the truth: the raw material of the scoreboard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.evals.expected import forbidden_advice, overclaimed
from argus.evals.score import Outcome, is_true
from argus.evals.truth import Truth

SURE = ("CONFIRMED", "LIKELY")
COUNTED_WINDOWS = 10
"""Faults that end sooner are scored apart: who must see something twice has had little chance."""

LEAST_COST = 0.01
"""Share of the step a fault must cost to count; below, nobody would look for it."""

SCORED = ("found", "right_class", "delay_windows", "delay_s", "error")
"""What a mark takes from the scored outcome as it is."""

SILENT_CLASSES = ("link.slow",)
"""Causes that count whatever they cost: a path that degrades behind other work is what hides for weeks."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What an answer took: `wall_s` and `cpu_s` for all `windows` of the trial, `peak_bytes` the most memory
    held meanwhile, `bytes_per_rank_step` of the records it reads as they are uploaded, `diagnosis_s` from the
    fault's onset to the worded diagnosis of the incident that names it, `staged_s` seconds of one core to simulate
    the trial, for all systems together. None = not measured.
    """

    wall_s: float | None = None
    cpu_s: float | None = None
    windows: int = 0
    peak_bytes: int | None = None
    bytes_per_rank_step: float | None = None
    diagnosis_s: float | None = None
    staged_s: float | None = None


UNKNOWN = Spent()

Key = tuple[str, str, int, int, float]
"""System, scenario, seed, ranks and severity."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One (system, trial). `fault_class` None = healthy. Questions that do not apply are None.

    `counted` = the fault stops the job, or lasts ten windows and more and costs one per cent of the step (or is of
    a silent class); `smaller` = it lasts but costs less. `cost_ratio` = what it adds to the job's steps. `top_1` = the incident that costs most names
    the truth, `right_scope` = a true incident names the smallest object that explains it. `onset_off` = steps
    between the onset told and the true one. `exonerated` = no class was named that the truth says is innocent.
    `unsafe` = false incidents, told as confirmed or likely, that accuse a rank with which nothing is wrong.
    `overclaimed` = incidents told firmer than the data supports, `forbidden` = actions advised that the truth forbids.
    `abstained` = nothing was told as confirmed or likely. `sure` are verdicts of incidents with whether each is
    true, `weights` what each is told to cost of the step. `levels` are those with a finding at the fault's place and
    time. `rank_s` = ranks × seconds of the job.
    """

    system: str
    scenario: str
    seed: int
    ranks: int
    severity: float
    fault_class: str | None
    counted: bool
    said: int
    false: int
    noticed: bool | None
    found: bool
    right_class: bool
    top_1: bool | None
    right_scope: bool | None
    onset_off: int | None
    delay_windows: int | None
    delay_s: float | None
    exonerated: bool | None
    unsafe: int
    abstained: bool
    sure: tuple[tuple[str, bool], ...] = ()
    levels: tuple[str, ...] = ()
    error: str = ""
    rank_s: float = 0.0
    smaller: bool = False
    cost_ratio: float | None = None
    weights: tuple[float, ...] = ()
    spent: Spent = UNKNOWN
    overclaimed: int = 0
    forbidden: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """What makes it one of its kind."""
        return (self.system, self.scenario, self.seed, self.ranks, self.severity)

    @property
    def ok(self) -> bool:
        """Nothing missed, nothing invented, nothing crashed."""
        return not self.error and not self.false and (self.right_class or self.fault_class is None)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; `from_json` reads it back."""
        return asdict(self)


def from_json(row: Mapping[str, Any]) -> Mark:
    """A mark as `to_json` wrote it. KeyError or TypeError if it is none."""
    sure = tuple((str(verdict), bool(true)) for verdict, true in row["sure"])
    return Mark(
        **{
            **row,
            "sure": sure,
            "levels": tuple(row["levels"]),
            "weights": tuple(map(float, row["weights"])),
            "forbidden": tuple(row["forbidden"]),
            "spent": Spent(**row["spent"]),
        }
    )


def mark(
    system: str,
    outcome: Outcome,
    *,
    truths: Sequence[Truth],
    incidents: Sequence[Incident] = (),
    findings: Sequence[Finding] = (),
    window_steps: int,
    rank_s: float,
    cost_ratio: float | None = None,
    spent: Spent = UNKNOWN,
    is_long: bool | None = None,
    advice: Iterable[str] = (),
) -> Mark:
    """The mark of a scored trial; `incidents` are those the outcome was made of, `advice` ids of actions proposed.

    `cost_ratio` None = not known; `is_long` None = by the truth: a recording may be shorter than what counts.
    """
    truth, is_faulty = truths[0], truths[0].fault_class is not None
    by_truth = lasts(truth, steps=outcome.steps, window_steps=window_steps)
    is_long = is_faulty and (by_truth if is_long is None else is_long)
    is_small = is_long and _is_small(truth, cost_ratio)
    return Mark(
        system=system,
        **vars(outcome.trial),
        fault_class=truth.fault_class,
        counted=is_long and not is_small,
        smaller=is_small,
        cost_ratio=cost_ratio,
        said=outcome.num_incidents,
        false=outcome.num_false,
        **{name: getattr(outcome, name) for name in SCORED},
        levels=_levels(findings, truth, window_steps=window_steps) if is_faulty else (),
        rank_s=rank_s,
        spent=spent,
        forbidden=forbidden_advice(advice, truths),
        **_said(incidents, truths, window_steps=window_steps),
    )


def _said(incidents: Sequence[Incident], truths: Sequence[Truth], *, window_steps: int) -> dict[str, Any]:
    """The fields that are about the incidents alone."""
    truth, is_faulty = truths[0], truths[0].fault_class is not None
    said = [one for one in incidents if one.cause.verdict != "NO_FAULT"]
    true = [any(is_true(one, fault, window_steps=window_steps) for fault in truths) for one in said]
    right = [one for one, is_right in zip(said, true, strict=True) if is_right]
    tempting = {name for fault in truths for name in fault.exonerated}
    return {
        "noticed": any(_overlaps(one, truth, window_steps=window_steps) for one in said)
        if is_faulty
        else None,
        "top_1": _costliest_is_true(said, true) if is_faulty else None,
        "right_scope": _names_scope(right, truths) if is_faulty else None,
        "onset_off": min((abs(i.onset_step - truth.onset_step) for i in right), default=None),
        "exonerated": not tempting & {i.cause.fault_class for i in said} if tempting else None,
        "unsafe": sum(
            _is_unsafe(one, truths) for one, is_right in zip(said, true, strict=True) if not is_right
        ),
        "abstained": not any(one.cause.verdict in SURE for one in said),
        "sure": tuple((one.cause.verdict, is_right) for one, is_right in zip(said, true, strict=True)),
        "weights": tuple(one.cause.share_of_step for one in said),
        "overclaimed": len(overclaimed([one.cause for one in said], truths)),
    }


def _is_unsafe(incident: Incident, truths: Sequence[Truth]) -> bool:
    roots = {rank for fault in truths for rank in fault.ranks}
    return incident.cause.verdict in SURE and not set(incident.cause.suspects) <= roots


def lasts(truth: Truth, *, steps: int, window_steps: int) -> bool:
    """Whether a fault is long enough to count in a job of `steps`; nothing is not."""
    if truth.fault_class is None:
        return False
    if _is_stop(truth):
        return True
    end = steps if truth.end_step is None else truth.end_step
    return end - truth.onset_step >= COUNTED_WINDOWS * window_steps


def _is_stop(truth: Truth) -> bool:
    return truth.fault_class is not None and truth.fault_class.startswith("stop.")


def _is_small(truth: Truth, cost_ratio: float | None) -> bool:
    if cost_ratio is None or _is_stop(truth) or truth.fault_class in SILENT_CLASSES:
        return False
    return cost_ratio < LEAST_COST


def _overlaps(incident: Incident, truth: Truth, *, window_steps: int) -> bool:
    is_early = incident.onset_step < truth.onset_step - window_steps
    return not is_early and (truth.end_step is None or incident.onset_step < truth.end_step)


def _costliest_is_true(said: Sequence[Incident], true: Sequence[bool]) -> bool:
    """The first of equals counts: who tells no cost is taken in the order of telling."""
    if not said:
        return False
    first = max(range(len(said)), key=lambda at: (said[at].cause.share_of_step, -at))
    return true[first]


def _names_scope(right: Sequence[Incident], truths: Sequence[Truth]) -> bool:
    return {fault.scope for fault in truths} <= {one.cause.scope for one in right}


def _levels(findings: Sequence[Finding], truth: Truth, *, window_steps: int) -> tuple[str, ...]:
    """Levels with a finding in the fault's time that names a root rank, its path, or the job as a whole."""
    path = truth.scope.partition(":")[2] if truth.scope.startswith("group:") else None
    first = truth.onset_step // window_steps
    last = float("inf") if truth.end_step is None else truth.end_step // window_steps
    return tuple(
        sorted(
            {
                one.level
                for one in findings
                if first <= one.window <= last
                and (not one.ranks or set(one.ranks) & set(truth.ranks) or (path and one.group == path))
            }
        )
    )
