"""Folders of Ascend's profilers (torch_npu, MindSpore): whose trace is in them, and what beside it is no step time.

Layout: hiascend.com, "Data Storing Directories": `{worker}_{time}_ascend_pt/profiler_info_{rank}.json`, and below it
`ASCEND_PROFILER_OUTPUT/trace_view.json` with tables of operators, kernels and memory.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from argus.collectors.records.layout import MAX_WORLD

OUTPUT = "ASCEND_PROFILER_OUTPUT"
_INFO = re.compile(r"(?:profiler_info|ascend_(?:pytorch|mindspore)_profiler)_(\d{1,7})\.(?:json|db)$")


def folder_of(path: PurePath) -> PurePath:
    """The folder that is named for the process a file is of."""
    return path.parent.parent if path.parent.name == OUTPUT else path.parent


def rank_beside(path: Path) -> int | None:
    """The rank that the profiler wrote into the names of files beside a trace, None if none or several do."""
    if path.parent.name != OUTPUT:
        return None
    names = [one.name for folder in (path.parent.parent, path.parent) for one in folder.iterdir()]
    found = {int(match[1]) for name in names if (match := _INFO.match(name))}
    return found.pop() if len(found) == 1 and max(found) < MAX_WORLD else None


def is_table(path: PurePath) -> bool:
    """Whether a file is one of the profiler's tables: sums and single operators, no steps of a job."""
    return path.parent.name == OUTPUT and path.suffix.lower() == ".csv"
