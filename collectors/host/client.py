"""One request to the service and its answer, or the reason there is none."""

from __future__ import annotations

import http.client
import json
import math
import select
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, Protocol
from urllib.parse import urlsplit

from argus.collectors.records.upload import WIRE_HEADER, WIRE_VERSION

TIMEOUT_S = 10.0
MAX_ANSWER = 4 << 20
MAX_RETRY_AFTER_S = 300.0
"""A service may ask for patience, not for silence."""

IDLE_S = 10.0
"""How long a connection may lie unused and still be taken: `argus serve` closes its own after 15 s."""

MAX_AGE_S = 300.0
"""A connection is not used for longer, so that replicas behind one name share the hosts anew."""

MAX_IDLE = 4
"""Connections kept at once: heartbeats, windows and orders each wait on one of their own."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`status` 0 = no answer, `error` says why. `body` is the JSON object, empty if there was none."""

    status: int
    error: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    retry_after_s: float | None = None


class Post(Protocol):
    """How the uploader reaches the service."""

    def __call__(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        """POST `body` to `path`. Never raises for what a network or a server may do."""


@dataclass
class _Kept:
    """A connection between two requests; times are `time.monotonic`."""

    connection: http.client.HTTPConnection
    since_s: float
    used_s: float

    def is_usable(self, now_s: float) -> bool:
        """Whether the other end is likely to be there: something to read without a question is the end of it."""
        if now_s - self.used_s > IDLE_S or now_s - self.since_s > MAX_AGE_S or self.connection.sock is None:
            return False
        poll = select.poll()
        poll.register(self.connection.sock, select.POLLIN)
        return not poll.poll(0)


class _Connections:
    """The idle connections to one server, those used last first; for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Kept] = []

    def __del__(self) -> None:
        """Nobody can ask any more: the service need not wait for it to show."""
        for kept in self._idle:
            kept.connection.close()

    def take(self) -> _Kept | None:
        """One that is usable, None if none is."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                kept = self._idle.pop()
            if kept.is_usable(time.monotonic()):
                return kept
            kept.connection.close()

    def give_back(self, kept: _Kept) -> None:
        """Keep it for the next request, in place of the one idle for longest."""
        kept.used_s = time.monotonic()
        with self._lock:
            self._idle.append(kept)
            left_over = self._idle.pop(0) if len(self._idle) > MAX_IDLE else None
        if left_over is not None:
            left_over.connection.close()


@dataclass(frozen=True, kw_only=True)
class HttpPost:
    """Requests over kept connections: a thousand hosts' handshakes would cost the service more than their news.

    One that turns out dead while in use is an answer with status 0: whether the request arrived is not known, and
    whoever sends knows whether to send again.
    """

    scheme: str
    host: str
    port: int | None
    prefix: str
    key: str = field(default="", repr=False)
    timeout_s: float = TIMEOUT_S
    _connections: _Connections = field(default_factory=_Connections, init=False, repr=False, compare=False)

    @property
    def url(self) -> str:
        """Where it sends to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.prefix}"

    def __call__(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        """See `Post`."""
        return self._exchange("POST", path, body, headers=headers)

    def get(self, path: str) -> Answer:
        """GET `path`. Never raises for what a network or a server may do."""
        return self._exchange("GET", path, None, headers={})

    def send(self, path: str, body: bytes, content_type: str) -> Answer:
        """POST `body` of a type."""
        headers = {"Content-Type": content_type, WIRE_HEADER: str(WIRE_VERSION)}
        return self._exchange("POST", path, body, headers=headers)

    def _exchange(self, method: str, path: str, body: bytes | None, *, headers: Mapping[str, str]) -> Answer:
        kept = self._connections.take() or self._connect()
        connection = kept.connection
        try:
            connection.request(method, self.prefix + path, body, self._headers(headers))
            response = connection.getresponse()
            answer = _answer(response.status, response.headers, response.read(MAX_ANSWER))
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            return Answer(status=0, error=f"{type(error).__name__}: {error}"[:200])
        except BaseException:
            connection.close()
            raise
        if (
            response.isclosed() and connection.sock is not None
        ):  # read to its end, and the server keeps it too
            self._connections.give_back(kept)
        else:
            connection.close()
        return answer

    def _connect(self) -> _Kept:
        now_s = time.monotonic()
        if self.scheme == "http":
            plain = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_s)
            return _Kept(plain, since_s=now_s, used_s=now_s)
        context = ssl.create_default_context()
        secure = http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout_s, context=context)
        return _Kept(secure, since_s=now_s, used_s=now_s)

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        auth = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {**headers, **auth, "User-Agent": "argus-processor"}


def parse_server(url: str, *, key: str = "") -> HttpPost:
    """The service at `url`. ValueError names what is wrong with it."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the server must be a URL like http://HOST:PORT, got {url!r}")
    return HttpPost(
        scheme=parts.scheme, host=parts.hostname, port=parts.port, prefix=parts.path.rstrip("/"), key=key
    )


def _answer(status: int, headers: Message, raw: bytes) -> Answer:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    return Answer(
        status=status,
        error="" if status < 400 else _reason(body, raw),
        body=body if isinstance(body, dict) else {},
        retry_after_s=parse_retry_after(headers.get("Retry-After"), headers.get("Date")),
    )


def _reason(body: object, raw: bytes) -> str:
    """The sentence of a problem+json answer (RFC 9457), else the beginning of whatever came."""
    if isinstance(body, dict) and (body.get("detail") or body.get("title")):
        return str(body.get("detail") or body.get("title"))[:200]
    return raw[:200].decode("utf-8", "replace")


def parse_retry_after(value: str | None, date: str | None) -> float | None:
    """Seconds to wait: RFC 9110 allows a number or a date; a date counts from the server's own clock."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            now = parsedate_to_datetime(date or "")
            seconds = (parsedate_to_datetime(value) - now).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
