"""Send a recorded job to a running service as the uploads its hosts would have made."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

import numpy as np

from argus.collectors.host.client import Answer, Post
from argus.collectors.host.plans import parse_plans
from argus.collectors.host.window import cut_window, with_looks
from argus.collectors.job import Job, without_holes
from argus.collectors.records.events import DTYPES, RankRecords
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.stacks import StackDump, encode_stacks
from argus.collectors.records.upload import CONTENT_TYPE, WIRE_HEADER, WIRE_VERSION, encode_windows

RANKS_A_REQUEST = 64
"""What one host sends at a time."""

DUMPS_A_REQUEST = 1000
DONE = ("analysed", "failed", "late")
PATIENCE_S, LOOK_S = 300.0, 0.25
"""How long the service may take for the windows it was sent, and how often it is asked."""

MAX_TRIES = 30
MAX_WAIT_S = 30.0
BUSY = frozenset({0, 408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may be taken; 0 is none at all."""

JSON_HEADERS = {"Content-Type": "application/json", WIRE_HEADER: str(WIRE_VERSION)}
WINDOW_HEADERS = {**JSON_HEADERS, "Content-Type": CONTENT_TYPE}

_TIMES: Mapping[str, tuple[str, ...]] = {
    "steps": ("start_ns", "end_ns"),
    "phases": ("start_ns",),
    "collectives": ("entry_ns", "end_ns"),
    "kernels": ("start_ns",),
    "events": ("start_ns",),
}


