"""What `argus triage` prints about bare series of step times."""

from __future__ import annotations

from collections import Counter

from argus.agent.card import render
from argus.agent.wording import counted, printable, quantity
from argus.analytics.finding import Finding
from argus.api.offline.series import SeriesReport, SeriesResult

MAX_LINES = 40
"""Series or findings listed on a terminal; all of them are in --json."""


def series_text(report: SeriesReport, *, color: bool = False) -> str:
    """The worst incident's card; of one series its findings, of several a line each."""
    count = sum(len(result.series.values_s) for result in report.results)
    what = report.results[0].series.name if len(report.results) == 1 else f"{len(report.results)} series"
    card = render(report.incident, report.diagnosis, topology=report.topology, color=color)
    if len(report.results) == 1:
        lines = [_finding_line(finding, report.results[0]) for finding in report.results[0].findings]
    else:
        lines = [_series_line(result) for result in report.results if result.findings]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f" and {len(lines) - MAX_LINES} more, see --json"]
    return "\n".join([printable(f" {what} · {counted(count, 'values')}"), "", card, *map(printable, lines)])


def _finding_line(finding: Finding, result: SeriesResult) -> str:
    steps = f"step {finding.start_step}"
    if finding.end_step != finding.start_step:
        steps += f"–{finding.end_step}"
    item = next(e for e in finding.evidence if e.name == "step_s")
    period = next((e for e in finding.evidence if e.name == "period"), None)
    every = f" every {quantity(period.value, period.unit)}" if period is not None else ""
    got = f"{quantity(item.value, result.series.unit)} against {quantity(item.baseline or 0.0, result.series.unit)}"
    return f" {finding.kind:<12}{steps}{every}: {got} ({finding.ratio:.2f}×)"


def _series_line(result: SeriesResult) -> str:
    counts = Counter(finding.kind for finding in result.findings)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    found = "; ".join(
        f"{incident.cause.evidence[0].value / (incident.cause.evidence[0].baseline or 1.0):.2f}× from step "
        f"{incident.onset_step}"
        for incident in result.incidents
    )
    return f" {result.series.name[-60:]:<60} {kinds}" + (f" · incident: {found}" if found else "")
