"""The scoreboard as text: a table for the terminal, and docs/scoreboard.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from argus.evals.asked_model import NO_ENDPOINT_SET, NOT_MEASURED
from argus.evals.marks import Mark
from argus.evals.scoreboard import (
    CLASS_TRIALS,
    HEADLINE_TRIALS,
    Line,
    Share,
    Took,
    delays,
    failures,
    ladder,
    lines,
    matrix,
    nothing_failed,
)
from argus.evals.systems import OURS

WANTED = (
    ("precision", 0.99),
    ("recall", 0.99),
    ("top_1", 0.99),
    ("right_class", 0.95),
)
"""What must hold, as shares."""

WINDOWS = 3

ADVISING = (OURS, "agent")
"""Systems that say what to do."""


def render(marks: Sequence[Mark], *, not_measured: Sequence[str] = ()) -> str:
    """A line a system for the terminal, failures of ours first, at the end those that could not be measured."""
    head = (
        f"{'system':<20}{'right':>8}{'precision':>11}{'noticed':>9}{'recall':>8}{'short':>8}{'top-1':>8}{'class':>8}{'scope':>8}"
        f"{'false/healthy':>15}{'unsafe':>8}{'delay p50/max':>15}"
    )
    rows = [
        f"{one.system:<20}{_percent(one.right):>8}{_percent(one.precision):>11}{_percent(one.noticed):>9}"
        f"{_percent(one.recall):>8}"
        f"{_percent(one.recall_short):>8}{_percent(one.top_1):>8}{_percent(one.right_class):>8}"
        f"{_percent(one.right_scope):>8}{one.false_healthy:>15}{one.unsafe:>8}{_delay(one):>15}"
        for one in lines(marks)
    ]
    lacking = [f"{name:<20}{NOT_MEASURED:>14} ({NO_ENDPOINT_SET})" for name in not_measured]
    return "\n".join([*map(failure_line, failures(marks)), head, *rows, *lacking])


@dataclass(frozen=True, kw_only=True)
class Made:
    """How marks were made, to be printed with them; `not_measured` are systems that had no model to ask."""

    suite: str
    command: str
    date: str
    machine: str
    took: str
    not_measured: tuple[str, ...] = ()


def page(marks: Sequence[Mark], made: Made) -> str:
    """The page: how it was made, what failed, what was missed, then the tables."""
    failed = failures(marks)
    parts = [
        "# Scoreboard",
        made_line(marks, made) + " What each number means: [evals](evals.md).",
        "## What failed",
        "\n".join(f"- {failure_line(one)}" for one in failed) or nothing_failed(marks),
        "## What must hold",
        "\n".join(f"- {line}" for line in promises(marks)),
        "## Side by side",
        _systems(lines(marks), made.not_measured),
        "## Time to diagnosis",
        diagnosis_line(marks),
        "## Class by class (Argus)",
        (
            f"Shares of trials; `L1` … `L3` = a finding of that level at the fault's place and time. Classes marked † had "
            f"fewer than {CLASS_TRIALS} trials and say little."
        ),
        _grid("class", matrix(marks)),
        "## Windows to the incident",
        (
            "From the window of the onset to the one that opened the incident, of the faults that were found. Which faults take "
            "longer than three windows by their nature: [evals](evals.md)."
        ),
        _windows(marks),
        "## Recall by severity",
        "Of all faults but stops; severity 1.5 = the culprit's step takes half as much again.",
        _grid("system", ladder(marks)),
    ]
    return "\n\n".join(parts) + "\n"


def sizes(marks: Sequence[Mark]) -> tuple[int, int]:
    """How many faulty and how many healthy trials there were."""
    healthy = len({one.key[1:] for one in marks if one.fault_class is None})
    return len({one.key[1:] for one in marks}) - healthy, healthy


def made_line(marks: Sequence[Mark], made: Made) -> str:
    """By what, when, where and in what time; what was run."""
    seeds = sorted({one.seed for one in marks})
    faulty, healthy = sizes(marks)
    core_s = sum({one.key[1:]: one.spent.staged_s or 0.0 for one in marks}.values())
    core_s += sum(one.spent.cpu_s or 0.0 for one in marks)
    of = f"seeds {seeds[0]} to {seeds[-1]}" if seeds else "no trial"
    return (
        f"Written by `{made.command}` on {made.date}, {made.machine}, {made.took}; all slices took {core_s:.0f} seconds "
        f"of one core. {faulty} faulty and {healthy} healthy trials, {of}. {_made_of(marks)}"
    )


def diagnosis_line(marks: Sequence[Mark]) -> str:
    """How long after the onset the diagnosis stands, in words."""
    by_name = {one.system: one.took for one in lines(marks)}
    ours = by_name.get(OURS)
    if ours is None or ours.diagnosis_s is None:
        return "Not measured."
    return (
        f"Without a model, from the onset of the fault to the worded diagnosis: {_number(ours.diagnosis_s)} s in the "
        f"median, {_number(ours.diagnosis_s_p95)} s at the 95th percentile of the faults that were found. Nearly all of "
        f"it is the job's own time until a window is full. {_with_model(by_name.get('agent'))}"
    )


def _with_model(agent: Took | None) -> str:
    early = "With the agent the diagnosis stands as early, and what the model adds comes later"
    if agent is None or agent.diagnosis_s is None:
        return f"{early} by what `argus eval agent` measures on an endpoint; no endpoint was in this run."
    return (
        f"{early}: {_number(agent.diagnosis_s)} s after the onset in the median, "
        f"{_number(agent.diagnosis_s_p95)} s at the 95th percentile."
    )


def _made_of(marks: Sequence[Mark]) -> str:
    recorded = [one.cost_ratio is not None and not one.rank_s for one in marks if one.fault_class is not None]
    if recorded and all(recorded):
        return "Recordings of real jobs with faults put in."
    return (
        "Everything is simulated."
        if not any(recorded)
        else "Simulated jobs, and recordings with faults put in."
    )


def promises(marks: Sequence[Mark]) -> list[str]:
    """What must hold, each with whether it does."""
    faulty, healthy = sizes(marks)
    ours = next((one for one in lines(marks) if one.system == OURS), None)
    if ours is None:
        return ["Argus itself was not run."]
    shares: Mapping[str, Share] = {name: getattr(ours, name) for name, _ in WANTED}
    rows = [
        f"{name.replace('_', '-')} ≥ {least:g}: {shares[name]} — {_met(shares[name].ratio, least)}"
        for name, least in WANTED
    ]
    late = ours.delay_windows_max
    rows.append(
        f"at most {WINDOWS} windows to the incident: {_number(late)} at most — "
        f"{'not measured' if late is None else 'met' if late <= WINDOWS else 'MISSED'}"
    )
    rows.append(
        f"at most 1 false incident per healthy day of 10,000 ranks: {ours.false_healthy} seen, 95 % bound "
        f"{_number(ours.per_day_upper)} a day — {_budget(ours)}"
    )
    unsafe = ours.unsafe + ours.forbidden
    rows.append(
        f"no unsafe advice: {ours.unsafe} healthy ranks accused, {ours.forbidden} forbidden actions — "
        f"{'met' if not unsafe else 'MISSED'}"
    )
    if min(faulty, healthy) < HEADLINE_TRIALS:
        rows.append(
            f"a headline takes {HEADLINE_TRIALS} faulty and as many healthy trials; this run had {faulty} and "
            f"{healthy}: **too few**, read the intervals"
        )
    return rows


def _budget(ours: Line) -> str:
    if ours.per_day is None or ours.per_day_upper is None:
        return "not measured"
    if ours.per_day > 1:
        return "MISSED"
    return "met" if ours.per_day_upper <= 1 else "not shown: too few rank-days were run"


def _met(ratio: float | None, least: float) -> str:
    if ratio is None:
        return "not measured"
    return "met" if ratio >= least else "MISSED"


def system_rows(rows: Sequence[Line], not_measured: Sequence[str] = ()) -> list[list[str]]:
    """A head and a row a score, a column a system."""
    columns: Mapping[str, Callable[[Line], object]] = {
        "right": lambda one: one.right,
        "precision": lambda one: one.precision,
        "noticed": lambda one: one.noticed,
        "recall": lambda one: one.recall,
        "recall, short faults": lambda one: one.recall_short,
        "recall, faults below 1 % of the step": lambda one: one.recall_smaller,
        "F1": lambda one: _number(one.f1),
        "top-1": lambda one: one.top_1,
        "class": lambda one: one.right_class,
        "scope": lambda one: one.right_scope,
        "exonerated": lambda one: one.exonerated,
        "abstained": lambda one: one.abstained,
        "onset off, steps": lambda one: _number(one.onset_off_median),
        "windows p50/max": _delay,
        "healthy quiet": lambda one: one.healthy_quiet,
        "false per 10k-rank day (95 % bound)": lambda one: (
            f"{_number(one.per_day)} ({_number(one.per_day_upper)})"
        ),
        "unsafe": lambda one: one.unsafe,
        "forbidden actions": lambda one: one.forbidden if one.system in ADVISING else "–",
        "overclaimed": lambda one: one.overclaimed,
        "CONFIRMED true": lambda one: one.calibration["CONFIRMED"],
        "LIKELY true": lambda one: one.calibration["LIKELY"],
        "Brier": lambda one: _number(one.brier),
        "crashed": lambda one: one.crashed,
        "onset to diagnosis p50/p95, s": lambda one: (
            f"{_number(one.took.diagnosis_s)}/{_number(one.took.diagnosis_s_p95)}"
        ),
        "ms a window, wall (core)": lambda one: (
            f"{_number(_scaled(one.took.wall_s_per_window, 1e3))} ({_number(_scaled(one.took.cpu_s_per_window, 1e3))})"
        ),
        "memory at most, MiB": lambda one: _number(_scaled(one.took.peak_bytes, 2**-20)),
        "bytes per rank-step": lambda one: _number(one.took.bytes_per_rank_step),
    }
    head = ["", *(one.system for one in rows), *not_measured]
    lacking = [NOT_MEASURED] * len(not_measured)
    return [head, *([name, *(str(get(one)) for one in rows), *lacking] for name, get in columns.items())]


def _systems(rows: Sequence[Line], not_measured: Sequence[str]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in system_rows(rows, not_measured))
    return "\n".join([head, f"|---|{'---|' * (len(rows) + len(not_measured))}", *body])


def _grid(what: str, table: Mapping[str, Mapping[str, Share]]) -> str:
    keys = list(next(iter(table.values()), {}))
    head = f"| {what} | trials | {' | '.join(keys)} |\n|---|---|{'---|' * len(keys)}"
    body = [
        f"| {flagged(name, _whole(row, what)) if what == 'class' else name} | {_whole(row, what)} | "
        f"{' | '.join(_percent(row[key]) for key in keys)} |"
        for name, row in table.items()
    ]
    return "\n".join([head, *body])


def _windows(marks: Sequence[Mark]) -> str:
    rows = [
        f"| {name} | {one.trials} | {one.median:g} | {one.most} | {one.slowest if one.most > WINDOWS else ''} |"
        for name, one in delays(marks).items()
    ]
    return "\n".join(["| class | trials | median | most | longest in |", "|---|---|---|---|---|", *rows])


def flagged(name: str, trials: int) -> str:
    """A class's name, with a mark if its trials are too few."""
    return name if trials >= CLASS_TRIALS else f"{name} †"


def _whole(row: Mapping[str, Share], what: str) -> int:
    """Trials of a row: each severity has its own, every level has all."""
    parts = [share.whole for share in row.values()]
    return sum(parts) if what == "system" else parts[0]


def failure_line(one: Mark) -> str:
    """A mark that is not in order, in a line."""
    wanted = one.fault_class or "nothing"
    if one.error:
        got = one.error
    elif one.false:
        got = f"{one.false} of {one.said} incidents false"
    else:
        got = "the right ranks, another cause" if one.found else "not found"
    size = f" ranks {one.ranks}" if one.ranks else ""
    return f"FAILED {one.scenario}{size} severity {one.severity} seed {one.seed}: wanted {wanted}, got {got}"


def _percent(share: Share) -> str:
    return "–" if share.ratio is None else f"{share.ratio:.1%}"


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _delay(one: Line) -> str:
    if one.delay_windows_max is None:
        return "–"
    return f"{one.delay_windows_median:g}/{one.delay_windows_max}"
