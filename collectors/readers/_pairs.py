"""Begin and end events of a Chrome trace as the complete events they mean (Trace Event Format, "Duration events")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Event = Mapping[str, Any]

MAX_DIGITS = 40
"""Characters of a time that is given as text."""

MAX_WHOLE = 10**MAX_DIGITS

MAX_OPEN = 1_000_000
"""Begun and not ended at a time, over all threads: a file that only begins must not fill the memory."""


def number(value: object) -> int | float | None:
    """A time of an event, which some writers put in quotes; None for what is no number, or a larger one than any float.

    >>> number(2.5), number("1720000000000200"), number("2.5"), number("soon")
    (2.5, 1720000000000200, 2.5, None)
    """
    if isinstance(value, int | float):
        return value if isinstance(value, float) or abs(value) < MAX_WHOLE else None
    if not isinstance(value, str) or len(value) > MAX_DIGITS:
        return None
    try:
        return int(value) if value.isdecimal() else float(value)
    except ValueError:
        return None


class Pairs:
    """Pairs a thread's B and E events, the innermost first; `num_lone` counts those without a counterpart.

    >>> begin = {"ph": "B", "name": "a", "ts": 1}
    >>> [(e["name"], e["dur"]) for e in Pairs().completed([begin, {"ph": "E", "ts": 4}])]
    [('a', 3)]
    """

    def __init__(self) -> None:
        self.num_lone = 0
        self._open: dict[tuple[object, object], list[Event]] = {}
        self._num_open = 0

    def completed(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events in file order, a pair where it ends; what is neither X nor paired passes as it is."""
        for event in events:
            phase = event.get("ph")
            if phase == "B":
                self._begin(event)
            elif phase == "E":
                done = self._end(event)
                if done is not None:
                    yield done
            else:
                yield event
        self.num_lone += self._num_open

    def _begin(self, event: Event) -> None:
        if self._num_open >= MAX_OPEN:
            self.num_lone += 1
            return
        self._open.setdefault(_thread(event), []).append(event)
        self._num_open += 1

    def _end(self, event: Event) -> Event | None:
        """The complete event that ends here; begun ones inside it that never ended are lone."""
        begun = self._open.get(_thread(event), [])
        name = event.get("name")
        at = len(begun) - 1
        while at >= 0 and name is not None and begun[at].get("name") != name:
            at -= 1
        if at < 0:
            self.num_lone += 1
            return None
        start = begun[at]
        self.num_lone += len(begun) - 1 - at
        self._num_open -= len(begun) - at
        del begun[at:]
        first, last = number(start.get("ts")), number(event.get("ts"))
        # A pair without usable times stays an event, and is counted as one by whoever reads times.
        dur = None if first is None or last is None else last - first
        return {**start, "ph": "X", "dur": dur, "args": {**_arguments(start), **_arguments(event)}}


def _thread(event: Event) -> tuple[object, object]:
    return str(event.get("pid")), str(event.get("tid"))


def _arguments(event: Event) -> Mapping[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}