class NotSent(Exception):
    """The service is not there or does not want it; one sentence."""


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What was sent and what came of it."""

    run: str
    attempt: int
    ranks: int
    steps: int
    windows: int
    bytes: int
    refused: tuple[str, ...]


@dataclass(kw_only=True)
class Replay:
    """Sends one job; `clock` and `sleep` are those of the machine, `speed` 0 sends as fast as it is taken.

    `get` asks the service what it has analysed: a job that is over gets no incident any more, so that its end
    must not overtake its windows.
    """

    post: Post
    get: Callable[[str], Answer]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    rng: random.Random
    speed: float = 0.0
    progress: Callable[[str, float], None] = lambda name, share: None
    num_bytes: int = 0
    num_windows: int = 0
    refused: list[str] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)

    def send(
        self, job: Job, *, events: Sequence[OutsideEvent] = (), stacks: Sequence[StackDump] = ()
    ) -> Sent:
        """Layouts, then window by window what each rank did, then that it ended. Raises NotSent."""
        began_s = self.clock()
        records = job.records
        layout = records[0].layout
        plan = self._layouts(records)
        self._witnesses(events, (*(dump for one in records for dump in one.stacks), *stacks))
        first_s = min(int(one.steps["start_ns"].min()) for one in records if len(one.steps)) * 1e-9
        step, count = 0, job.num_steps
        while step < count:
            index = plan.index(step)
            _, end = plan.bounds(index)
            self._pace(began_s, _end_s(records, until=end) - first_s)
            self._windows(records, plan, index)
            is_last = end >= count
            if is_last:
                self._settle(layout.run, layout.attempt)
            plan = (
                self._beats(records, step=min(end, count) - 1, state="ended" if is_last else "running")
                or plan
            )
            self.progress(layout.run, min(end, count) / count)
            step = end
        return Sent(
            run=layout.run,
            attempt=layout.attempt,
            ranks=len(records),
            steps=count,
            windows=self.num_windows,
            bytes=self.num_bytes,
            refused=tuple(self.refused),
        )

    def _layouts(self, records: Sequence[RankRecords]) -> WindowPlan:
        key = (records[0].layout.run, records[0].layout.attempt)
        plan = WindowPlan()
        for part in _parts(records):
            body = {"layouts": [one.layout.to_json() for one in part]}
            answer = self._ask("/v1/ingest/layouts", _json(body), JSON_HEADERS)
            plan = parse_plans(answer.body.get("plans"))[0].get(key, plan)
        return plan

    def _windows(self, records: Sequence[RankRecords], plan: WindowPlan, index: int) -> None:
        for part in _parts(records):
            windows = [with_looks(cut_window(one, plan, index), one) for one in part]
            windows = [window for window in windows if len(window.steps)]
            if windows:
                body = encode_windows(window.to_bytes() for window in windows)
                answer = self._ask("/v1/ingest/windows", body, WINDOW_HEADERS)
                self.num_windows += len(windows)
                if answer.body.get("accepted"):
                    self.taken.add(index)

    def _beats(self, records: Sequence[RankRecords], *, step: int, state: str) -> WindowPlan | None:
        """That every rank got so far; the plan the service follows now."""
        layout, plan = records[0].layout, None
        for part in _parts(records):
            beats = [_beat(one, step=step, state=state) for one in part]
            by_host = {beat.host for beat in beats}
            body = {
                "host": by_host.pop() if len(by_host) == 1 else "",
                "heartbeats": [b.to_json() for b in beats],
            }
            answer = self._ask("/v1/ingest/heartbeats", _json(body), JSON_HEADERS)
            plan = parse_plans(answer.body.get("plans"))[0].get((layout.run, layout.attempt), plan)
        return plan

    def _settle(self, run: str, attempt: int) -> None:
        """Wait until the service has analysed what it took, or too long."""
        until_s = self.clock() + PATIENCE_S
        while num := self._waiting(run, attempt):
            if self.clock() >= until_s:
                self.refused.append(f"windows: {num} are not analysed yet, their incidents may be missing")
                return
            self.sleep(LOOK_S)

    def _waiting(self, run: str, attempt: int) -> int:
        """Windows that were taken and are not analysed: those that the service has not come to are none of its yet."""
        body = self.get(f"/v1/runs/{quote(run, safe='')}").body
        attempts = body.get("attempts")
        told = [one for one in attempts if isinstance(one, dict)] if isinstance(attempts, list) else []
        mine = next((one for one in told if one.get("attempt") == attempt), {})
        by_status = mine.get("windows_by_status")
        counts = by_status if isinstance(by_status, dict) else {}
        done = sum(n for status, n in counts.items() if status in DONE and isinstance(n, int))
        return max(len(self.taken) - done, 0)

    def _witnesses(self, events: Sequence[OutsideEvent], stacks: Sequence[StackDump]) -> None:
        for at in range(0, len(events), DUMPS_A_REQUEST):
            body = {"events": [_event(event) for event in events[at : at + DUMPS_A_REQUEST]]}
            self._ask("/v1/events", _json(body), JSON_HEADERS)
        for at in range(0, len(stacks), DUMPS_A_REQUEST):
            part = encode_stacks(stacks[at : at + DUMPS_A_REQUEST])
            self._ask("/v1/ingest/observations", _json({"host": "", "samples": [], **part}), JSON_HEADERS)

    def _pace(self, began_s: float, due_s: float) -> None:
        if self.speed > 0:
            self.sleep(max(began_s + due_s / self.speed - self.clock(), 0.0))

    def _ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """The answer to a request; a busy service is asked again. Raises NotSent."""
        for attempt in range(MAX_TRIES):
            answer = self.post(path, body, headers=headers)
            if 200 <= answer.status < 300 and answer.body:
                self.num_bytes += len(body)
                self._note(path, answer)
                return answer
            if answer.status not in BUSY or (answer.status == 0 and attempt >= 2):
                break
            wait_s = min(MAX_WAIT_S, 0.25 * 2.0**attempt) * self.rng.uniform(0.5, 1.0)
            self.sleep(max(wait_s, answer.retry_after_s or 0.0))
        if answer.status == 0:
            raise NotSent(f"no answer to {path}: {answer.error}; is `argus serve` up, is --server right?")
        raise NotSent(f"the service does not take {path}: {answer.error or answer.status}")

    def _note(self, path: str, answer: Answer) -> None:
        rejected = answer.body.get("rejected")
        for item in rejected if isinstance(rejected, list) else ():
            reason = item.get("reason", "") if isinstance(item, dict) else item
            self.refused.append(f"{path.rpartition('/')[2]}: {str(reason)[:200]}")


def as_attempt(job: Job, *, run: str = "", shift_s: float = 0.0) -> Job:
    """The job with its steps counted from 0 and without holes, under another name if one is given, its clocks moved by `shift_s`."""
    job = without_holes(job)
    moved = tuple(
        _moved(one, run=run or one.layout.run, first=job.first_step, shift_ns=round(shift_s * 1e9))
        for one in job.records
    )
    return replace(job, records=moved, first_step=0)


def _moved(records: RankRecords, *, run: str, first: int, shift_ns: int) -> RankRecords:
    rows = {}
    for kind in DTYPES:
        part = getattr(records, kind).copy()
        part["step"] -= first
        for column in _TIMES[kind]:
            part[column] += shift_ns
        rows[kind] = part
    rows["kernels"]["launch_ns"] += np.where(rows["kernels"]["launch_ns"] > 0, shift_ns, 0)
    shift_s = shift_ns * 1e-9
    return replace(
        records,
        layout=replace(records.layout, run=run),
        steps=rows["steps"],
        phases=rows["phases"],
        collectives=rows["collectives"],
        kernels=rows["kernels"],
        events=rows["events"],
        looks=tuple(replace(look, ts_s=look.ts_s + shift_s) for look in records.looks),
        stacks=tuple(
            replace(dump, run=run, step=max(dump.step - first, 0), ts_s=dump.ts_s + shift_s)
            for dump in records.stacks
        ),
    )


def _parts(records: Sequence[RankRecords]) -> Iterator[Sequence[RankRecords]]:
    for at in range(0, len(records), RANKS_A_REQUEST):
        yield records[at : at + RANKS_A_REQUEST]


def _end_s(records: Sequence[RankRecords], *, until: int) -> float:
    """When the last of the ranks ended its last step before `until`."""
    ends = [one.steps["end_ns"][one.steps["step"] < until] for one in records]
    return max((int(part.max()) for part in ends if len(part)), default=0) * 1e-9


def _beat(one: RankRecords, *, step: int, state: str) -> Heartbeat:
    """The rank as it would have told of itself at the end of a step."""
    done = one.steps[one.steps["step"] <= step]
    now_ns = int(done["end_ns"].max()) if len(done) else 0
    lengths = done["end_ns"] - done["start_ns"]
    layout = one.layout
    return Heartbeat(
        run=layout.run,
        attempt=layout.attempt,
        rank=layout.rank,
        host=layout.host,
        ts_s=now_ns * 1e-9,
        state=state,
        status=Status(
            ts_ns=now_ns,
            step=int(done["step"].max()) if len(done) else 0,
            step_since_ns=now_ns,
            step_p50_ns=int(np.median(lengths)) if len(lengths) else 0,
            groups=_calls(one, step),
        ),
    )


def _calls(one: RankRecords, step: int) -> dict[str, tuple[int, int]]:
    """Calls entered and completed by group."""
    names, counts = np.unique(one.collectives["group"][one.collectives["step"] <= step], return_counts=True)
    pairs = zip(names.tolist(), counts.tolist(), strict=True)
    return {one.name(name): (count, count) for name, count in pairs}


def _event(event: OutsideEvent) -> dict[str, object]:
    return {
        "time": event.time_s,
        "node": event.node,
        "source": event.source,
        "text": event.text,
        "kind": event.kind,
        "value": event.value,
    }


def _json(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
