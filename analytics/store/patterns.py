"""Regular expressions that others wrote, matched within a bound of time."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from math import prod

import regex  # type: ignore[import-untyped]

LOG = logging.getLogger("argus.patterns")

MAX_PATTERN = 256
"""Characters of a pattern: people's are short, and a long one may take long to read."""

MAX_REPEATS = 1000
"""How often a pattern may say that something repeats, nested repetitions multiplied: RE2's own limit. What says more
takes minutes to read."""

SLOW_S = 0.02
"""Some thousand times what a pattern of people takes on a name. RE2, which Alertmanager has, never backtracks; this does."""

MAX_KEPT = 4096
_REPEAT = re.compile(r"\{(\d*),?(\d*)\}")


class Pattern:
    """A pattern that has to fit a whole text. One that took too long is said once and not tried again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._read: regex.Pattern[str] | None = regex.compile(text)

    def fits(self, text: str) -> bool | None:
        """Whether it fits; None where that takes too long to find out."""
        if self._read is None:
            return None
        try:
            return self._read.fullmatch(text, timeout=SLOW_S) is not None
        except TimeoutError:
            self._read = None
            LOG.warning(
                "the pattern %r takes too long to match %.60r: a silence that has it silences nothing here",
                self._text,
                text,
            )
            return None


@lru_cache(maxsize=MAX_KEPT)
def pattern(text: str) -> Pattern | None:
    """The one pattern of a text; None if it cannot be read."""
    counts = [max(int(count or 1) for count in found) for found in _REPEAT.findall(text[:MAX_PATTERN])]
    if len(text) > MAX_PATTERN or prod(max(count, 1) for count in counts) > MAX_REPEATS:
        return None
    try:
        return Pattern(text)
    except (regex.error, OverflowError, RecursionError):
        return None
