"""A service that has lived through simulated jobs, and its HTTP server on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import uvicorn
from fastapi import FastAPI

from argus.analytics.store.documents import dump
from argus.api.http.app import make_app
from argus.api.service import Service
from argus.evals.moments import moments
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from tests.api.kit import FakeClock, beats_body, upload


def live(
    service: Service,
    clock: FakeClock,
    job: Job,
    faults: Sequence[Fault] = (),
    *,
    env: dict[str, str] | None = None,
) -> None:
    """Let the service live through a job, from its layouts to some time after its end."""
    done = simulate(job, tuple(faults), rng=np.random.default_rng(5))
    layouts = [replace(item, env=env or {}).to_json() for item in done.layouts]
    clock.now_s = job.start_s
    service.receive_layouts(dump({"layouts": layouts}).encode())
    for moment in moments(done):
        clock.now_s = moment.now_s
        if moment.parts:
            service.receive_windows(upload(*moment.parts))
        if moment.beats:
            service.receive_heartbeats(beats_body(*moment.beats))
        while service.worker.turn(clock.now_s):
            pass
    assert service.published.troubles_now() == ()


@contextmanager
def over_http(service: Service) -> Iterator[str]:
    """The service's URL while it is served; its worker is turned by the test."""
    with listening_on(make_app(service)) as url:
        yield url


@contextmanager
def listening_on(app: FastAPI) -> Iterator[str]:
    """The URL of an application while it is served, without its workers."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
