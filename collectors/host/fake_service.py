"""A service for tests: a real HTTP server on loopback that takes uploads, or misbehaves as told."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.layout import Layout
from argus.collectors.records.report import Report
from argus.collectors.records.stacks import StackDump, decode_stacks
from argus.collectors.records.summary import RankWindow
from argus.collectors.records.upload import decode_windows


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What to answer instead of taking the request; status 0 = cut the connection."""

    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b'{"title": "as told"}'


@dataclass(kw_only=True)
class FakeService:
    """What arrived, and how to answer. `windows` holds each key once, as a store would."""

    url: str = ""
    fail: Callable[[str], Reply | None] = lambda path: None
    plans: Sequence[Mapping[str, Any]] = ()
    switches: dict[str, bool] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)
    windows: dict[tuple[str, int, int, int], RankWindow] = field(default_factory=dict)
    beats: list[Heartbeat] = field(default_factory=list)
    stacks: list[StackDump] = field(default_factory=list)
    samples: list[HostSample] = field(default_factory=list)
    requests: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    num_duplicates: int = 0
    num_connections: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, is_true: Callable[[FakeService], bool], *, timeout_s: float = 20.0) -> bool:
        """Until a claim about what arrived holds; False if it never did."""
        with self.changed:
            return self.changed.wait_for(lambda: is_true(self), timeout_s)

    def take(self, path: str, body: bytes) -> dict[str, Any]:
        """Store a request's content; WireError if it is malformed."""
        if path == "/v1/ingest/windows":
            return self._take_windows(body)
        raw = json.loads(body)
        if path == "/v1/ingest/observations":
            self.stacks += decode_stacks(raw)
            self.samples += [HostSample.from_json(item) for item in raw["samples"]]
            return {"accepted": len(raw["dumps"]) + len(raw["samples"]), "rejected": []}
        if path == "/v1/ingest/layouts":
            self.layouts += [Layout.from_json(item) for item in raw["layouts"]]
        else:
            self.beats += [Heartbeat.from_json(item) for item in raw["heartbeats"]]
            self.reports += [Report.from_json(raw["processor"])] if "processor" in raw else []
        return {"accepted": 1, "plans": list(self.plans), "switches": dict(self.switches)}

    def _take_windows(self, body: bytes) -> dict[str, Any]:
        windows = [RankWindow.from_bytes(raw) for raw in decode_windows(body)]
        new = {window.key: window for window in windows if window.key not in self.windows}
        self.num_duplicates += len(windows) - len(new)
        self.windows.update(new)
        return {"accepted": len(new), "duplicates": len(windows) - len(new), "rejected": []}


class _Server(ThreadingHTTPServer):
    """Takes its open connections down with it, as the end of a process does."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], service: FakeService) -> None:
        self._service = service
        self._open: set[socket.socket] = set()
        super().__init__(address, _handler(service))

    def process_request(self, request: Any, client_address: Any) -> None:
        """A new connection."""
        self._service.num_connections += 1
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """One ended by itself."""
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """All of them."""
        super().server_close()
        for one in list(self._open):
            with suppress(OSError):  # its thread closes it at the same moment
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def serve(service: FakeService, *, port: int = 0) -> Iterator[FakeService]:
    """Run `service` on 127.0.0.1; leaving the block takes it down."""
    server = _Server(("127.0.0.1", port), service)
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(service: FakeService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one piece: else the client's delayed ACK holds up the second

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            reply = service.fail(self.path)
            with service.changed:
                service.requests.append((self.path, dict(self.headers.items())))
                if reply is None:
                    answer = json.dumps(service.take(self.path, body)).encode()
                    reply = Reply(status=200, body=answer)
                service.changed.notify_all()
            self.close_connection = not reply.status or reply.headers.get("Connection") == "close"
            if reply.status:
                self._answer(reply)

        def _answer(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:
            """Tests read what arrived, not a log."""

    return Handler
