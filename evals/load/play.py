"""The generator's process: every host sends its windows and heartbeats when they are due, until the time is up."""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import heappop, heappush

from argus.api.http.connections import room_for
from argus.collectors.host.client import Answer, HttpPost, parse_server
from argus.collectors.host.uploader import BEATS_PATH, HEADERS, JSON_HEADERS, PATHS, is_refusal
from argus.evals.load.bodies import STEP_S, Cluster, layouts_body, make_cluster
from argus.evals.load.packed import Packed
from argus.evals.simulator.kernel_blobs import RANKS_PER_HOST

BEATS_S = 5.0
"""Each host sends heartbeats so often, each at its own moment."""

FLUSH_S = 5.0
"""A host sends its window at its own moment within so long after the window's end, as the processor does."""

BEAT_THREADS, WINDOW_THREADS = 64, 48
"""Requests under way at once; a window that is sent again must not hold up signs of life."""

RETRY_S = 0.5

TRIED, SLACK, SYNC_S = 32, 1.3, 10.0
"""Uploads that tell how long packing takes, how much longer it may take, and what the disk takes after it."""

PACKINGS = 3
"""Times it is begun: a machine that got slower meanwhile has told its pace by then."""

SWITCH_S = 0.0005
"""How long a thread may hold the interpreter while others want it: Python's 5 ms are longer than a request takes."""


