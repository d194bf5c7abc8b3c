"""The study as a page: tables, plots, and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from argus.evals.study.families import FAMILIES
from argus.evals.study.measure import BUDGETED
from argus.evals.study.plots import heat, lines

Row = Mapping[str, Any]

FLAG = {"smoke": " --smoke", "default": "", "full": " --full"}
SUMMARIES = ("triple", "triple+max+sum", "sketch")
METHODS = ("raw", "triple", "triple+max+sum", "sketch", "KS", "KL", BUDGETED, "default")
FRESH = 100_000
"""Seeds from here on are not looked at while rules and defaults are chosen."""

SPEARMAN = 0.9
TOLERANCE = 0.01
RECALL = 0.95
FAILS = 0.9
"""Below this F1 a method has failed on a condition."""

BLIND = 0.05
"""Hits that as many blind flags reach with this chance are no detection."""


def page(study: Row, *, date: str, machine: str) -> str:
    """docs/fidelity.md."""
    rows = study["rows"]
    return (
        "\n\n".join(
            [
                "# What kernel summaries lose, and what that costs",
                (
                    f"Written by `argus eval fidelity{FLAG[study['size']]} --seed {study['seed']} --write docs/fidelity.md` on "
                    f"{date}, {machine}. Everything is simulated and seeded; rules and "
                    f"defaults were chosen on seeds below {FRESH}. {_scope(study)}"
                ),
                (
                    "Methods: *raw* = all durations; *triple* = (count, p50, p99) with the published clusters and log-normal "
                    "mixture; *triple + max + sum* = what Argus keeps; *sketch* = as many plain quantiles as that has numbers; "
                    "KS and KL stand in for W₁ on the triple. Those six columns use the published rule s > Q3 + 1.5·IQR on one "
                    "window. *default* is the product's detector after three windows; beside it, *raw mean, same budget* = what the "
                    "mean of all raw durations of those windows shows at the default's false-alarm budget. One kernel of six is sick."
                ),
                "## Distances\n\n" + _distances(rows),
                "## Rank correlation of the distance matrices\n\n" + _correlation(rows),
                "## Detection, F1\n\n![F1 of every family](fidelity-f1.svg)\n\n" + _detection(rows),
                "## Default against published rule\n\n" + verdict(rows),
                "## Smallest slowdown found\n\n![recall over slowdown](fidelity-recall.svg)\n\n"
                + _smallest(study["sweep"]),
                "## Sensitivity\n\n![F1 over every parameter](fidelity-surfaces.svg)\n\n"
                + _surfaces(study["surfaces"]),
                "## False alarms on healthy data\n\n"
                + _healthy(study["healthy"])
                + "\n\n"
                + _healthy_families(study["healthy_rows"]),
            ]
        )
        + "\n"
    )


def figures(study: Row) -> dict[str, str]:
    """SVG text by file name."""
    base = _base(study["rows"])
    cells = {(row["family"], name): row["f1"][name] for row in base for name in METHODS if name in row["f1"]}
    families = [row["family"] for row in base]
    curves: dict[str, list[tuple[str, float]]] = {}
    for row in study["sweep"]:
        for name in ("triple", "default"):
            key = f"{'paper' if name == 'triple' else 'default'}, {row['family']}, n={row['count']}"
            curves.setdefault(key, []).append((f"×{row['factor']:.2f}", row["recall"][name]))
    few = dict(list(curves.items())[: min(len(curves), 6)])
    surfaces: dict[tuple[str, str], float] = {}
    names = []
    for parameter, values in study["surfaces"].items():
        for value, scores in values.items():
            names.append(f"{parameter}: {value}")
            surfaces[names[-1], "paper"] = scores["f1_paper"]
            surfaces[names[-1], "default"] = scores["f1_default"]
    return {
        "fidelity-f1.svg": heat("F1 at the base point", families, METHODS, value=cells),
        "fidelity-recall.svg": lines("Recall of one slow rank in 64", few, y_label="recall"),
        "fidelity-surfaces.svg": heat("F1, mean over families", names, ("paper", "default"), value=surfaces),
    }


def _scope(study: Row) -> str:
    if study["size"] == "full":
        return "This is the full design."
    return (
        "This is a reduced form of the design: few seeds a condition, up to 512 ranks and a shorter healthy run; "
        "`argus eval fidelity --full` runs all of it."
    )


def _base(rows: Sequence[Row]) -> list[Row]:
    seen: dict[str, Row] = {}
    for row in rows:
        seen.setdefault(row["family"], row)
    return list(seen.values())


def _distances(rows: Sequence[Row]) -> str:
    """Relative error of W₁ between a sick and a healthy rank, worst condition of each family beside the base."""
    lines_ = [
        "| family | " + " | ".join(f"{name}, median (p95)" for name in SUMMARIES) + " |",
        "|---|---|---|---|",
    ]
    for row in _base(rows):
        cells = [
            f"{row['error'][n]:.1%} ({row['error_p95'][n]:.0%})" if n in row["error"] else "—"
            for n in SUMMARIES
        ]
        lines_.append(f"| {row['family']} | " + " | ".join(cells) + " |")
    worst = max(rows, key=lambda row: row["error"].get("triple+max+sum", 0.0))
    return "\n".join(
        [
            (
                "Relative error of W₁ against the raw durations over pairs of a sick and a healthy rank, base point of each "
                "family (64 ranks, one sick, ×1.2 or a tail of ×8)."
            ),
            "",
            *lines_,
            "",
            (
                f"Worst condition for triple + max + sum: {_name(worst)}, median error "
                f"{worst['error'].get('triple+max+sum', float('nan')):.0%}."
            ),
        ]
    )


def _correlation(rows: Sequence[Row]) -> str:
    faulty = [row for row in rows if row["share"] >= 0.1 or row["factor"] >= 1.5]
    lines_ = ["| family | " + " | ".join(SUMMARIES) + " | |", "|---|---|---|---|---|"]
    for family in FAMILIES:
        mine = [row for row in faulty if row["family"] == family] or [
            r for r in rows if r["family"] == family
        ]
        if not mine:
            continue
        least = {name: min(row["spearman"].get(name, np.nan) for row in mine) for name in SUMMARIES}
        verdict = "" if least["triple+max+sum"] >= SPEARMAN else "**fails**"
        cells = " | ".join(f"{least[name]:.2f}" for name in SUMMARIES)
        lines_.append(f"| {family} | {cells} | {verdict} |")
    return "\n".join(
        [
            (
                "Lowest Spearman correlation with the raw matrix over the conditions with a clear fault (a tenth of the ranks "
                f"or more, or ×1.5); below {SPEARMAN} the family is marked as failing. Among healthy ranks distances are "
                "sampling noise, which no summary keeps and no detector should use: most failures are that."
            ),
            "",
            *lines_,
        ]
    )


def _detection(rows: Sequence[Row]) -> str:
    lines_ = ["| condition | " + " | ".join(METHODS) + " |", "|" + "---|" * (len(METHODS) + 1)]
    for row in rows:
        cells = " | ".join(f"{row['f1'][name]:.2f}" if name in row["f1"] else "—" for name in METHODS)
        lines_.append(f"| {_name(row)} | {cells} |")
    return "\n".join(lines_)


def verdict(rows: Sequence[Row]) -> str:
    """How the default compares with the published rule, with every row on which it is not better."""
    failing = [row for row in rows if _f1(row, "triple") < FAILS]
    beaten = sum(_f1(row) > _f1(row, "triple") for row in failing)
    lost = [row for row in rows if _f1(row) < _f1(row, "triple") - TOLERANCE]
    blind = [row for row in lost if row["luck"]["triple"] > BLIND]
    bounded = [row for row in lost if row not in blind and _f1(row, BUDGETED) < _f1(row, "triple")]
    rest = [row for row in lost if row not in blind and row not in bounded]
    tied = [row for row in failing if _f1(row) <= _f1(row, "triple") and row not in lost]
    parts = [
        (
            f"{len(rows)} conditions. The published rule fails (F1 < {FAILS}) on {len(failing)}; the default has the higher F1 on "
            f"{beaten} of them. On all conditions it loses more than {TOLERANCE} on {len(lost)}."
        ),
        *_listed("Lost, although the raw mean at the same budget is no worse than the published rule", rest),
        *_listed(
            "Lost to the budget: one false flag in 3·10¹⁰ tests leaves less than the published rule finds among its false "
            "flags, even to a detector that sees every raw duration",
            bounded,
        ),
        *_listed(
            f"Lost to luck: the published rule's hits are no more than as many blind flags would have (p > {BLIND})",
            blind,
        ),
        *_listed("Neither finds anything more than the other", tied),
    ]
    return "\n\n".join(parts)


def _f1(row: Row, method: str = "default") -> float:
    return float(row["f1"][method])


def _listed(title: str, rows: Sequence[Row]) -> list[str]:
    """The rows under their title, nothing if there are none."""
    if not rows:
        return []
    lines_ = [
        f"- {_name(row)}: default {_f1(row):.2f} ({row['false']['default']} false), published "
        f"{_f1(row, 'triple'):.2f} ({row['false']['triple']} false, p = {row['luck']['triple']:.2g}), raw mean at the same "
        f"budget {_f1(row, BUDGETED):.2f}"
        for row in rows
    ]
    return [f"{title} ({len(rows)}):", "\n".join(lines_)]


def _smallest(sweep: Sequence[Row]) -> str:
    lines_ = ["| family | launches a window | published | default |", "|---|---|---|---|"]
    for family, count in dict.fromkeys((row["family"], row["count"]) for row in sweep):
        mine = [row for row in sweep if (row["family"], row["count"]) == (family, count)]
        cells = []
        for name in ("triple", "default"):
            found = [row["factor"] for row in mine if row["recall"][name] >= RECALL]
            false = sum(row["false"][name] for row in mine)
            cells.append(f"×{min(found):.2f} ({false} false)" if found else f"none ({false} false)")
        lines_.append(f"| {family} | {count} | {cells[0]} | {cells[1]} |")
    return "\n".join([f"One slow rank in 64; the smallest factor with recall ≥ {RECALL}.", "", *lines_])


def _surfaces(surfaces: Mapping[str, Mapping[str, Row]]) -> str:
    out = [
        "A slowdown of ×1.05 (or a tail) on one rank, mean over families; the default value stands on a plateau."
    ]
    for parameter, values in surfaces.items():
        out += [
            "",
            f"| {parameter} | F1 published | F1 default | false published | false default | W₁ error |",
            "|---|---|---|---|---|---|",
        ]
        for value, row in values.items():
            out.append(
                f"| {value} | {row['f1_paper']:.2f} | {row['f1_default']:.2f} | {row['false_paper']} "
                f"| {row['false_default']} | {row['error_default']:.2%} |"
            )
    return "\n".join(out)


def _healthy(result: Row) -> str:
    paper = ", ".join(f"α = {alpha}: {rate:.2%}" for alpha, rate in result["paper"].items())
    return (
        f"Default: {result['flags']} flags in {result['rank_kernel_windows']:,} rank-kernel-windows of log-normal kernels "
        f"({result['windows']} windows of {result['jobs']} jobs, share gate off), so below {result['upper_95']:.1e} per "
        f"rank-kernel-window with 95 % confidence; {result['candidates_in_one_window']} candidates before persistence. "
        "The threshold is set for 1 in 3·10¹⁰, which a run of this length can only bound.\n\n"
        f"Published rule, share of healthy rank-kernel-windows flagged ({result['paper_rank_kernel_windows']:,} tests): {paper}."
    )


def _healthy_families(rows: Sequence[Row]) -> str:
    lines_ = [
        "Ranks flagged on healthy data of every family, from durations to votes:",
        "",
        "| family | ranks × trials | published | default |",
        "|---|---|---|---|",
    ]
    for row in rows:
        false = row["false"]
        lines_.append(
            f"| {row['family']} | {row['ranks']} × {row['seeds']} | {false['triple']} | {false['default']} |"
        )
    return "\n".join(lines_)


def _name(row: Row) -> str:
    sick = f"{row['share']:.0%} of {row['ranks']}" if row["share"] >= 0.05 else f"1 of {row['ranks']}"
    fault = "" if "tail" in row["family"] else f", ×{row['factor']:g}"
    return f"{row['family']}, n={row['count']}, {sick}{fault}"
