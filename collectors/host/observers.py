"""What the processor observes besides the ranks' own words: stacks and the host, on threads of their own."""

from __future__ import annotations

import math
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from argus.collectors.host.counters import Counters
from argus.collectors.host.governor import IsOff
from argus.collectors.host.host_sampler import HostSampler, Seen
from argus.collectors.host.notices import Notices
from argus.collectors.host.open_pages import OpenPages
from argus.collectors.host.rank import Key, key_of
from argus.collectors.host.ranks import Member
from argus.collectors.host.stack_plan import OpenStep, Request, StackPlan, open_steps
from argus.collectors.host.stack_taker import StackTaker
from argus.collectors.host.use_track import READ_S, Read, UseTrack
from argus.collectors.records.frames import Frame, Kind
from argus.collectors.records.host_look import HostLook
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.stacks import StackDump, encode_stacks
from argus.collectors.records.summary import RankWindow

SAMPLE_S = 10.0
"""Period of host samples: what a host suffers from lasts longer, and a window is 10 s at least."""

SEND_S = 5.0
MAX_SAMPLES = 360
"""Samples that wait to be sent: an hour."""

MAX_LOOKS = 60
"""Looks that wait for the recording: two minutes, and the loop comes by each second."""

Taped = tuple[Key, Frame]
"""A frame for the recording of a rank."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One upload's worth: `body` is the JSON of an ingest request, `num` what is in it."""

    body: dict[str, Any]
    num: int


class HostWatch:
    """The thread around a sampler: reading /proc of hundreds of threads may take a while."""

    def __init__(self, sampler: HostSampler, *, counters: Counters, wall_clock: Callable[[], float]) -> None:
        self._sampler, self._counters, self._wall_clock = sampler, counters, wall_clock
        self._sample_s = 0.0
        self.track = UseTrack()
        self._queue: queue.Queue[Sequence[Seen] | None] = queue.Queue(1)
        self._done: deque[HostSample] = deque(maxlen=MAX_SAMPLES)
        self._looks: deque[tuple[Read, HostSample | None]] = deque(maxlen=MAX_LOOKS)
        self._thread = threading.Thread(target=self._run, name="argus-host", daemon=True)
        self.unseen: tuple[str, ...] = ()

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def ask(self, ranks: Sequence[Seen]) -> None:
        """Read the counters soon; a read that is still under way is enough."""
        try:
            self._queue.put_nowait(ranks)
        except queue.Full:
            self._counters.add("argus_collector_host_samples_total", "late")

    def take(self) -> list[HostSample]:
        """Samples since last asked."""
        taken = []
        while self._done:
            taken.append(self._done.popleft())
        return taken

    def take_looks(self) -> list[tuple[Key, HostLook]]:
        """What was read of each rank since last asked."""
        taken = []
        while self._looks:
            taken += _looks_of(*self._looks.popleft())
        return taken

    def stop(self) -> None:
        """End after the sample at hand."""
        try:
            self._queue.put(None, timeout=1.0)
        except queue.Full:
            return  # it hangs in the kernel; the thread is a daemon
        self._thread.join(1.0)

    def _run(self) -> None:
        while (ranks := self._queue.get()) is not None:
            try:
                sample = self._look(ranks, now_s=self._wall_clock())
            except Exception as error:  # noqa: BLE001 one look that fails must not end the others
                # A kernel that writes its files in another way, a driver that answers so: the next may do without.
                self._counters.add("argus_collector_host_samples_total", "error")
                self.unseen = (f"host: {type(error).__name__}: {error}"[:200],)
                continue
            self.unseen = self._sampler.unseen
            if sample is not None:
                self.track.add_sample(sample)
                self._done.append(sample)
                self._counters.add("argus_collector_host_samples_total", "ok")
                _show(self._counters, sample)
        self._sampler.close()

    def _look(self, ranks: Sequence[Seen], *, now_s: float) -> HostSample | None:
        """Read for the windows each time, take a whole sample when it is due."""
        read = self._sampler.read(ranks, now_s=now_s)
        self.track.add_read(read)
        is_due = not 0 <= now_s - self._sample_s < SAMPLE_S
        if is_due:
            self._sample_s = now_s
        sample = self._sampler.sample(ranks, read=read) if is_due else None
        self._looks.append((read, sample))
        return sample


