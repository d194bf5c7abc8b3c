"""The kernels of a batch of windows packed by host: ranks share a keyframe, names go once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from argus.collectors.host.identity import Identities
from argus.collectors.records.kernel_blob import MAX_RANKS, encode
from argus.collectors.records.kernel_read import open_blob, summaries_of
from argus.collectors.records.kernels import KernelSummary, name_hash
from argus.collectors.records.summary import RankWindow

MAX_SENT = 1 << 16
"""Definitions remembered as sent; beyond it they are sent again, which costs bytes and harms nobody."""


class NameBook:
    """Which definitions of names went out already; the service asks again for what it lacks."""

    def __init__(self) -> None:
        self._sent: set[int] = set()

    def fresh(self, texts: Iterable[str]) -> dict[int, str]:
        """Definitions not sent yet, from now on taken for sent."""
        if len(self._sent) > MAX_SENT:
            self._sent.clear()
        new = {name_hash(text): text for text in texts}
        new = {key: text for key, text in new.items() if key not in self._sent}
        self._sent |= new.keys()
        return new

    def forget(self, keys: Iterable[int]) -> None:
        """The service does not know these: send them again."""
        self._sent.difference_update(keys)


def pack_hosts(
    windows: Sequence[RankWindow],
    *,
    book: NameBook,
    identities: Identities,
    told: Callable[[KernelSummary], None] = lambda summary: None,
) -> list[RankWindow]:
    """The same windows; kernels of one host and window ride together on that of the lowest rank.

    `told` is called with every summary that is packed.
    """
    hosts: dict[tuple[str, int, int, str], list[int]] = defaultdict(list)
    for place, window in enumerate(windows):
        if window.kernels:
            hosts[window.run, window.attempt, window.window, window.host].append(place)
    out = list(windows)
    for places in hosts.values():
        for start in range(0, len(places), MAX_RANKS):
            part = sorted(places[start : start + MAX_RANKS], key=lambda place: windows[place].rank)
            summaries = [
                identities.follow((windows[place].run, windows[place].attempt), summary)
                for place in part
                for summary in _summaries(windows[place])
            ]
            for summary in summaries:
                told(summary)
            blob = encode(_by_rank(summaries), names=book.fresh(_texts(summaries)))
            for place in part:
                out[place] = replace(windows[place], kernels=b"")
            out[part[0]] = replace(windows[part[0]], kernels=blob)
    return out


def _summaries(window: RankWindow) -> tuple[KernelSummary, ...]:
    blob = open_blob(window.kernels)
    return summaries_of(blob, texts=blob.texts())


def _by_rank(summaries: Iterable[KernelSummary]) -> list[KernelSummary]:
    """One summary a rank; of two for the same window the later counts."""
    found: Mapping[int, KernelSummary] = {summary.rank: summary for summary in summaries}
    return list(found.values())


def _texts(summaries: Iterable[KernelSummary]) -> set[str]:
    return {text for summary in summaries for pair in summary.kernels for text in pair}
