"""One request to the service and its answer, or the reason there is none."""

from __future__ import annotations

import http.client
import json
import math
import ssl
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


@dataclass(frozen=True, kw_only=True)
class HttpPost:
    """POST over one fresh connection a request: they are seconds apart, kept ones go stale."""

    scheme: str
    host: str
    port: int | None
    prefix: str
    key: str = field(default="", repr=False)
    timeout_s: float = TIMEOUT_S

    @property
    def url(self) -> str:
        """Where it sends to."""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.prefix}"

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
        connection = self._connect()
        try:
            connection.request(method, self.prefix + path, body, self._headers(headers))
            response = connection.getresponse()
            return _answer(response.status, response.headers, response.read(MAX_ANSWER))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Answer(status=0, error=f"{type(error).__name__}: {error}"[:200])
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout_s, context=context)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_s)

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
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
