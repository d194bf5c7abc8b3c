"""Findings and incidents as the short rows that tools show; text of others is capped and printable."""

from __future__ import annotations

import math
from dataclasses import asdict

from argus.agent.evidence import Json
from argus.analytics.finding import Finding
from argus.collectors.records.text import tame

DOC_RUN = "NAME or NAME#ATTEMPT; null = the one in question"
DOC_WINDOW = "null = the latest, or that in question"

MAX_NAME = 120
"""Characters of a kernel's or group's name: C++ signatures are longer and say no more."""

MAX_RANKS = 16
"""Ranks of a row."""

DIGITS = 5
"""Significant digits of a number shown: more is noise, and tokens."""


def number(value: float | None) -> float | None:
    """A measured number as it is shown; None where it is unknown.

    >>> number(0.123456789), number(float("nan"))
    (0.12346, None)
    """
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")


def name_of(text: str | None) -> str | None:
    """A name from outside, fit to show."""
    return None if text is None else tame(text, MAX_NAME)


def finding_row(finding: Finding) -> Json:
    """A finding in one line."""
    return {
        "id": finding.id,
        "window": finding.window,
        "level": finding.level,
        "kind": finding.kind,
        "role": finding.role,
        "ranks": list(finding.ranks[:MAX_RANKS]),
        "num_ranks": len(finding.ranks),
        "group": name_of(finding.group),
        "phase": name_of(finding.phase),
        "kernel": name_of(finding.kernel),
        "ratio": number(finding.ratio),
        "effect_s_per_step": number(finding.effect_s_per_step),
        "significance": number(finding.significance),
    }


def finding_whole(finding: Finding) -> Json:
    """A finding with all that is known of it."""
    return {
        **finding_row(finding),
        "detector": finding.detector,
        "ranks": list(finding.ranks),
        "nodes": [tame(node, MAX_NAME) for node in finding.nodes],
        "start_step": finding.start_step,
        "end_step": finding.end_step,
        "share_of_step": number(finding.share_of_step),
        "evidence": [
            {
                **asdict(item),
                "name": tame(item.name, MAX_NAME),
                "note": tame(item.note, MAX_NAME),
                "value": number(item.value),
                "baseline": number(item.baseline),
            }
            for item in finding.evidence
        ],
    }
