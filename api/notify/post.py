"""Sending JSON to other systems: one request, its answer or the reason there is none, and who may be called."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import httpx

TIMEOUT_S = 10.0
PARTS = 3
"""Connecting, sending and listening each have the time of one; all together it is never more, however the answer comes."""

MAX_TEXT = 500
MAX_PAGE = 8 << 20
"""Bytes of a page that are read; one that is cut there is no JSON any more."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`status` 0 = no answer; `is_sent` then says whether the request may have arrived."""

    status: int
    text: str = ""
    retry_after_s: float | None = None
    is_sent: bool = True

    @property
    def is_good(self) -> bool:
        """It was taken."""
        return 200 <= self.status < 300

    @property
    def is_passing(self) -> bool:
        """It may go better later."""
        return self.status in (0, 408, 425, 429) or self.status >= 500


class Http(Protocol):
    """How other systems are reached."""

    def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        """POST JSON. Never raises for what a network or a server may do."""

    def get(self, url: str) -> Answer:
        """GET, the whole text. Never raises for what a network or a server may do."""

    def close(self) -> None:
        """Give back the connections."""


class HttpxHttp:
    """Over httpx, without following redirects: where a secret goes is what was set up.

    The library's limits hold for each piece of an answer, and one that comes a byte at a time has pieces without end.
    Only a task can be ended between them, so requests run on an event loop, which has a thread from the first one on.
    """

    def __init__(self, *, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._made: tuple[asyncio.AbstractEventLoop, threading.Thread, httpx.AsyncClient] | None = None

    def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        """See `Http`."""
        return self._ask("POST", url, body, {"content-type": "application/json", **headers})

    def get(self, url: str) -> Answer:
        """See `Http`."""
        return self._ask("GET", url, None, {})

    def close(self) -> None:
        """Give back the connections."""
        with self._lock:
            made, self._made = self._made, None
        if made is None:
            return
        loop, thread, client = made
        asyncio.run_coroutine_threadsafe(client.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _running(self) -> tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]:
        """Made when first needed: reading the certificates of the system takes longer than starting without."""
        with self._lock:
            if self._made is None:
                loop = asyncio.new_event_loop()
                client = httpx.AsyncClient(timeout=self._timeout_s, follow_redirects=False)
                thread = threading.Thread(target=loop.run_forever, name="argus-http", daemon=True)
                thread.start()
                self._made = loop, thread, client
            return self._made[0], self._made[2]

    def _ask(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        loop, client = self._running()
        try:
            request = client.build_request(method, url, content=body, headers=dict(headers))
            return asyncio.run_coroutine_threadsafe(self._exchange(client, request), loop).result()
        except (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.UnsupportedProtocol,
            httpx.InvalidURL,
            UnicodeError,  # of a host that no name server can be asked for, such as a..b
        ) as error:
            return Answer(status=0, text=_reason(error), is_sent=False)
        except (httpx.HTTPError, TimeoutError) as error:
            return Answer(status=0, text=_reason(error))

    async def _exchange(self, client: httpx.AsyncClient, request: httpx.Request) -> Answer:
        async with asyncio.timeout(PARTS * self._timeout_s):
            got = await client.send(request, stream=True)
        max_bytes = MAX_PAGE if request.method == "GET" else MAX_TEXT
        try:
            text = await _read(got, max_bytes=max_bytes, within_s=self._timeout_s)
        finally:
            await got.aclose()
        wait = got.headers.get("retry-after", "")
        after_s = float(wait) if wait.isdecimal() and len(wait) < 6 else None
        return Answer(status=got.status_code, text=text, retry_after_s=after_s)


async def _read(got: httpx.Response, *, max_bytes: int, within_s: float) -> str:
    """What is looked at of an answer's text: its status stands already, and the text may have no end."""
    held = bytearray()
    with suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(within_s):
            async for chunk in got.aiter_bytes():
                held += chunk
                if len(held) >= max_bytes:
                    break
    return held[:max_bytes].decode("utf-8", "replace")


def _reason(error: Exception) -> str:
    """Why there is no answer, without the URL: it may hold a secret."""
    return type(error).__name__


def signed(secret: str, body: bytes, *, id: str, now_s: float) -> dict[str, str]:
    """Headers that prove who sent a body, in the form of standardwebhooks.com.

    The receiver computes HMAC-SHA256 over "ID.TIMESTAMP.BODY" and refuses a time too far from its own.
    """
    stamp = str(int(now_s))
    key = _key(secret)
    mac = hmac.new(key, b".".join((id.encode(), stamp.encode(), body)), hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }


def _key(secret: str) -> bytes:
    """`whsec_…` is the convention's own form; any other text is taken as it is."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        raise ValueError("a secret that begins with whsec_ must go on in base64") from None


def url_fault(url: str) -> str:
    """Why nothing can be sent to a URL, "" if it can."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"it cannot be read ({error})"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it must be http:// or https:// and name a host"
    return "" if not parts.username else "it may not hold a user or password"


def is_allowed_host(url: str, allowed: str) -> bool:
    """Whether the host of a URL is in a comma-separated list; `*.x` allows what ends in `.x`, `*` everything.

    >>> is_allowed_host("https://ci.example/hook", "*.example, other"), is_allowed_host("http://10.0.0.1/", "ci")
    (True, False)
    """
    host = (urlsplit(url).hostname or "").lower()
    for pattern in (part.strip().lower() for part in allowed.split(",")):
        if pattern == "*" or (
            pattern and (host == pattern or pattern[:2] == "*." and host.endswith(pattern[1:]))
        ):
            return True
    return False
