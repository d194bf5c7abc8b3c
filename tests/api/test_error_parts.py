"""Errors of the analysis: an alert sees the first one of a part, too."""

from __future__ import annotations

import ast
from pathlib import Path

import argus.api.metrics
from argus.api.metrics import PARTS, make_metrics, render
from tests.api.test_series_budget import Watched

API = Path(argus.api.metrics.__file__).parent
ANALYSES = ("analysis.py", "historian.py", "late.py", "worker.py")


def test_each_part_is_told_before_its_first_error() -> None:
    """`increase()` of a series that begins at 1 is 0: the first error would be lost on the alert."""
    text = render(make_metrics(Watched(0), max_series=1)).decode()
    assert all(f'argus_analysis_errors_total{{part="{part}"}} 0.0\n' in text for part in PARTS)


def test_the_parts_are_those_that_are_counted() -> None:
    calls = [
        node
        for name in ANALYSES
        for node in ast.walk(ast.parse((API / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]
    given = [word.value for call in calls for word in call.keywords if word.arg == "part"]
    told = {one.value for one in given if isinstance(one, ast.Constant)}
    assert told | {"store", "turn"} == set(PARTS)  # worker.survive tells these two apart
