"""What a detector would be shown of a job, moment by moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from argus.analytics.digest import digest_of
from argus.analytics.series.live import LiveSeries, hear
from argus.analytics.view import PAST_WINDOWS, Digest, View
from argus.analytics.window import assemble
from argus.evals.moments import Moment
from argus.topology.layout import Topology


def views(moments: Iterable[Moment], topology: Topology) -> Iterator[View]:
    """One view per moment with every earlier window in its past, whatever was found in it."""
    past: list[Digest] = []
    series = LiveSeries()
    for moment in moments:
        window = assemble(moment.parts, topology) if moment.parts else None
        yield View(
            run=topology.run,
            attempt=topology.attempt,
            topology=topology,
            now_s=moment.now_s,
            window=window,
            past=tuple(past[-PAST_WINDOWS:]),
            beats=moment.beats,
            series=series,
        )
        if window is not None:
            past.append(digest_of(window))
            series = hear(series, window).series
