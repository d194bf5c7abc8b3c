"""Clients that connect and bring nothing, bring it byte by byte, or too much of it: closed, and others are served."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.requests import Request

from argus.api.http import frame
from argus.api.http.app import make_app
from argus.api.http.connections import DEAD_S, HEAD_BYTES, listening, protocol_of, room_for
from argus.api.http.frame import bounded
from argus.collectors.host.client import parse_server
from tests.api.kit import FakeClock, service_at
from tests.api.process import wait_for

pytestmark = pytest.mark.slow

HEAD_S = 0.3
NUM_SLOW = 40
"""Ten thousand of them are the same, only more; `room_for` says how many fit."""


@contextmanager
def served(folder: Path, *, max_connections: int) -> Iterator[tuple[str, int]]:
    with server_at(folder, max_connections=max_connections) as server:
        yield server.servers[0].sockets[0].getsockname()[:2]


@contextmanager
def server_at(folder: Path, *, max_connections: int, dead_s: int = DEAD_S) -> Iterator[uvicorn.Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    listening(listener, dead_s=dead_s)
    with service_at(folder / "a.sqlite", clock=FakeClock()) as service:
        app = make_app(service)
        config = uvicorn.Config(
            app,
            log_level="error",
            lifespan="off",
            ws="none",
            http=protocol_of(
                max_connections=max_connections, head_timeout_s=HEAD_S, crowding=app.state.crowding
            ),
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_for(lambda: server.started)
            yield server
        finally:
            server.should_exit = True
            thread.join()
            listener.close()


def ask(address: tuple[str, int], head: bytes = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") -> bytes:
    """The beginning of the answer, b"" if the connection was closed."""
    with socket.create_connection(address, timeout=20) as one:
        try:
            one.sendall(head)
            return one.recv(1000)
        except (ConnectionResetError, BrokenPipeError):
            return b""


READYZ = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def whole(address: tuple[str, int], head: bytes) -> bytes:
    """An answer to its end, which is that of the connection."""
    with socket.create_connection(address, timeout=20) as one:
        one.sendall(head)
        return b"".join(iter(lambda: one.recv(4096), b""))


def ends(one: socket.socket) -> bool:
    """Whether the service closes a connection."""
    one.settimeout(20)
    try:
        return one.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_silent_and_trickling_clients_are_closed_and_others_served(tmp_path: Path) -> None:
    with served(tmp_path, max_connections=1000) as address:
        silent = [socket.create_connection(address, timeout=20) for _ in range(NUM_SLOW)]
        for number, one in enumerate(silent):
            if number % 2:
                one.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        assert b"200 OK" in ask(address)
        assert all(ends(one) for one in silent)
        for one in silent:
            one.close()
        assert b"200 OK" in ask(address)


def test_no_more_connections_than_there_is_room_for(tmp_path: Path) -> None:
    with served(tmp_path, max_connections=4) as address:
        silent = [socket.create_connection(address, timeout=20) for _ in range(12)]
        assert b"200 OK" in ask(address)  # in the place of one that is silent
        closed = sum(ends(one) for one in silent)
        assert closed == 12  # eight at once, four after their time
        assert b"all 4 connections are taken" in whole(address, READYZ)
        for one in silent:
            one.close()
        assert b"200 OK" in ask(address)


def test_a_connection_is_kept_while_it_is_used(tmp_path: Path) -> None:
    with served(tmp_path, max_connections=4) as address, socket.create_connection(address) as one:
        one.settimeout(20)
        for _ in range(3):
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while b"}" not in answer:
                answer += one.recv(4000)
            assert b"200 OK" in answer
        one.sendall(b"GET /healthz HTTP/1.1\r\n")  # the next one's head must come in time, too
        assert ends(one)


def test_a_head_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with served(tmp_path, max_connections=4) as address:
        assert b" 400 " in ask(address, b"GET / HTTP/1.1\r\nX: " + b"x" * (HEAD_BYTES + 1000))
        assert b"200 OK" in ask(address)


def test_a_head_has_its_room_anew_in_every_request(tmp_path: Path) -> None:
    body = b"x" * (HEAD_BYTES + 1000)
    head = b"POST /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with served(tmp_path, max_connections=4) as address, socket.create_connection(address, timeout=20) as one:
        for _ in range(2):
            one.sendall(head + body + b"GET /healthz HTTP/1.1\r\nX: ")  # in pieces, behind a body in one read
            one.sendall(b"x" * (HEAD_BYTES // 2))
            one.sendall(b"\r\nHost: localhost\r\n\r\n")
            answers = b""
            while b"200 OK" not in answers or b"}" not in answers.partition(b"200 OK")[2]:
                answers += one.recv(4096)
            assert b" 404 " in answers and b" 400 " not in answers


def test_a_processor_keeps_its_connection(tmp_path: Path) -> None:
    with server_at(tmp_path, max_connections=4) as server:
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        post = parse_server(f"http://{host}:{port}")
        seen = set()
        for _ in range(5):
            assert post.get("/healthz").status == 200
            seen |= {id(connection) for connection in server.server_state.connections}
    assert len(seen) == 1


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS where none is spoken
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 100 + b"what\r\n\r\n",
    ],
)
def test_junk_is_refused_and_others_are_served(tmp_path: Path, junk: bytes) -> None:
    with served(tmp_path, max_connections=4) as address:
        answer = ask(address, junk)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        assert b"200 OK" in ask(address)


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_an_upgrade_is_ignored_or_refused_in_words(tmp_path: Path, protocol: str) -> None:
    asks = f"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
    with served(tmp_path, max_connections=4) as address:
        assert b"200 OK" in ask(address, f"GET /healthz HTTP/1.1\r\n{asks}\r\n".encode())
        head = f"POST /v1/ingest/layouts HTTP/1.1\r\n{asks}Content-Length: 2\r\n\r\n"
        answer = ask(address, f"{head}{{}}".encode())
        assert b" 400 " in answer and b"without an Upgrade header" in answer
        assert b"200 OK" in ask(address)


def test_a_body_that_does_not_come_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "BODY_TIMEOUT_S", 0.2)
    head = (
        b"POST /v1/ingest/layouts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{"
    )
    with served(tmp_path, max_connections=4) as address:
        answer = ask(address, head)
    assert b" 408 " in answer and b"application/problem+json" in answer


def test_a_body_that_is_too_large_is_cut_off() -> None:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"x" * 600, "more_body": True}

    async def read() -> int:
        request = Request({"type": "http", "headers": []}, bounded(receive, limit=1000))
        try:
            return len(await request.body())
        except Exception as error:  # noqa: BLE001 - looked at below
            return int(error.status_code)  # type: ignore[attr-defined]

    assert asyncio.run(read()) == 413


def test_the_kernel_is_told_to_find_half_open_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listening(listener)
        with socket.create_connection(listener.getsockname()) as client:
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
            assert client


TCP_REPAIR = 19
"""Makes a socket's end silent: no FIN, no RST, as when a host loses its power. Needs CAP_NET_ADMIN."""


