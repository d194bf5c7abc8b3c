"""A service over HTTP on loopback in this process, with or without its analysis."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from argus.api.http.app import make_app
from argus.api.service import Service

READY_S = 120.0


@contextmanager
def served(service: Service, *, analyses: bool = True) -> Iterator[str]:
    """The service over HTTP; with its analysis, once that has taken up the runs that are live."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(make_app(service), log_level="warning", lifespan="on" if analyses else "off")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        deadline = time.monotonic() + READY_S
        while analyses and not any(now.topology for now in service.published.runs_now()):
            assert time.monotonic() < deadline, "the analysis did not take up the run"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
