"""Sending to receivers whose answers have no end: the status counts, and nobody else waits for the rest."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from argus.api.notify.post import MAX_TEXT, HttpxHttp

HEAD = b"HTTP/1.1 %d OK\r\nContent-Type: text/event-stream\r\n\r\n"


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that reads one request and answers it by hand; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/hook"
        thread.join()


@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_without_an_end_is_the_status_it_began_with(status: int) -> None:
    left = threading.Event()

    def never_ending(connection: socket.socket) -> None:
        connection.sendall(HEAD % status)
        try:
            while not left.wait(0.02):
                connection.sendall(b": waiting\n\n")
        except OSError:
            return

    with answering(never_ending) as url, closing(HttpxHttp(timeout_s=0.5)) as http:
        answer = http.post(url, b"{}", headers={})
        left.set()
    assert answer.status == status and len(answer.text) <= MAX_TEXT


def test_an_answer_that_falls_silent_is_the_status_it_began_with() -> None:
    left = threading.Event()

    def silent(connection: socket.socket) -> None:
        connection.sendall(HEAD % 202)
        left.wait(30)

    with answering(silent) as url, closing(HttpxHttp(timeout_s=0.2)) as http:
        assert http.post(url, b"{}", headers={}).is_good
        left.set()


def test_an_answer_whose_head_comes_a_byte_at_a_time_is_none() -> None:
    left, num_bytes = threading.Event(), 0

    def dripping(connection: socket.socket) -> None:
        nonlocal num_bytes
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        try:
            while num_bytes < 500 and not left.wait(0.02):
                connection.sendall(b"a")
                num_bytes += 1
            connection.sendall(b"\r\nContent-Length: 0\r\n\r\n")
        except OSError:
            return

    with answering(dripping) as url, closing(HttpxHttp(timeout_s=0.1)) as http:
        answer = http.post(url, b"{}", headers={})
        left.set()
    assert (answer.status, answer.is_sent) == (0, True) and num_bytes < 500
