"""kill -9 of services, database and host processor at random moments: nothing acknowledged lost, nothing told twice."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from sqlalchemy import select

from argus.analytics.store.documents import dump
from argus.analytics.store.engine import open_store
from argus.analytics.store.tables import ATTEMPTS, FINDINGS, INCIDENT_EVENTS, INCIDENTS, RANK_WINDOWS, WINDOWS
from argus.api.cli.errors import CliError
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.upload import CONTENT_TYPE, encode_windows
from argus.evals.bench import Size
from argus.evals.load.cast import RANK_RUN, Host, Killed, Service, wait_until
from argus.evals.load.postgres import NoPostgres, Postgres, postgres
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import Simulation, simulate

ROUNDS: Mapping[Size, int] = {"smoke": 5, "default": 15, "full": 50}
REPLICAS = 2
TARGETS = ("service 0", "service 1", "database", "processor")
"""Each once before any comes again, in an order of the seed's."""

JOB = Job(run="chaos", ranks=8, steps=20_000, warmup_steps=0, gc_every=0)
FAULT = Fault(kind="compute", ranks=(5,), start_step=30, severity=3.0)
PERIOD_S = 0.2
"""A window of the job so often, by two hosts of four ranks."""

WAIT_S = (0.0, 1.5)
"""When the next blow falls."""

SETTLE_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which random moments."""
    parser.add_argument("--seed", type=int, default=1, help="of the moments and the order")
    parser.add_argument("--rounds", type=int, default=0, help="kills; 0 = as the size says")


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Kill, start again, count; `ok` if nothing is missing and nothing double."""
    rounds = args.rounds or ROUNDS[size]
    try:
        with tempfile.TemporaryDirectory(prefix="argus-chaos-") as name:
            folder = Path(name)
            folder.chmod(0o755)  # the database runs as another user
            with postgres(folder / "pg") as database, _cast(folder, database) as (services, host):
                feeder = _Feeder(services)
                with feeder:
                    blows = _strike(
                        services, database, host, feeder, rounds=rounds, rng=random.Random(args.seed)
                    )
                    host.finish()
                _wait_for_analysis(database, feeder)
                return _verdict(database, feeder, blows)
    except NoPostgres as error:
        if size != "smoke":
            raise CliError(str(error), code=1) from None
        print(f"bench chaos: not run: {error}", file=sys.stderr)
        return {"not_run": str(error), "ok": True}


def table(result: Mapping[str, Any]) -> str:
    """One line."""
    if "not_run" in result:
        return f"not run: {result['not_run']}"
    killed = ", ".join(f"{name} {num}" for name, num in sorted(result["killed"].items()))
    return (
        "| kills | of | acknowledged rank windows | lost | of the processor | lost | stored twice | incidents told twice "
        "| windows analysed |\n|---|---|---|---|---|---|---|---|---|\n"
        f"| {result['rounds']} | {killed} | {result['acknowledged']:,} | {result['lost']} "
        f"| {result['processor_acknowledged']:,} | {result['processor_lost']} | {result['stored_twice']} "
        f"| {result['told_twice']} | {result['windows_analysed']} of {result['windows']} |"
    )


@contextmanager
def _cast(folder: Path, database: Postgres) -> Iterator[tuple[list[Service], Host]]:
    services = [Service(n, database=database.url, folder=folder) for n in range(REPLICAS)]
    host: Host | None = None
    try:
        for service in services:
            service.start()
        host = Host(server=services[0].url, folder=folder)
        host.begin()
        yield services, host
    finally:
        if host is not None:
            host.finish()
        for service in services:
            service.kill()


@dataclass
class _Feeder:
    """The job's hosts: each window is sent until some replica acknowledges it."""

    services: Sequence[Service]
    acknowledged: set[tuple[int, int]] = field(default_factory=set)
    windows: int = 0
    _stopping: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._done = simulate(JOB, [FAULT], rng=np.random.default_rng(1))
        self._send("/v1/ingest/layouts", _layouts(self._done), media="application/json")
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        for closed in self._done.windows(WindowPlan()):
            for half in (closed.parts[:4], closed.parts[4:]):
                body = encode_windows(part.to_bytes() for part in half)
                self._send("/v1/ingest/windows", body, media=CONTENT_TYPE)
                self.acknowledged.update((part.rank, part.window) for part in half)
            self.windows = closed.index + 1
            if self._stopping.wait(PERIOD_S):
                return

    def _send(self, path: str, body: bytes, *, media: str) -> None:
        while True:
            for service in self.services:
                if service.post(path, body, media=media)[0] == 200:
                    return
            time.sleep(0.05)


@dataclass
class _Blows:
    """What was killed, and which rank windows of the processor's run had been stored before."""

    killed: list[str] = field(default_factory=list)
    known: set[tuple[int, int]] = field(default_factory=set)


def _layouts(done: Simulation) -> bytes:
    return dump({"layouts": [layout.to_json() for layout in done.layouts]}).encode()