class Observers:
    """Asks for dumps and samples when they are due; the loop calls `look` once a second."""

    def __init__(
        self,
        *,
        host: str,
        stacks: StackTaker | None,
        watch: HostWatch | None,
        pages: OpenPages | None = None,
        counters: Counters,
        notices: Notices,
        is_taped: bool = False,
        on_dump: Callable[[Key, float], None] = lambda key, ts_s: None,
    ) -> None:
        self._host, self._stacks, self._watch = host, stacks, watch
        self._counters, self._notices = counters, notices
        self._plan, self._pages = StackPlan(), pages
        self._tape: list[Taped] | None = [] if is_taped else None
        self._on_dump = on_dump
        self._read_s = 0.0
        self._send_s = 0.0

    def start(self) -> None:
        """Begin to work."""
        for part in (self._stacks, self._watch):
            if part is not None:
                part.start()

    def burst(self, keys: Iterable[Key], *, seconds: float, is_native: bool, now_s: float) -> None:
        """Dump these ranks closely for a while."""
        self._plan.burst(keys, seconds=seconds, is_native=is_native, now_s=now_s)

    def look(self, members: Sequence[Member], *, is_off: IsOff, now_s: float) -> None:
        """Ask for what is due of the ranks that are observed; whose stacks are off gets only what was asked for."""
        ranks = open_steps(members, now_s=now_s)
        if self._stacks is not None:
            quiet = {r.key for r in ranks if is_off("stacks", r.key[0], r.key[1], step=r.step)}
            due = self._plan.due(ranks, quiet=quiet, now_s=now_s)
            self._ask(due)
            self._tell(self._stacks.last_error)
        if self._watch is not None and ranks and now_s >= self._read_s:
            self._read_s = now_s + READ_S
            self._watch.ask([_seen(rank) for rank in ranks])

    def watch(self, members: Iterable[Member], *, is_off: IsOff, now_s: float) -> float:
        """Dump a rank whose open step has just become slow, and two peers; seconds in which none can become slow."""
        if self._stacks is None or self._pages is None:
            return math.inf
        ranks = self._pages.open_steps(members)
        if any(rank.is_slow for rank in ranks):
            quiet = {r.key for r in ranks if is_off("stacks", r.key[0], r.key[1], step=r.step)}
            self._ask(self._plan.urgent(ranks, quiet=quiet, now_s=now_s))
        return min((rank.calm_s for rank in ranks), default=math.inf)

    def _ask(self, requests: Sequence[Request]) -> None:
        assert self._stacks is not None
        self._stacks.submit([request for request in requests if self._is_worth_it(request)])
        self._counters.add("argus_collector_stack_skipped_total", amount=self._plan.skipped)
        self._plan.skipped = 0

    def equip(self, windows: Sequence[RankWindow], members: Iterable[Member]) -> list[RankWindow]:
        """The windows, each with what its host's kernel and devices did in its time."""
        if self._watch is None or not windows:
            return list(windows)
        devices = {key_of(member.state.layout): member.state.layout.device for member in members}
        return self._watch.track.equip(windows, devices=devices)

    def take(self, *, now_s: float, at_once: bool = False) -> Observation | None:
        """What is there to be sent, every few seconds."""
        is_urgent = self._stacks is not None and self._stacks.is_urgent
        if now_s < self._send_s and not at_once and not is_urgent:
            return None
        self._send_s = now_s + SEND_S
        dumps = self._stacks.take() if self._stacks is not None else []
        samples = self._watch.take() if self._watch is not None else []
        self._keep(dumps)
        if not dumps and not samples:
            return None
        body = {"host": self._host, **encode_stacks(dumps), "samples": [item.to_json() for item in samples]}
        return Observation(body=body, num=len(dumps) + len(samples))

    def owes(self, key: Key) -> bool:
        """Whether a dump of this rank is under way."""
        return self._stacks is not None and self._stacks.owes(key)

    def take_taped(self) -> list[Taped]:
        """What a recording keeps of the ranks since last asked, besides what they say."""
        if self._tape is None:
            return []
        looks = self._watch.take_looks() if self._watch is not None else []
        taped = [*self._tape, *((key, Frame(kind=Kind.HOST, body=look.to_json())) for key, look in looks)]
        self._tape = []
        return taped

    def _keep(self, dumps: Sequence[StackDump]) -> None:
        """For the recording; the steady ones tell what a dump costs: the others fall into steps that are slow anyway."""
        for dump in dumps:
            if dump.reason == "baseline" and not dump.error:
                self._on_dump((dump.run, dump.attempt, dump.rank), dump.ts_s)
        if self._tape is not None:
            self._tape += [
                (
                    (dump.run, dump.attempt, dump.rank),
                    Frame(kind=Kind.STACKS, body=encode_stacks([dump])),
                )
                for dump in dumps
            ]

    def parts(self) -> dict[str, str]:
        """What each part sees, in words: `ok`, or why it sees nothing."""
        stacks = "off" if self._stacks is None else self._stacks.last_error or "ok"
        unseen = "off" if self._watch is None else "; ".join(self._watch.unseen) or "ok"
        return {"stacks": stacks, "host": unseen}

    def stop(self) -> None:
        """End the threads."""
        for part in (self._stacks, self._watch):
            if part is not None:
                part.stop()
        if self._pages is not None:
            self._pages.close()

    def _is_worth_it(self, request: Request) -> bool:
        """Without py-spy there is nothing to ask; denied, the steady round is enough to see when that ends."""
        error = "" if self._stacks is None else self._stacks.last_error
        return error != "not_installed" and (error != "denied" or request.reason in ("baseline", "burst"))

    def _tell(self, error: str) -> None:
        texts = {
            "not_installed": "no stacks without py-spy: pip install 'argus-triage[host]'",
            "denied": "no stacks: ptrace is denied; CAP_SYS_PTRACE or kernel.yama.ptrace_scope=0 allows it",
        }
        if error in texts:
            self._notices.once(f"stacks_{error}", texts[error])


