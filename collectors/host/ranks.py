"""All ranks of a host: their records, their processes, their signs of life."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from argus.collectors.host.counters import Counters
from argus.collectors.host.plans import Plans
from argus.collectors.host.process import Process
from argus.collectors.host.rank import Key, RankState, key_of
from argus.collectors.records.errors import RankTaken, WireError
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.plan_choice import choose_plan
from argus.collectors.records.summary import RankWindow

RECONNECT_S = 30.0
"""A rank that lives but lost its connection may come back; then its open windows are cut."""

BLIND_EXIT_S = 5.0
"""Silence after which a rank counts as exited whose process cannot be seen."""

LEAVE_S = 60.0
"""How long the end of a process is waited for whose rank said goodbye: it may still close its devices."""

STOPPED = frozenset("TtZX")
"""Letters of a process that does not run on its own: stopped, traced, dead."""

STOPPED_S = 1.0
"""A process seen stopped for this long is news; shorter pauses are told by the next heartbeat."""

MAX_COMPRESSED = 1_500_000
"""Kernel events compressed before the sockets are read again: a quarter of a second of work."""

MAX_RANKS = 4096
MAX_UNTOLD = 1024
"""Ranks that have left and whose end the service does not know: a job that crashes and starts again for days while no
service answers would leave no place for ranks that live."""

MAX_PLANS = 64


@dataclass(kw_only=True)
class Member:
    """One rank: what it sent, its process, its connection."""

    state: RankState
    process: Process
    num_connections: int = 1
    closed_s: float = 0.0
    letter: str = ""
    stopped_s: float | None = None
    told: str = ""
    is_cut: bool = False
    is_leaving: bool = False  # it said goodbye, its process has not ended yet

    @property
    def is_connected(self) -> bool:
        """Whether its connection is open."""
        return self.num_connections > 0

    def is_same(self, layout: Layout, *, pid: int) -> bool:
        """Whether it is this rank's process that connects, and still the program that it was."""
        mine = self.state.layout
        return self.process.pid == (pid or layout.pid) and mine.began_ns == layout.began_ns

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended."""
        return self.process.is_visible and self.letter in ("", "Z", "X")

    @property
    def has_failed(self) -> bool:
        """Whether its process ended with a code other than 0, which a goodbye does not tell (`sys.exit(1)`).

        A signal after the goodbye met a rank that was done.
        """
        reason = self.process.exit_reason() if self.is_gone else ""
        return reason.startswith("code ") and reason != "code 0"


class Ranks:
    """The host's ranks by (run, attempt, rank). Times are of one monotonic clock."""

    def __init__(
        self, *, host: str, first_steps: int, counters: Counters, is_host_given: bool = False
    ) -> None:
        self.host = host
        self._is_host_given = is_host_given
        self._default = WindowPlan(first=first_steps)
        self._counters = counters
        self._plans: dict[tuple[str, int], WindowPlan] = {}
        self._members: dict[Key, Member] = {}
        self._orphans: list[RankWindow] = []

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def layouts(self) -> list[Layout]:
        """Layouts of all ranks."""
        return [member.state.layout for member in self]

    def named(self, layout: Layout) -> Layout:
        """The layout with this host's name: where the rank gave none, and where a person said it.

        In a container a rank knows the container's name; orders and samples go by the host's.
        """
        is_own = layout.host and not self._is_host_given
        return layout if is_own else replace(layout, host=self.host)

    def find(self, layout: Layout) -> Member | None:
        """The rank as known so far."""
        return self._members.get(key_of(layout))

    def connect(self, layout: Layout, *, pid: int, now_s: float) -> Member:
        """The rank behind a new connection: a known one that came back, else a fresh one, as of a program that
        replaced itself.

        `pid` is 0 for a process of another PID namespace. A fresh one may take the place of a process
        that is gone. Raises WireError.
        """
        layout = self.named(layout)
        known = self._members.get(key_of(layout))
        if known is not None and known.is_same(layout, pid=pid) and not known.is_gone:
            known.state.layout = layout
            known.num_connections, known.is_cut = known.num_connections + 1, False
            return known
        if known is not None and known.is_connected:
            name = f"rank {layout.rank} of run {layout.run}, attempt {layout.attempt},"
            raise RankTaken(f"{name} is process {known.process.pid} on this host")
        if known is None and len(self._members) >= MAX_RANKS:
            raise WireError(f"more than {MAX_RANKS} ranks on one host")
        if known is not None:
            self._orphans += known.state.cut_all()
        plan = self._plans.get((layout.run, layout.attempt), self._default)
        process = Process(pid or layout.pid, is_visible=pid > 0)
        member = Member(state=RankState(layout, plan=plan, now_s=now_s), process=process)
        member.letter = member.process.letter()
        self._members[key_of(layout)] = member
        return member

    def disconnect(self, member: Member, *, now_s: float) -> None:
        """Its connection is closed."""
        member.num_connections, member.closed_s = member.num_connections - 1, now_s

    def follow(self, plans: Plans) -> None:
        """Cut windows as the service says."""
        for key, plan in plans.items():
            self._plans.pop(key, None)
            self._plans[key] = plan
            if len(self._plans) > MAX_PLANS:
                self._plans.pop(next(iter(self._plans)))
        for member in self:
            layout = member.state.layout
            if (layout.run, layout.attempt) in plans:
                member.state.replan(plans[layout.run, layout.attempt])

    def choose_plans(self, beats: Sequence[Heartbeat]) -> None:
        """Cut windows as long as a service would have them, where there is none that says."""
        attempts: dict[tuple[str, int], list[Heartbeat]] = {}
        for beat in beats:
            attempts.setdefault((beat.run, beat.attempt), []).append(beat)
        self.follow(
            {
                key: choose_plan(
                    self._plans.get(key, self._default), beats=mine, world_size=len(mine), highest_step=-1
                )
                for key, mine in attempts.items()
            }
        )

    def cut(self, *, now_s: float, everything: bool = False) -> list[RankWindow]:
        """Windows complete by now; all of a rank that is gone."""
        windows, self._orphans = self._orphans, []
        events = 0
        for member in self:
            if events >= MAX_COMPRESSED and not everything:
                break
            if everything or self._has_left(member, now_s):
                windows += member.state.cut_all()
                member.is_cut = True
            else:
                windows += member.state.cut(now_s)
            events += member.state.take_compressed()
            for reason, count in member.state.take_lost().items():
                self._counters.add("argus_collector_dropped_events_total", reason, amount=count)
        self._counters.add("argus_collector_windows_total", amount=len(windows))
        return windows

    def look(self, now_s: float) -> bool:
        """Read the process states; True if one rank's news cannot wait for the next heartbeat."""
        news = [self._look_at(member, now_s) for member in self]
        return any(news)

    def beats(self, *, now_s: float, wall_s: float) -> list[Heartbeat]:
        """A heartbeat of every rank."""
        return [self._beat(member, now_s=now_s, wall_s=wall_s) for member in self]

    def forget(self, keys: Iterable[Key]) -> list[Key]:
        """Let go of ranks that are gone, cut and told of; returns which."""
        gone = [key for key in keys if key in self._members and self._is_done(self._members[key])]
        for key in gone:
            self._members.pop(key).process.close()
        return gone

    def done(self) -> list[Key]:
        """Ranks that have left and are cut."""
        return [key for key, member in self._members.items() if self._is_done(member)]

    def surplus(self) -> list[Key]:
        """The first of those that have left, where too many wait to be told of."""
        done = self.done() if len(self._members) > MAX_UNTOLD else []
        return done[: max(len(done) - MAX_UNTOLD, 0)]

    def _look_at(self, member: Member, now_s: float) -> bool:
        member.letter = member.process.letter()
        is_stopped = member.letter in STOPPED or member.is_gone
        if not is_stopped:
            member.stopped_s = None
        elif member.stopped_s is None:
            member.stopped_s = now_s
        is_late = now_s - member.closed_s >= LEAVE_S
        may_tell = member.process.is_visible and not member.is_gone and not is_late
        member.is_leaving = member.state.has_ended and may_tell
        news = _news(member, now_s)
        is_new, member.told = news != member.told, news
        return is_new

    def _has_left(self, member: Member, now_s: float) -> bool:
        if member.is_connected:
            return False
        if member.state.has_ended or member.is_gone:
            return True
        wait_s = RECONNECT_S if member.process.is_visible else BLIND_EXIT_S
        return now_s - member.closed_s >= wait_s

    def _is_done(self, member: Member) -> bool:
        is_silent = member.is_cut and not member.is_connected and not member.is_leaving
        return is_silent and self._state(member) != "running"

    def _state(self, member: Member) -> str:
        if member.state.has_ended:
            return "exited" if member.has_failed else "ended"
        if member.is_gone or (member.is_cut and not member.process.is_visible and not member.is_connected):
            return "exited"
        return "running"

    def _beat(self, member: Member, *, now_s: float, wall_s: float) -> Heartbeat:
        layout, state = member.state.layout, self._state(member)
        unknown = Status(ts_ns=int(wall_s * 1e9), step=member.state.last_step)
        return Heartbeat(
            run=layout.run,
            attempt=layout.attempt,
            rank=layout.rank,
            host=layout.host,
            ts_s=wall_s,
            state=state,
            process_state=member.letter,
            status_age_s=max(0.0, now_s - member.state.status_s),
            status=member.state.status or unknown,
            exit_reason=member.process.exit_reason() if state == "exited" else "",
        )


def _news(member: Member, now_s: float) -> str:
    """What of a rank the service should hear at once when it changes; "" in the ordinary case."""
    if member.is_gone:
        return "gone"
    if member.state.has_ended:
        return "ended"
    if not member.is_connected:
        return "closed"
    is_stopped = member.stopped_s is not None and now_s - member.stopped_s >= STOPPED_S
    return "stopped" if is_stopped else ""
