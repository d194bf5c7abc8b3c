"""The loop of the host processor: sockets in, windows and heartbeats out."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from argus.collectors.host.aside import Aside
from argus.collectors.host.batch import MAX_BATCH_BYTES, num_bytes_of, take_batch
from argus.collectors.host.check import Checked, Checker, first_layout
from argus.collectors.host.connection import Connection
from argus.collectors.host.controls import Controls
from argus.collectors.host.counters import Counters
from argus.collectors.host.delivery import Delivery
from argus.collectors.host.governor import Governor
from argus.collectors.host.launchers import Launchers
from argus.collectors.host.listener import Listener, peer_of
from argus.collectors.host.notices import Notices
from argus.collectors.host.rank import Key, key_of
from argus.collectors.host.ranks import Member, Ranks
from argus.collectors.host.raw_ring import RawRing
from argus.collectors.host.recorder import Recorder
from argus.collectors.records.errors import RankTaken, WireError
from argus.collectors.records.frames import ROW_KINDS, Frame, Kind
from argus.collectors.records.layout import Layout
from argus.collectors.records.summary import RankWindow

TICK_S = 0.5
LOOK_S = 1.0
WATCH_S = 0.1
"""Least time between two reads of the ranks' pages; the next is due when an open step may have become slow."""

BEATS_S = 5.0
BATCH_S = 0.5
"""Windows of one host close within moments of each other: one request for all."""

CHUNK = 256 << 10
MAX_DRAIN = 64  # chunks still read from a process that has ended; its socket holds less

MAX_CONNECTIONS = 1024
ACCEPT_PAUSE_S = 0.05
"""Pause when the system refuses to accept, out of descriptors: the socket stays readable."""

ANONYMOUS_S = 60.0
"""How long a connection may stay without saying which rank it is."""

IDLE_S = 3.0
"""Without launcher and ranks for this long, the processor ends."""

IDLE_FLUSH_S = 10.0
STOP_FLUSH_S = 5.0


@dataclass(kw_only=True)
class _Due:
    """When the loop does what next, and what it has collected."""

    tick_s: float = 0.0
    look_s: float = 0.0
    watch_s: float = 0.0
    beats_s: float = 0.0
    idle_s: float | None = None
    windows: list[RankWindow] = field(default_factory=list)
    windows_s: float = 0.0
    layouts: list[Layout] = field(default_factory=list)

    @property
    def next_s(self) -> float:
        """When the loop must wake although no socket says so."""
        return min(self.watch_s, self.tick_s)


