"""The one thread that talks to the service: signs of life first, then what waits in the spool."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

from argus.collectors.host.client import Answer, Post
from argus.collectors.host.counters import Counters
from argus.collectors.host.notices import Notices
from argus.collectors.host.plans import Levels, Plans, parse_levels, parse_plans
from argus.collectors.host.rank import Key, key_of
from argus.collectors.host.spool import Entry, Spool
from argus.collectors.host.switches import parse_switches
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.layout import Layout
from argus.collectors.records.report import Report
from argus.collectors.records.upload import AGE_HEADER, CONTENT_TYPE, REPLAY_S, WIRE_HEADER, WIRE_VERSION

PATHS = {
    "layouts": "/v1/ingest/layouts",
    "windows": "/v1/ingest/windows",
    "observations": "/v1/ingest/observations",
}
COUNTED = ("windows", "observations")
BEATS_PATH = "/v1/ingest/heartbeats"
JSON_HEADERS = {"Content-Type": "application/json", WIRE_HEADER: str(WIRE_VERSION)}
HEADERS = {
    "layouts": JSON_HEADERS,
    "windows": {**JSON_HEADERS, "Content-Type": CONTENT_TYPE},
    "observations": JSON_HEADERS,
}

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0
MAX_BEATS_HOLD_S = 10.0
"""Longest that Retry-After may silence heartbeats: a host silent for 15 s counts as lost."""

MAX_JITTER = 1.25
"""Up to so many times as long as a service asks for: it tells a thousand hosts the same, and they must not come back
in the same moment."""

NOT_THE_BODY = frozenset({401, 403, 404, 405, 407, 408, 409, 421, 425, 426, 429, 431})
"""4xx that say nothing against the body (key, address, load): kept and tried again. The others refuse it."""


_Process = tuple[Key, int, int]
"""A rank with its process's PID and when that began."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What the service said: plans and levels to follow, runs to switch, whose final heartbeat it has now."""

    plans: Plans
    levels: Levels = field(default_factory=dict)
    switches: Mapping[str, bool] = field(default_factory=dict)
    final: frozenset[Key] = frozenset()


