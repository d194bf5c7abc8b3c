"""The kernels of a batch of windows packed by host: ranks share a keyframe, names go once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from argus.collectors.host.identity import Identities
from argus.collectors.host.kernel_room import NO_ROOM, pack_kernels, texts_of
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

    What one blob does not hold rides on more of them, and what cannot be sent at all is counted in the window of
    its rank. `told` is called with every summary that is packed.
    """
    hosts: dict[tuple[str, int, int, str], list[int]] = defaultdict(list)
    for place, window in enumerate(windows):
        if window.kernels:
            hosts[window.run, window.attempt, window.window, window.host].append(place)
    out = list(windows)
    for places in hosts.values():
        carried: dict[int, tuple[int, KernelSummary]] = {}  # of two for the same rank the later counts
        for place in sorted(places, key=lambda place: windows[place].rank):
            window = windows[place]
            for summary in _summaries(window):
                carried[summary.rank] = place, identities.follow((window.run, window.attempt), summary)
            out[place] = replace(window, kernels=b"")
        _load(out, carried, book=book, told=told)
    return out


def _load(
    out: list[RankWindow],
    carried: Mapping[int, tuple[int, KernelSummary]],
    *,
    book: NameBook,
    told: Callable[[KernelSummary], None],
) -> None:
    """Put the summaries, each with the place of its window, on some of the windows."""
    summaries = [carried[rank][1] for rank in sorted(carried)]
    names = book.fresh(texts_of(summaries))
    left = set(names)
    for packed, blob in pack_kernels(summaries, names=names):
        for summary in packed:
            told(summary)
            place, given = carried[summary.rank]
            if lost := given.events - summary.events:
                out[place] = out[place].with_loss(NO_ROOM, lost)
        left.difference_update(map(name_hash, texts_of(packed)))
        place = carried[packed[0].rank][0]
        out[place] = replace(out[place], kernels=blob)
    book.forget(left)


def _summaries(window: RankWindow) -> tuple[KernelSummary, ...]:
    blob = open_blob(window.kernels)
    return summaries_of(blob, texts=blob.texts())
