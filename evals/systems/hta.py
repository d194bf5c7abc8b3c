"""Holistic Trace Analysis: the rank whose last long collective kernel starts latest (HolisticTraceAnalysis on PyPI).

A peer that reads Kineto traces alone. It always names as many ranks as it is asked for; one is asked for. Its
packages are many, so it may live in an environment of its own: HTA_PYTHON is that environment's Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

PYTHON = "HTA_PYTHON"
NOT_THERE = (
    f"HolisticTraceAnalysis is not installed: pip install HolisticTraceAnalysis, or set {PYTHON} to the Python of "
    "an environment that has it"
)
WAIT_S = 300.0

SCRIPT = """
import json, sys
from hta.trace_analysis import TraceAnalysis
files = {int(rank): path for rank, path in json.load(sys.stdin).items()}
told = TraceAnalysis(trace_files=files, include_last_profiler_step=True).get_potential_stragglers(num_candidates=1)
print(json.dumps([int(rank) for rank in told]))
"""


def why_not() -> str:
    """Why it cannot be run here, "" if it can."""
    return "" if os.environ.get(PYTHON) or find_spec("hta") else NOT_THERE


def accuse_traces(files: Mapping[int, Path]) -> tuple[int, ...]:
    """The ranks it names. RuntimeError if it gave up."""
    done = subprocess.run(
        [os.environ.get(PYTHON, sys.executable), "-c", SCRIPT],
        input=json.dumps({rank: str(path) for rank, path in files.items()}),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"hta gave up: {done.stderr.strip().splitlines()[-1:]}")
    return tuple(json.loads(done.stdout.strip().splitlines()[-1]))
