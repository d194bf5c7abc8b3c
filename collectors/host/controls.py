"""What the ranks of a host are told: channels to have off, and that their recording ends."""

from __future__ import annotations

from collections.abc import Iterable

from argus.collectors.host.connection import Connection
from argus.collectors.host.counters import Counters
from argus.collectors.host.governor import Governor
from argus.collectors.host.ranks import Member


class Controls:
    """Says it over the ranks' own connections, never waiting for one."""

    def __init__(self, governor: Governor, *, counters: Counters) -> None:
        self._governor, self._counters = governor, counters
        self._warned: set[tuple[str, int]] = set()

    def begin(self, member: Member, members: Iterable[Member]) -> None:
        """A rank's process is new; the first of an attempt of which no other one lives is a launch of its own."""
        layout = member.state.layout
        attempt = (layout.run, layout.attempt)
        others = (one for one in members if one is not member and not one.is_gone)
        if all((one.state.layout.run, one.state.layout.attempt) != attempt for one in others):
            self._governor.forget(*attempt)
            self._warned.discard(attempt)

    def step_down(self, connections: Iterable[Connection]) -> None:
        """Say which channels are to be off; said again with each heartbeat, so a full socket loses nothing."""
        for connection in list(connections):
            if connection.member is None:
                continue
            layout = connection.member.state.layout
            level, from_step = self._governor.current(layout.run, layout.attempt)
            if (level or from_step) and not connection.say({"level": level, "from_step": from_step}):
                self._counters.add("argus_collector_rejected_total", "control")

    def warn(self, connections: Iterable[Connection], text: str) -> None:
        """Have one rank of each attempt say it on its stderr: nobody reads a processor's log while all seems well."""
        for connection in list(connections) if text else ():
            if connection.member is None:
                continue
            layout = connection.member.state.layout
            attempt = (layout.run, layout.attempt)
            if attempt not in self._warned and connection.say({"warning": text}):
                self._warned.add(attempt)
