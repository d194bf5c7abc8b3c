"""Numbers of options, checked before anything is asked of the service."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from argus.collectors.records.layout import MAX_WORLD


def whole(low: int, high: int) -> Callable[[str], int]:
    """What reads a whole number in [low, high]; argparse names the option beside what is wrong.

    >>> whole(1, 100)("3")
    3
    """

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must be a whole number from {low} to {high}, got {text!r}")
        return value

    return read


def seconds(high: float) -> Callable[[str], float]:
    """What reads seconds above 0 and at most `high`.

    >>> seconds(60)("1.5")
    1.5
    """

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value <= high:  # also NaN
            raise argparse.ArgumentTypeError(f"must be seconds above 0, at most {high:g}, got {text!r}")
        return value

    return read


def add_ranks(parser: argparse.ArgumentParser) -> None:
    """`--rank N`, of a run, as often as one likes."""
    parser.add_argument(
        "--rank",
        type=whole(0, MAX_WORLD - 1),
        action="append",
        default=[],
        metavar="N",
        help="may be repeated",
    )