class Processor:
    """Receives every local rank on one thread; `delivery` and `recorder` are where things go, if anywhere."""

    def __init__(
        self,
        listener: Listener,
        ranks: Ranks,
        *,
        delivery: Delivery | None,
        recorder: Recorder | None,
        launchers: Launchers | None,
        aside: Aside,
        governor: Governor,
        ring: RawRing | None = None,
        counters: Counters,
        notices: Notices,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        flush_s: float = STOP_FLUSH_S,
    ) -> None:
        self._listener, self._ranks = listener, ranks
        self._delivery, self._launchers, self._aside = delivery, launchers, aside
        self._tapes = [tape for tape in (recorder, ring) if tape is not None]
        self._recorder = recorder
        self._governor, self._controls = governor, Controls(governor, counters=counters)
        self._counters, self._notices = counters, notices
        self._clock, self._wall_clock = clock, wall_clock
        self._flush_s = flush_s
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, Connection] = {}
        self._due = _Due()
        self._is_stopping = False

    def stop(self) -> None:
        """End soon; safe in a signal handler and from other threads."""
        self._is_stopping = True

    def run(self) -> bool:
        """Serve until no longer needed, or stopped: then False; then deliver what can be delivered."""
        self._selector.register(self._listener.sock, selectors.EVENT_READ, self._accept)
        try:
            while not self._is_stopping and not self._is_idle():
                for key, _ in self._selector.select(self._due.next_s - self._clock()):
                    key.data()
                self._watch()
                self._tick()
        finally:
            self._finish()
        return not self._is_stopping

    def _accept(self) -> bool:
        """Take one connection; False if none waits."""
        try:
            sock, _ = self._listener.sock.accept()
        except BlockingIOError:
            return False
        except OSError as error:
            self._reject("accept", f"a connection could not be accepted: {error}")
            time.sleep(ACCEPT_PAUSE_S)
            return False
        peer = peer_of(sock)
        if not peer.is_trusted or len(self._connections) >= MAX_CONNECTIONS:
            self._reject("peer" if not peer.is_trusted else "connections", f"refused process {peer.pid}")
            sock.close()
            return True
        sock.setblocking(False)
        connection = Connection(sock=sock, peer=peer, opened_s=self._clock())
        self._connections[sock.fileno()] = connection
        self._selector.register(sock, selectors.EVENT_READ, partial(self._read, connection))
        return True

    def _read(self, connection: Connection) -> bool:
        """Take one chunk; False if there is none, at the end of the stream or after it."""
        if connection.sock.fileno() < 0:
            return False
        try:
            chunk = connection.sock.recv(CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""  # reset by the peer: the same as its end
        if not chunk:
            if connection.reader.pending:
                self._reject("cut_frame", "a connection ended inside a frame")
            self._close(connection)
            return False
        try:
            for frame in connection.reader.feed(chunk):
                self._take(connection, frame)
                if frame.kind == Kind.BYE:
                    self._warn([connection])  # it waits for that; a second later nobody may be there
                    self._close(connection)
                    return False
        except WireError as error:
            self._reject("frame", f"closed the connection of process {connection.peer.pid}: {error}")
            if isinstance(error, RankTaken):
                connection.say({"refused": str(error)})
            self._close(connection)
            return False
        return True

    def _take(self, connection: Connection, frame: Frame) -> None:
        if connection.checker is None or connection.member is None:
            self._introduce(connection, first_layout(frame))
            return
        checked = connection.checker.check(frame)
        state = connection.member.state
        if checked.layout is not None:
            checked = self._with_host(checked, checked.layout)
        state.apply(checked, now_s=self._clock())
        self._count(connection.checker, connection.member, checked)
        if checked.frame is not None:
            for tape in self._tapes:
                tape.write(key_of(state.layout), checked.frame)

    def _introduce(self, connection: Connection, layout: Layout) -> None:
        before = self._ranks.find(layout)
        member = self._ranks.connect(layout, pid=connection.peer.pid, now_s=self._clock())
        if before is not None and before is not member:
            self._unwatch(before)
            before.process.close()
            self._end_recording(key_of(layout))
            now_s = self._clock()  # what was seen of it goes ahead of the layout that takes its place
            self._deliver(self._cut(now_s=now_s), now_s=now_s, at_once=True)
        if before is not member:
            self._controls.begin(member, self._ranks)
        connection.member = member
        connection.checker = Checker(member.state.layout, names=member.state.names)
        self._due.layouts.append(member.state.layout)
        for tape in self._tapes:
            tape.begin(key_of(layout), layout=member.state.layout, names=member.state.names.all())
        if member.process.fd is not None and member.process.fd not in self._selector.get_map():
            self._selector.register(member.process.fd, selectors.EVENT_READ, partial(self._exited, member))

    def _with_host(self, checked: Checked, layout: Layout) -> Checked:
        layout = self._ranks.named(layout)
        self._due.layouts.append(layout)
        return Checked(kind=checked.kind, layout=layout, frame=Frame(kind=Kind.LAYOUT, body=layout.to_json()))

    def _count(self, checker: Checker, member: Member, checked: Checked) -> None:
        if checked.kind in ROW_KINDS and checked.frame is not None and checked.frame.rows is not None:
            name, num = ROW_KINDS[checked.kind], len(checked.frame.rows)
            self._counters.add("argus_collector_rows_total", name, amount=num)
        for reason in checker.rejected:
            self._notices.once(reason, f"rank {member.state.layout.rank} sent rows refused as {reason}")
        if checker.rejected:
            member.state.lose(checker.rejected)
            checker.rejected.clear()

    def _exited(self, member: Member) -> None:
        """The process ended: read what it still sent (a fork may hold its socket open), then tell."""
        self._unwatch(member)
        for connection in [c for c in self._connections.values() if c.member is member]:
            self._drain(connection)
            self._close(connection)
        self._due.look_s = 0.0

    def _drain(self, connection: Connection) -> None:
        """Read what lies in the socket, up to more than a socket holds."""
        for _ in range(MAX_DRAIN):
            if not self._read(connection):
                return

    def _unwatch(self, member: Member) -> None:
        if member.process.fd is not None and member.process.fd in self._selector.get_map():
            self._selector.unregister(member.process.fd)

    def _close(self, connection: Connection) -> None:
        if self._connections.pop(connection.sock.fileno(), None) is None:
            return
        self._selector.unregister(connection.sock)
        connection.sock.close()
        if connection.member is not None:
            self._ranks.disconnect(connection.member, now_s=self._clock())
            self._due.look_s = 0.0

    def _reject(self, reason: str, text: str) -> None:
        self._counters.add("argus_collector_rejected_total", reason)
        self._notices.once(f"reject_{reason}", text)

    def _watch(self) -> None:
        now_s = self._clock()
        if now_s >= self._due.watch_s:
            calm_s = self._aside.watch(self._ranks, is_off=self._governor.is_off, now_s=now_s)
            self._due.watch_s = now_s + min(max(calm_s, WATCH_S), LOOK_S)

    def _tick(self) -> None:
        now_s = self._clock()
        if now_s < min(self._due.tick_s, self._due.look_s):
            return
        self._due.tick_s = now_s + TICK_S
        self._submit_layouts()
        self._listen_to_service()
        if now_s >= self._due.look_s:
            self._due.look_s = now_s + LOOK_S
            self._look(now_s)
        self._deliver(self._cut(now_s=now_s), now_s=now_s)
        self._govern()
        self._observe(now_s)
        if now_s >= self._due.beats_s:
            self._due.beats_s = now_s + BEATS_S
            self._beat(now_s)

    def _cut(self, *, now_s: float, everything: bool = False) -> list[RankWindow]:
        """Windows complete by now, with what Argus cost and what the host saw."""
        windows = self._governor.observe(self._ranks.cut(now_s=now_s, everything=everything))
        return self._aside.equip(windows, self._ranks)

    def _govern(self) -> None:
        for change in self._governor.take_changes():
            self._notices.once(f"governor {change.run} {change.from_step}", change.text)
            self._controls.step_down(self._connections.values())

    def _submit_layouts(self) -> None:
        if self._due.layouts and self._delivery is not None:
            self._delivery.submit_layouts(self._due.layouts)
        self._due.layouts = []

    def _look(self, now_s: float) -> None:
        if self._ranks.look(now_s):
            self._due.beats_s = now_s
        self._aside.look(self._ranks, is_off=self._governor.is_off, now_s=now_s)
        for member in [member for member in self._ranks if member.is_gone and member.is_connected]:
            self._exited(member)
        self._counters.set("argus_collector_ranks", sum(m.is_connected for m in self._ranks))
        for tape in self._tapes:
            tape.flush()
        self._warn(self._connections.values())
        late = [
            c for c in self._connections.values() if c.member is None and now_s > c.opened_s + ANONYMOUS_S
        ]
        for connection in late:
            self._reject("anonymous", f"process {connection.peer.pid} never said which rank it is")
            self._close(connection)
        self._forget(self._ranks.done() if self._delivery is None else self._ranks.surplus())

    def _warn(self, connections: Iterable[Connection]) -> None:
        """Tell of a disk that takes no more."""
        if self._recorder is not None:
            self._recorder.flush()
            self._controls.warn(connections, self._recorder.trouble)

    def _observe(self, now_s: float, *, at_once: bool = False) -> None:
        seen = self._aside.take(now_s=now_s, at_once=at_once)
        if seen is not None and self._delivery is not None:
            self._delivery.submit_observations(seen)

    def _beat(self, now_s: float) -> None:
        self._controls.step_down(self._connections.values())
        beats = self._ranks.beats(now_s=now_s, wall_s=self._wall_clock())
        if self._delivery is None:
            self._ranks.choose_plans(beats)
        elif beats:
            told, report = self._governor.tell(beats), self._aside.report(self._ranks)
            self._delivery.submit_beats(told, layouts=self._ranks.layouts(), report=report)

    def _listen_to_service(self) -> None:
        for heard in self._delivery.heard() if self._delivery is not None else ():
            self._ranks.follow(heard.plans)
            self._governor.follow(heard.levels)
            self._aside.follow(heard.switches)
            self._forget(list(heard.final))

    def _forget(self, keys: list[Key]) -> None:
        """Let go of ranks that are done, once their recordings have what was seen of them."""
        keys = [key for key in keys if not self._aside.owes(key)]
        if keys:
            self._observe(self._clock(), at_once=True)
        for member in [m for m in self._ranks if key_of(m.state.layout) in keys]:
            self._unwatch(member)
        for key in self._ranks.forget(keys):
            self._end_recording(key)

    def _end_recording(self, key: Key) -> None:
        for tape in self._tapes:
            tape.end(key)

    def _deliver(self, windows: list[RankWindow], *, now_s: float, at_once: bool = False) -> None:
        if self._delivery is None:
            return
        if windows and not self._due.windows:
            self._due.windows_s = now_s
        self._due.windows += windows
        is_due = at_once or now_s - self._due.windows_s >= BATCH_S
        while self._due.windows and (is_due or num_bytes_of(self._due.windows) >= MAX_BATCH_BYTES):
            batch = take_batch(self._due.windows)
            self._delivery.submit_windows(batch)

    def _is_idle(self) -> bool:
        """Whether nobody needs this processor any more and everything is delivered, or had its time."""
        if self._launchers is None:
            return False
        now_s = self._clock()
        if any(c.member is not None for c in self._connections.values()) or self._launchers.any_alive():
            self._due.idle_s = None
            return False
        if self._due.idle_s is None:
            self._due.idle_s = now_s
        idle_s = now_s - self._due.idle_s
        is_delivered = self._delivery is None or (self._delivery.is_idle and not len(self._ranks))
        return idle_s >= IDLE_S + IDLE_FLUSH_S or (idle_s >= IDLE_S and is_delivered)

    def _finish(self) -> None:
        """Take what still lies in the sockets, cut everything, spool it, send what the time allows."""
        for _ in range(MAX_CONNECTIONS):
            if not self._accept():
                break
        for connection in list(self._connections.values()):
            self._drain(connection)
        now_s = self._clock()
        self._submit_layouts()
        self._ranks.look(now_s)
        self._beat(now_s)
        for connection in list(self._connections.values()):
            self._close(connection)
        self._listener.close()
        self._deliver(self._cut(now_s=now_s, everything=True), now_s=now_s, at_once=True)
        self._aside.close()
        self._observe(now_s, at_once=True)
        for tape in self._tapes:
            tape.close()
        if self._delivery is not None:
            self._delivery.stop(self._flush_s)
        self._selector.close()
