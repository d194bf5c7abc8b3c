"""The scoreboard as one HTML file that needs nothing else: failures first, plots, tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from argus.evals.marks import Mark
from argus.evals.report_curves import (
    MOST_WINDOWS,
    by_system,
    calibration,
    latency,
    rungs,
    trade_off,
)
from argus.evals.report_plots import curves, reliability, shares
from argus.evals.scoreboard import CLASS_TRIALS, Share, failures, ladder, line, lines, matrix, nothing_failed
from argus.evals.scoreboard_page import (
    Made,
    diagnosis_line,
    failure_line,
    flagged,
    made_line,
    promises,
    system_rows,
)
from argus.evals.study.plots import heat
from argus.evals.systems import OURS

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-size: 12px } td, th { border: 1px solid #ddd; padding: 3px 7px; text-align: left }
.wide { overflow-x: auto } .failed { color: #a3290f } svg { max-width: 46rem; display: block; margin: 0.5rem 0 }
figure { margin: 1.5rem 0 } figcaption { color: #555 } code { font-size: 12px }
"""


def html(marks: Sequence[Mark], made: Made) -> str:
    """The whole page."""
    parts = [
        "<h1>Argus scoreboard</h1>",
        f"<p>{_code(made_line(marks, made))}</p>",
        "<h2>What failed</h2>",
        _list([failure_line(one) for one in failures(marks)], style="failed")
        or f"<p>{nothing_failed(marks)}</p>",
        "<h2>What must hold</h2>",
        _list([_plain(one) for one in promises(marks)]),
        *_plots(marks),
        "<h2>Time to diagnosis</h2>",
        f"<p>{_code(diagnosis_line(marks))}</p>",
        "<h2>Side by side</h2>",
        _table(system_rows(lines(marks), made.not_measured)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Argus scoreboard</title>'
        f"<style>{STYLE}</style></head><body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _plots(marks: Sequence[Mark]) -> list[str]:
    ours = by_system(marks).get(OURS, [])
    return [
        *_found(marks),
        *_beside(marks),
        _figure(
            "What the words are worth",
            reliability(calibration(ours)),
            "The confidence Argus states with a verdict, and how many of such incidents were true (95 % interval).",
        ),
        _figure("What must hold", shares(_headline(ours)), "With Wilson's intervals of 95 %."),
    ]


def _found(marks: Sequence[Mark]) -> list[str]:
    """What is found, by level and by severity."""
    severities, found = rungs(ladder(marks))
    return [
        _figure(
            "Which level sees which cause",
            _matrix(matrix(marks)),
            f"Share of Argus' trials with a finding of that level at the fault's place and time. † fewer than "
            f"{CLASS_TRIALS} trials.",
        ),
        _figure(
            "Recall by severity",
            curves(
                found,
                x_label="severity",
                y_label="faulty trials whose whole truth was named",
                x_end=float(max(len(severities) - 1, 1)),
                names=severities,
            )
            if severities
            else "",
            "Of all faults but stops; 1.5× = the culprit's own step takes half as much again.",
        ),
    ]


def _beside(marks: Sequence[Mark]) -> list[str]:
    """At what price and how fast, system by system."""
    systems = by_system(marks)
    ends = max((point[0] for rows in systems.values() for point in trade_off(rows)), default=0.0)
    return [
        _figure(
            "Found against disturbed",
            curves(
                {name: trade_off(rows) for name, rows in systems.items()},
                x_label="healthy trials disturbed",
                y_label="faulty trials with a true incident",
                x_end=ends or 1.0,
                steps=True,
            ),
            "As less is demanded of an incident: first a firm verdict and a high cost, at the dot everything told.",
        ),
        _figure(
            "Time to the incident",
            curves(
                {name: latency(rows) for name, rows in systems.items()},
                x_label="windows after the onset's",
                y_label="faulty trials found by then",
                x_end=float(MOST_WINDOWS),
                steps=True,
            ),
            "Stops, which end their last window, are left out.",
        ),
    ]


def _headline(ours: Sequence[Mark]) -> dict[str, Share]:
    sums = line(OURS, ours)
    return {
        "precision": sums.precision,
        "recall": sums.recall,
        "top-1": sums.top_1,
        "class": sums.right_class,
        "exonerated": sums.exonerated,
        "healthy trials quiet": sums.healthy_quiet,
    }


def _matrix(table: Mapping[str, Mapping[str, Share]]) -> str:
    if not table:
        return ""
    names = {name: flagged(name, next(iter(row.values())).whole) for name, row in table.items()}
    value = {
        (names[name], key): share.ratio
        for name, row in table.items()
        for key, share in row.items()
        if share.ratio is not None
    }
    return heat("", list(names.values()), list(next(iter(table.values()))), value=value)


def _figure(title: str, plot: str, words: str) -> str:
    if not plot:
        return ""
    return f"<h2>{escape(title)}</h2><figure>{plot}<figcaption>{escape(words)}</figcaption></figure>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    cells = "".join(f"<th>{escape(one)}</th>" for one in head)
    lines_ = "".join(f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>\n" for row in body)
    return f'<div class="wide"><table><tr>{cells}</tr>\n{lines_}</table></div>'


def _list(items: Sequence[str], *, style: str = "") -> str:
    if not items:
        return ""
    kind = f' class="{style}"' if style else ""
    return f"<ul{kind}>" + "\n".join(f"<li>{escape(one)}</li>" for one in items) + "</ul>"


def _plain(text: str) -> str:
    """Without the page's marks for bold."""
    return text.replace("**", "")


def _code(text: str) -> str:
    """Words between back ticks set as code."""
    odd = [
        escape(part) if place % 2 == 0 else f"<code>{escape(part)}</code>"
        for place, part in enumerate(text.split("`"))
    ]
    return "".join(odd)