class Uploader:
    """Sends; `run` is the thread's body. `heard` is read by the loop that owns the ranks."""

    def __init__(
        self,
        post: Post,
        spool: Spool,
        *,
        host: str,
        counters: Counters,
        notices: Notices,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._post, self._spool, self._host = post, spool, host
        self._counters, self._notices, self._clock, self._rng = counters, notices, clock, rng
        self._wake = threading.Condition()
        self._beats: Sequence[Heartbeat] = ()
        self._report: Report | None = None
        self._layouts: Mapping[Key, Layout] = {}
        self._are_layouts_stale = False
        self._told: frozenset[_Process] = frozenset()
        self._num_fails = 0
        self._next_try_s = 0.0
        self._beats_from_s = 0.0
        self._replay_from_s = 0.0
        self._asked_about: int | None = None
        self._stop_s: float | None = None
        self._is_busy = False
        self.heard: SimpleQueue[Heard] = SimpleQueue()
        self._names_wanted: SimpleQueue[frozenset[int]] = SimpleQueue()

    def submit_beats(
        self, beats: Sequence[Heartbeat], *, layouts: Iterable[Layout], report: Report | None = None
    ) -> None:
        """Replace the heartbeats to send; `layouts` are those to send again after an outage."""
        with self._wake:
            self._beats, self._report = beats, report
            self._layouts = {key_of(layout): layout for layout in layouts}
            self._wake.notify()

    def names_wanted(self) -> set[int]:
        """Content hashes of kernel names the service asked for since last asked."""
        wanted: set[int] = set()
        while not self._names_wanted.empty():
            wanted |= self._names_wanted.get()
        return wanted

    def wake(self) -> None:
        """Something new lies in the spool."""
        with self._wake:
            self._wake.notify()

    def stop(self, within_s: float) -> None:
        """Send what can be sent; end when nothing is left, at the first failure or when the time is up."""
        with self._wake:
            self._stop_s = self._clock() + within_s
            self._next_try_s = self._beats_from_s = self._replay_from_s = 0.0
            self._num_fails = 0
            self._wake.notify()

    @property
    def is_idle(self) -> bool:
        """Nothing is waiting, nothing is under way."""
        with self._wake:
            return not self._beats and not self._is_busy and not len(self._spool)

    def run(self) -> None:
        """Send until stopped."""
        while not self._is_over():
            if not self.step():
                with self._wake:
                    self._wake.wait(self._wait_s())

    def step(self) -> bool:
        """One request if one is due; False if none is."""
        beats, entry = self._due()
        if not beats and entry is None:
            return False
        is_unknown = (
            not _processes(self._layouts) <= self._told
        )  # its sign of life must not come before its layout
        if (self._are_layouts_stale or is_unknown) and not self._send_layouts():
            pass
        elif beats:
            self._send_beats(beats)
        elif entry is not None:
            self._send_entry(entry)
        self._is_busy = False
        self._counters.set("argus_collector_spool_bytes", self._spool.num_bytes)
        return True

    def _due(self) -> tuple[Sequence[Heartbeat], Entry | None]:
        now_s = self._clock()
        with self._wake:
            beats: Sequence[Heartbeat] = ()
            if now_s >= self._beats_from_s:
                beats, self._beats = self._beats, ()
            entry = None if beats or now_s < self._next_try_s else self._next_entry(now_s)
            self._is_busy = bool(beats) or entry is not None
            return beats, entry

    def _next_entry(self, now_s: float) -> Entry | None:
        """What is of now in its order, then, where the service takes it, what waited through an outage."""
        fresh = self._spool.oldest_within(REPLAY_S)
        if fresh is not None:
            return fresh
        return self._spool.oldest() if now_s >= self._replay_from_s else None

    def _is_over(self) -> bool:
        with self._wake:
            if self._stop_s is None:
                return False
            is_late = self._clock() >= self._stop_s
        return is_late or self._num_fails > 0 or self.is_idle

    def _wait_s(self) -> float:
        """Until the next attempt; a second at most, in case a clock jumps."""
        is_fresh = self._spool.oldest_within(REPLAY_S) is not None
        spool_s = self._next_try_s if is_fresh else max(self._next_try_s, self._replay_from_s)
        due_s = [spool_s] if len(self._spool) else []
        due_s += [self._beats_from_s] if self._beats else []
        return min([1.0, *(max(0.0, at_s - self._clock()) for at_s in due_s)])

    def _send_layouts(self) -> bool:
        """All layouts of live ranks again: the service may have lost them, or never got them."""
        told = self._layouts
        layouts = [layout.to_json() for layout in told.values()]
        if layouts:
            answer = self._request(PATHS["layouts"], _json({"layouts": layouts}), JSON_HEADERS)
            if not self._is_taken(answer) and not is_refusal(answer):
                return False
            self._hear(answer)
        self._are_layouts_stale = False
        self._told = _processes(told)
        return True

    def _send_beats(self, beats: Sequence[Heartbeat]) -> None:
        raw: dict[str, object] = {"host": self._host, "heartbeats": [beat.to_json() for beat in beats]}
        if self._report is not None:
            raw["processor"] = self._report.to_json()
        answer = self._request(BEATS_PATH, _json(raw), JSON_HEADERS)
        if self._is_taken(answer):
            self._counters.add("argus_collector_heartbeats_total", amount=len(beats))
        elif not is_refusal(answer):
            return
        final = (b for b in beats if b.state in ("ended", "exited"))
        self._hear(answer, frozenset((b.run, b.attempt, b.rank) for b in final))

    def _send_entry(self, entry: Entry) -> None:
        try:
            body = self._spool.read(entry)
        except OSError as error:
            self._next_try_s = self._clock() + FIRST_DELAY_S
            self._notices.once("unread", f"the spool cannot be read now: {error}; it waits")
            return
        if body is None:
            self._lose(entry, "unreadable")
            self._notices.once("unreadable", f"{entry.file_name} vanished from the spool")
            return
        age_s = self._spool.age_s(entry)
        headers = {**HEADERS[entry.kind], AGE_HEADER: f"{age_s:.0f}"}
        answer = self._request(PATHS[entry.kind], body, headers, is_replay=age_s > REPLAY_S)
        if self._is_taken(answer):
            self._spool.done(entry)
            self._hear(answer)
            if entry.kind in COUNTED:
                self._count_accepted(entry, answer.body)
                self._names_wanted.put(_hashes(answer.body.get("unknown_names")))
        elif is_refusal(answer) or (answer.status == 409 and self._asked_about == entry.seq):
            self._lose(entry, "refused")
        elif answer.status == 409:
            self._asked_about = entry.seq

    def _lose(self, entry: Entry, reason: str) -> None:
        self._spool.done(entry)
        if entry.kind in COUNTED:
            self._counters.add(f"argus_collector_dropped_{entry.kind}_total", reason, amount=entry.num)

    def _count_accepted(self, entry: Entry, body: Mapping[str, object]) -> None:
        rejected = body.get("rejected")
        num = min(len(rejected), entry.num) if isinstance(rejected, list) else 0
        self._counters.add(f"argus_collector_uploaded_{entry.kind}_total", amount=entry.num - num)
        if num:
            self._counters.add(f"argus_collector_dropped_{entry.kind}_total", "refused", amount=num)
            self._notices.once("rejected", f"the service refused {num} {entry.kind}: {str(rejected)[:300]}")

    def _request(
        self, path: str, body: bytes, headers: Mapping[str, str], *, is_replay: bool = False
    ) -> Answer:
        """Send; keep count of time and failures, and decide when to try again."""
        start_s = self._clock()
        answer = self._post(path, body, headers=headers)
        self._counters.add("argus_collector_upload_seconds_sum", amount=self._clock() - start_s)
        self._counters.add("argus_collector_upload_seconds_count")
        if self._is_taken(answer):
            self._num_fails, self._next_try_s, self._beats_from_s = 0, 0.0, 0.0
            self._notices.clear("unreachable", "the service answers again")
        elif is_refusal(answer):
            self._counters.add("argus_collector_rejected_total", f"upload_{answer.status}")
            self._notices.once(
                f"upload_{answer.status}",
                f"the service refused {path} with {answer.status}, dropped: {answer.error}",
            )
        elif is_replay and answer.status == 429:
            self._wait_for_turn(answer)
        else:
            self._back_off(path, answer)
        return answer

    def _wait_for_turn(self, answer: Answer) -> None:
        """The service is well and takes what waited in turn; what is of now goes on."""
        self._counters.add("argus_collector_upload_failures_total", "429")
        delay_s = MAX_DELAY_S if answer.retry_after_s is None else answer.retry_after_s
        self._replay_from_s = self._clock() + delay_s * self._rng.uniform(1.0, MAX_JITTER)

    def _back_off(self, path: str, answer: Answer) -> None:
        now_s = self._clock()
        reason = str(answer.status) if answer.status else "no_answer"
        self._counters.add("argus_collector_upload_failures_total", reason)
        what = answer.error or f"{answer.status} without a JSON object"
        self._notices.once(
            "unreachable", f"{path}: {reason}: {what}; windows wait in the spool, trying again"
        )
        delay_s = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self._num_fails, 16))
        delay_s *= self._rng.uniform(0.5, 1.0)
        if answer.retry_after_s is not None:
            delay_s = max(delay_s, answer.retry_after_s * self._rng.uniform(1.0, MAX_JITTER))
            self._beats_from_s = now_s + min(answer.retry_after_s, MAX_BEATS_HOLD_S)
        self._num_fails += 1
        self._next_try_s = now_s + delay_s
        self._are_layouts_stale = True

    def _is_taken(self, answer: Answer) -> bool:
        """2xx with a JSON object: a proxy's page is not an acknowledgement."""
        return 200 <= answer.status < 300 and bool(answer.body)

    def _hear(self, answer: Answer, final: frozenset[Key] = frozenset()) -> None:
        plans, num_bad = parse_plans(answer.body.get("plans"))
        if num_bad:
            self._counters.add("argus_collector_rejected_total", "plan", amount=num_bad)
            self._notices.once("plan", f"the service sent {num_bad} window plans that cannot be followed")
        switches = parse_switches(answer.body.get("switches"))
        if plans or final or switches:
            levels = parse_levels(answer.body.get("plans"))
            self.heard.put(Heard(plans=plans, levels=levels, switches=switches, final=final))


def _hashes(raw: object) -> frozenset[int]:
    """Content hashes as the service sends them, in hexadecimal; what is none is left out."""
    if not isinstance(raw, list):
        return frozenset()
    texts = [text for text in raw if isinstance(text, str) and re.fullmatch("[0-9a-f]{1,16}", text)]
    return frozenset(int(text, 16) for text in texts)


def is_refusal(answer: Answer) -> bool:
    """Whether trying the same body again is pointless."""
    return 400 <= answer.status < 500 and answer.status not in NOT_THE_BODY


def _json(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _processes(layouts: Mapping[Key, Layout]) -> frozenset[_Process]:
    """The ranks with their processes: one that is started again is another, which in a container may have its PID."""
    return frozenset((key, layout.pid, layout.began_ns) for key, layout in layouts.items() if layout.pid)
