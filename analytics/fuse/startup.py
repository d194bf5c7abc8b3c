"""Test 2, start-up: the first windows of an attempt only teach, however uneven they are."""

from __future__ import annotations

from collections.abc import Sequence

from argus.analytics.view import Digest

MIN_PAST = 2
"""Windows of an attempt that only teach: start-up is uneven in ways no step flag covers."""


def is_start_up(past: Sequence[Digest], *, min_past: int = MIN_PAST) -> bool:
    """Whether too little of the attempt is known to accuse anybody."""
    return len(past) < min_past