def _seen(rank: OpenStep) -> Seen:
    return Seen(key=rank.key, pid=rank.pid, step=rank.step)


def _looks_of(read: Read, sample: HostSample | None) -> list[tuple[Key, HostLook]]:
    """A read as each rank's own look; the devices are the whole host's, its ranks' use is in the counters."""
    told = None if sample is None else replace(sample, ranks=())
    return [
        (
            key,
            HostLook(
                ts_s=read.ts_s,
                pid=pid,
                host=read.numbers,
                whole=counts.whole,
                run_delay_s=counts.run_delay_s,
                sample=told,
            ),
        )
        for (key, pid), counts in read.ranks.items()
        if counts.whole
    ]


HOST_GAUGES = ("cpu_some_s", "memory_full_s", "io_full_s", "cpu_steal_s")
RANK_GAUGES = ("run_delay_s", "throttled_s", "major_faults", "cpu_s")


def _show(counters: Counters, sample: HostSample) -> None:
    """Gauges of the last sample, as shares of its time; faults per second."""
    span_s = max(sample.end_s - sample.start_s, 1e-3)
    for name in HOST_GAUGES:
        if name in sample.numbers:
            part = name.removesuffix("_s")
            counters.set("argus_collector_host_pressure_ratio", sample.numbers[name] / span_s, label=part)
    for name in RANK_GAUGES:
        total = sum(use.numbers.get(name, 0.0) for use in sample.ranks)
        counters.set("argus_collector_ranks_kernel_ratio", total / span_s, label=name.removesuffix("_s"))
    for event in sample.events:
        counters.add("argus_collector_kernel_events_total", event.kind)