def _strike(
    services: Sequence[Service],
    database: Postgres,
    host: Host,
    feeder: _Feeder,
    *,
    rounds: int,
    rng: random.Random,
) -> _Blows:
    cast: tuple[Killed, ...] = (*services, database, host)
    things = dict(zip(TARGETS, cast, strict=True))
    order: list[str] = []
    while len(order) < rounds:
        order += rng.sample(TARGETS, len(TARGETS))
    blows = _Blows()
    for target in order[:rounds]:
        blows.known |= set(_counts(database, RANK_RUN)["parts"])
        before = feeder.windows
        wait_until(lambda before=before: feeder.windows > before, what="an acknowledgement")  # type: ignore[misc]
        time.sleep(rng.uniform(*WAIT_S))
        things[target].kill()
        time.sleep(rng.uniform(*WAIT_S))
        things[target].start()
        blows.killed.append(target)
    return blows


def _wait_for_analysis(database: Postgres, feeder: _Feeder) -> None:
    def is_done() -> bool:
        return bool(_counts(database, JOB.run)["analysed"] >= feeder.windows)

    wait_until(is_done, what="the analysis of what was acknowledged", timeout_s=SETTLE_S)


def _counts(database: Postgres, run: str) -> dict[str, Any]:
    """What the database holds of a run: parts, windows by status, findings, what was told of incidents."""
    store = open_store(database.url)
    mine = select(ATTEMPTS.c.id).where(ATTEMPTS.c.run == run).scalar_subquery()
    try:
        with store.read() as connection:
            parts = connection.execute(
                select(RANK_WINDOWS.c.rank, RANK_WINDOWS.c.window).where(RANK_WINDOWS.c.attempt_id == mine)
            ).all()
            windows = connection.execute(
                select(WINDOWS.c.window, WINDOWS.c.status, WINDOWS.c.ranks_in).where(
                    WINDOWS.c.attempt_id == mine
                )
            ).all()
            findings = connection.execute(
                select(FINDINGS.c.window, FINDINGS.c.detector, FINDINGS.c.body).where(
                    FINDINGS.c.attempt_id == mine
                )
            ).all()
            told = connection.execute(
                select(INCIDENT_EVENTS.c.incident_id, INCIDENT_EVENTS.c.what)
                .join(INCIDENTS, INCIDENTS.c.id == INCIDENT_EVENTS.c.incident_id)
                .where(INCIDENTS.c.attempt_id == mine)
                .order_by(INCIDENT_EVENTS.c.id)
            ).all()
    finally:
        store.close()
    return {
        "parts": [tuple(row) for row in parts],
        "ranks_in": {row.window: row.ranks_in for row in windows},
        "analysed": sum(row.status == "analysed" for row in windows),
        "failed": sum(row.status == "failed" for row in windows),
        "findings": [tuple(row) for row in findings],
        "told": [tuple(row) for row in told],
    }


def _verdict(database: Postgres, feeder: _Feeder, blows: _Blows) -> dict[str, Any]:
    job, ranks = _counts(database, JOB.run), _counts(database, RANK_RUN)
    stored = Counter(job["parts"])
    lost = feeder.acknowledged - stored.keys()
    uncounted = {window: num for window, num in job["ranks_in"].items() if num != JOB.ranks}
    suspects_told = _told_twice(job["told"])
    processor_lost = blows.known - set(ranks["parts"])
    doubles = sum(num - 1 for num in stored.values()) + len(ranks["parts"]) - len(set(ranks["parts"]))
    findings_twice = len(job["findings"]) - len(set(job["findings"]))
    return {
        "rounds": len(blows.killed),
        "killed": dict(Counter(blows.killed)),
        "acknowledged": len(feeder.acknowledged),
        "lost": len(lost),
        "windows": feeder.windows,
        "windows_analysed": job["analysed"],
        "windows_failed": job["failed"],
        "windows_incomplete": len(uncounted),
        "processor_acknowledged": len(blows.known),
        "processor_lost": len(processor_lost),
        "stored_twice": doubles,
        "findings_twice": findings_twice,
        "told_twice": suspects_told,
        "incidents": len({incident for incident, _ in job["told"]}),
        "ok": not lost
        and not processor_lost
        and not doubles
        and not findings_twice
        and not suspects_told
        and not uncounted
        and not job["failed"]
        and job["analysed"] >= feeder.windows
        and bool(blows.known)
        and len({incident for incident, _ in job["told"]}) == 1,
    }


def _told_twice(told: Sequence[tuple[str, str]]) -> int:
    """Incidents opened while open, resolved while resolved."""
    state: dict[str, str] = {}
    twice = 0
    for incident, what in told:
        if what in ("opened", "reopened"):
            twice += state.get(incident) == "open" or (what == "opened" and incident in state)
            state[incident] = "open"
        elif what == "resolved":
            twice += state.get(incident) == "resolved"
            state[incident] = "resolved"
    return twice
