"""How much people are told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Pace:
    """At most `max_posts` messages of a notifier in `window_s`; the day's digest at `digest_hour` UTC.

    Five in ten minutes is what somebody on call still reads one by one.
    """

    max_posts: int = 5
    window_s: float = 600.0
    digest_hour: int = 7
