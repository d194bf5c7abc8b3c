"""The record layouts the tests build buffers from: every version cupti-python ships."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from argus.collectors.rank.cupti.kinds import (
    CONCURRENT_KERNEL,
    DRIVER,
    MEMCPY,
    MEMCPY2,
    MEMSET,
    RUNTIME,
)
from argus.collectors.rank.cupti.layouts import Candidate, candidates


def module() -> Any:
    """cupti-python, or a skip that says why."""
    return pytest.importorskip("cupti.cupti", reason="cupti-python (extra `gpu`) is not installed")


def known() -> dict[int, tuple[Candidate, ...]]:
    return candidates(module())


def layouts(version: int) -> dict[int, np.dtype[Any]]:
    """One layout a kind: the `version`-th that is known, counted from the newest."""
    found = known()
    kinds = (CONCURRENT_KERNEL, MEMCPY, MEMCPY2, MEMSET, RUNTIME, DRIVER)
    return {kind: found[kind][max(len(found[kind]) - 1 - version, 0)].dtype for kind in kinds}


VERSIONS = range(5)
