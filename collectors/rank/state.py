"""Whether this process is observed: one attribute, tested by everything the user calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argus.collectors.rank.user import UserMarks


def never() -> bool:
    """False."""
    return False


user: UserMarks | None = None
"""What `argus.phase` and its like talk to once this process is an armed rank."""

arm: Callable[[], None] | None = None
"""Makes it one, where that is still possible."""

is_compiling: Callable[[], bool] = never
"""`torch.compiler.is_compiling` once torch is there: constant-folded where a graph is being traced."""
