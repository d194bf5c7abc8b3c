"""The outcomes of live faults as a table, in the terminal and in the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from argus.evals.bench import machine_class

BEGIN, END = "<!-- live faults: written by argus eval live -->", "<!-- end of live faults -->"


def render(report: Mapping[str, Any]) -> str:
    """Wrong ones first, then the table, then what was skipped."""
    wrong = [row for row in report["trials"] if not row["ok"]]
    lines = [_wrong(row) for row in wrong]
    lines += [f"{'fault':<17}{'workload':<10}{'rank':>5}{'right':>7}{'windows':>9}{'seconds':>9}  named"]
    lines += [
        f"{row['fault']:<17}{row['workload']:<10}{row['rank']:>5}{'yes' if row['ok'] else 'NO':>7}"
        f"{_number(row['windows']):>9}{_number(row['seconds']):>9}  {row['got']}"
        for row in report["trials"]
    ]
    lines += [f"skipped: {item['fault']} on {item['workload']}: {item['why']}" for item in report["skipped"]]
    right = len(report["trials"]) - len(wrong)
    lines.append(
        f"{right} of {len(report['trials'])} named right, nothing else named, {report['wall_s']:.0f} s"
    )
    return "\n".join(lines)


def has_place(path: Path) -> bool:
    """Whether the page can be read and has the marks between which the figures go."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return 0 <= text.find(BEGIN) < text.find(END)


def write(report: Mapping[str, Any], path: Path) -> None:
    """Put the figures between the page's marks."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{markdown(report)}\n{END}{after}", encoding="utf-8")


def markdown(report: Mapping[str, Any]) -> str:
    """One row a fault and workload."""
    trials, skipped = report["trials"], report["skipped"]
    when, right = datetime.now(UTC).date().isoformat(), sum(row["ok"] for row in trials)
    lines = [
        f"{right} of {len(trials)} named right, {when}, {machine_class()}, {report['wall_s']:.0f} s.",
        "",
        "| fault | workload | right | windows to the incident | named |",
        "|---|---|---|---|---|",
    ]
    keys = dict.fromkeys((row["fault"], row["workload"]) for row in trials)
    for fault, workload in keys:
        lines.append(_row([r for r in trials if (r["fault"], r["workload"]) == (fault, workload)]))
    lines += [f"| {item['fault']} | {item['workload']} | skipped | – | {item['why']} |" for item in skipped]
    return "\n".join(lines)


def _row(rows: Sequence[Mapping[str, Any]]) -> str:
    right = sum(row["ok"] for row in rows)
    windows = " ".join(_number(row["windows"]) for row in rows)
    said = "; ".join(dict.fromkeys(row["got"] for row in rows if not row["ok"])) or rows[0]["got"]
    shown = f"{right} of {len(rows)}"
    return (
        f"| {rows[0]['fault']} | {rows[0]['workload']} | {shown if right == len(rows) else f'**{shown}**'} "
        f"| {windows} | {said} |"
    )


def _wrong(row: Mapping[str, Any]) -> str:
    wanted = " or ".join(row["wanted"])
    return f"WRONG {row['fault']} on rank {row['rank']} of {row['workload']}: expected {wanted}, got {row['got']}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"