@pytest.mark.parametrize("how", ["vanishes in its body", "does not read"])
def test_a_half_open_connection_is_found_and_closed(tmp_path: Path, how: str) -> None:
    with server_at(tmp_path, max_connections=4, dead_s=1) as server, socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(server.servers[0].sockets[0].getsockname())
        if how == "does not read":
            one.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        else:
            head = "POST /v1/ingest/layouts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
            one.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
        wait_for(
            lambda: any(getattr(connection, "cycle", None) for connection in server.server_state.connections)
        )
        if how != "does not read":
            try:
                one.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            except PermissionError:
                pytest.skip("only root may let a peer vanish")
            one.close()
        wait_for(lambda: not server.server_state.connections)
        assert not server.server_state.connections


def test_files_are_there_for_the_connections() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
        room = room_for(4000)
        assert room == min(4000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 512)
        assert room_for(10**9) < 10**9 or before[1] == resource.RLIM_INFINITY
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_tls_is_spoken_with_a_certificate(tmp_path: Path) -> None:
    from tests.api.certificate import certificate
    from tests.api.process import start

    cert, key = certificate(tmp_path)
    running = start(
        tmp_path / "a.sqlite", "--tls-cert", str(cert), "--tls-key", str(key), SSL_CERT_FILE=str(cert)
    )
    try:
        assert running.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(cert))
        host, _, port = running.url.removeprefix("https://").rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as one,
        ):
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b""
            while part := one.recv(4000):
                answer += part
            assert b"200 OK" in answer
    finally:
        assert running.terminate() == 0