@dataclass(kw_only=True)
class Log:
    """What became of the requests; one lock, many threads."""

    latencies_ms: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    acknowledged: Counter[int] = field(default_factory=Counter)
    raw_bytes: int = 0
    sent_bytes: int = 0
    missed_beats: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Player:
    """Hosts of a cluster; time is the wall clock's, for the service compares it with its own."""

    def __init__(self, cluster: Cluster, url: str, *, seconds: float, rng: random.Random) -> None:
        self._cluster, self._seconds, self._rng = cluster, seconds, rng
        room_for(2 * cluster.num_hosts)  # each has its own connection, and a second one beside a long upload
        self._posts = [parse_server(url) for _ in range(cluster.num_hosts)]
        self.log = Log()
        self._begun_s = 0.0
        self._packed = Packed()

    def announce(self) -> None:
        """Layouts of all hosts, several hosts a request."""
        ranks = 16 * RANKS_PER_HOST
        for first in range(0, len(self._cluster.layouts), ranks):
            body = layouts_body(self._cluster.layouts[first : first + ranks])
            answer = self._posts[0](PATHS["layouts"], body, headers=JSON_HEADERS)
            if answer.status != 200:
                raise SystemExit(f"the service refused layouts: {answer.status} {answer.error}")

    def pack(self) -> None:
        """Pack all uploads; from now on it is known when the load begins. Raises SystemExit."""
        keys = [(host, window) for _, host, window in sorted(self._schedule(0.0)) if window >= 0]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            tried = [(number % self._cluster.num_hosts, 0) for number in range(TRIED)]
            each_s = self._pack_all(pool, tried, start_s=0.0) / TRIED
            for _ in range(PACKINGS):
                self._begun_s = time.time() + SLACK * each_s * len(keys) + SYNC_S
                each_s = self._pack_all(pool, keys, start_s=self._begun_s) / max(len(keys), 1)
                left_s = self._begun_s - time.time()
                if left_s >= 0:
                    time.sleep(left_s)
                    return
        raise SystemExit("packing the uploads takes longer each time it is begun; is something else running?")

    def _pack_all(
        self, pool: ThreadPoolExecutor, keys: Sequence[tuple[int, int]], *, start_s: float
    ) -> float:
        """Pack these (host, window) anew for a load that begins at `start_s`; seconds it took."""
        before_s = time.perf_counter()
        self._packed.close()
        self._packed = Packed()
        bodies = pool.map(lambda key: self._cluster.upload(*key, start_s=start_s), keys)
        for key, (body, raw) in zip(keys, bodies, strict=True):
            self._packed.put(key, body, raw=raw)
        self._packed.sync()
        return time.perf_counter() - before_s

    def play(self) -> float:
        """Send everything that is due within the time; how long it took until the last acknowledgement."""
        begun_s = self._begun_s
        due = self._schedule(begun_s)
        sent = []
        with ThreadPoolExecutor(BEAT_THREADS) as beats, ThreadPoolExecutor(WINDOW_THREADS) as windows:
            while due:
                at_s, host, window = heappop(due)
                time.sleep(max(0.0, at_s - time.time()))
                if window < 0:
                    sent.append(beats.submit(self._send_beats, host, begun_s))
                else:
                    sent.append(windows.submit(self._send_windows, host, window, due_s=at_s))
        for future in sent:
            future.result()
        self.close()
        return time.time() - begun_s

    def close(self) -> None:
        """Let go of what was packed."""
        self._packed.close()

    def _schedule(self, begun_s: float) -> list[tuple[float, int, int]]:
        """(time, host, window), heartbeats as window −1; a window is due after its end."""
        due: list[tuple[float, int, int]] = []
        for host in range(self._cluster.num_hosts):
            at_s = begun_s + self._rng.uniform(0, BEATS_S)
            while at_s < begun_s + self._seconds:
                heappush(due, (at_s, host, -1))
                at_s += BEATS_S
            delay_s = self._rng.uniform(0, FLUSH_S)
            window = 0
            while (end_s := (window + 1) * self._cluster.window_s) + FLUSH_S <= self._seconds:
                heappush(due, (begun_s + end_s + delay_s, host, window))
                window += 1
        return due

    def _send_beats(self, host: int, begun_s: float) -> None:
        now_s = time.time()
        body = self._cluster.beats(host, now_s=now_s, step=int((now_s - begun_s) / STEP_S))
        answer = self._timed(self._posts[host], BEATS_PATH, body, JSON_HEADERS)
        if answer.status != 200:
            with self.log.lock:
                self.log.missed_beats += 1  # the next ones say the same, newer

    def _send_windows(self, host: int, window: int, *, due_s: float) -> None:
        body, raw = self._packed.get((host, window))
        post = self._posts[host]
        while (answer := self._timed(post, PATHS["windows"], body, HEADERS["windows"])).status != 200:
            if is_refusal(answer):
                raise ValueError(f"the service refused a window: {answer.status} {answer.error}")
            time.sleep((answer.retry_after_s or RETRY_S) * self._rng.uniform(0.5, 1.0))
        with self.log.lock:
            self.log.acknowledged[window] += int(answer.body["accepted"]) + int(answer.body["duplicates"])
            self.log.raw_bytes += raw
            self.log.sent_bytes += len(body)
            self.log.late_s.append(time.time() - due_s)

    def _timed(self, post: HttpPost, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        begun = time.perf_counter()
        answer = post(path, body, headers=headers)
        with self.log.lock:
            self.log.latencies_ms.append((time.perf_counter() - begun) * 1e3)
            self.log.statuses[answer.status] += 1
        return answer


def main(argv: Sequence[str]) -> int:
    """Play; one JSON object on stdout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    for name in ("--ranks", "--window-steps", "--bytes-per-rank-step"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args(argv)
    cluster = make_cluster(
        run="ingest",
        num_ranks=args.ranks,
        window_steps=args.window_steps,
        bytes_per_rank_step=args.bytes_per_rank_step,
    )
    player = Player(cluster, args.url, seconds=args.seconds, rng=random.Random(8))
    player.announce()
    player.pack()
    print("ready", flush=True)
    sys.setswitchinterval(SWITCH_S)
    sys.stdin.readline()  # the word to begin
    before = resource.getrusage(resource.RUSAGE_SELF)
    took_s = player.play()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps(_report(player.log, took_s=took_s, cpu_s=cpu_s)), flush=True)
    return 0


def _report(log: Log, *, took_s: float, cpu_s: float) -> dict[str, object]:
    return {
        "took_s": took_s,
        "cpu_s": cpu_s,
        "raw_bytes": log.raw_bytes,
        "sent_bytes": log.sent_bytes,
        "acknowledged": dict(log.acknowledged),
        "statuses": dict(log.statuses),
        "missed_beats": log.missed_beats,
        "latencies_ms": sorted(log.latencies_ms),
        "late_s": sorted(log.late_s),
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
