"""A stand-in for Slack on loopback: its Web API with the limits and rates that real workspaces have."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from argus.agent.stub_llm.loopback import Loopback
from argus.api.slack.double_limits import fault_of
from argus.api.slack.double_rooms import Rooms, Unknown

Json = dict[str, Any]
Method = Callable[["SlackDouble", Json], Json]

TOKEN, APP_TOKEN, CHANNEL, SECRET = "xoxb-double", "xapp-double", "C0DOUBLE", "double-secret"
MAX_BODY = 1 << 20
MAX_BURST = 4
"""Messages a channel takes at once before one a second is all it takes."""


class SlackDouble:
    """A workspace on a free loopback port; a context manager.

    `messages` are what the channels hold. `rate_per_s` 0 = no limit. `quirks` are words such as `drop_answer`
    (the message is taken, its answer never comes) for the next call of a method: {"chat.postMessage": ["drop_answer"]}.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        rate_per_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        told: Callable[[str, Mapping[str, Any]], None] = lambda what, message: None,
    ) -> None:
        self.rooms = Rooms()
        self._told = told
        self.calls: list[tuple[str, Json]] = []
        self.faults: list[str] = []
        self.quirks: dict[str, list[str]] = {}
        self.socket_url = ""
        self._rate_per_s, self._clock = rate_per_s, clock
        self._tokens: dict[str, tuple[float, float]] = {}
        self._lock = threading.RLock()
        double = self

        class Handler(_Handler):
            owner = double

        self._http = Loopback(Handler, port=port, name="slack-double")

    @property
    def url(self) -> str:
        """Base URL of the Web API."""
        return f"{self._http.url}/api/"

    @property
    def webhook_url(self) -> str:
        """An incoming webhook of the channel."""
        return f"{self._http.url}/services/T0/B0/double"

    @property
    def messages(self) -> list[Json]:
        """Messages of all channels, threads included, oldest first."""
        with self._lock:
            return [dict(one) for one in self.rooms.messages]

    def __enter__(self) -> Self:
        self._http.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.stop()

    def serve_forever(self) -> None:
        """Serve in this thread until interrupted."""
        self._http.serve_forever()

    def call(self, method: str, body: Json, *, token: str) -> tuple[int, Json, float | None]:
        """(status, answer, seconds to wait) of one call, None where the answer is dropped (status 0)."""
        with self._lock:
            self.calls.append((method, body))
            waiting = self.quirks.get(method) or []
            quirk = waiting.pop(0) if waiting else ""
            if quirk == "unavailable":
                return 503, {"ok": False, "error": "service_unavailable"}, None
            wait_s = self._wait_s(method, body)
            if wait_s > 0:
                return 429, {"ok": False, "error": "ratelimited"}, wait_s
            answer = self._answer(method, body, token)
            return (0 if quirk == "drop_answer" else 200), answer, None

    def webhook(self, body: Json) -> tuple[int, str]:
        """One post to the incoming webhook."""
        with self._lock:
            if fault := fault_of(body):
                self.faults.append(fault)
                return 400, fault
            if self._wait_s("chat.postMessage", {"channel": CHANNEL}) > 0:
                return 429, "rate_limited"
            self.rooms.post({**body, "channel": CHANNEL})
            self._told("webhook", body)
            return 200, "ok"

    def _answer(self, method: str, body: Json, token: str) -> Json:
        wanted = APP_TOKEN if method == "apps.connections.open" else TOKEN
        if token != wanted:
            return {"ok": False, "error": "invalid_auth" if token else "not_authed"}
        if method not in METHODS:
            return {"ok": False, "error": "unknown_method"}
        if fault := fault_of(body):
            self.faults.append(fault)
            return {"ok": False, "error": fault}
        try:
            answer = {"ok": True, **METHODS[method](self, body)}
        except Unknown as error:
            return {"ok": False, "error": str(error)}
        if method.startswith("chat."):
            self._told(method, body)
        return answer

    def _wait_s(self, method: str, body: Mapping[str, Any]) -> float:
        """A bucket a channel for messages and one for edits, filled at the rate."""
        if not self._rate_per_s or method not in ("chat.postMessage", "chat.update"):
            return 0.0
        key, now_s = f"{method} {body.get('channel')}", self._clock()
        left, at_s = self._tokens.get(key, (float(MAX_BURST), now_s))
        left = min(left + (now_s - at_s) * self._rate_per_s, float(MAX_BURST))
        if left < 1.0:
            self._tokens[key] = (left, now_s)
            return (1.0 - left) / self._rate_per_s
        self._tokens[key] = (left - 1.0, now_s)
        return 0.0


METHODS: Mapping[str, Method] = {
    "auth.test": lambda double, body: {"user_id": "U0ARGUS", "bot_id": "B0ARGUS", "team": "double"},
    "chat.postMessage": lambda double, body: double.rooms.post(body),
    "chat.update": lambda double, body: double.rooms.update(body),
    "chat.postEphemeral": lambda double, body: double.rooms.whisper(body),
    "conversations.history": lambda double, body: double.rooms.history(body),
    "conversations.replies": lambda double, body: double.rooms.replies(body),
    "apps.connections.open": lambda double, body: {"url": double.socket_url},
}


class _Handler(BaseHTTPRequestHandler):
    owner: SlackDouble

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr for each request."""

    def do_GET(self) -> None:
        """As POST: some clients read this way."""
        self.do_POST()

    def do_POST(self) -> None:
        """One call."""
        length = min(int(self.headers.get("Content-Length") or 0), MAX_BODY)
        body = _body(self.rfile.read(length), self.headers.get("Content-Type", ""), urlsplit(self.path).query)
        path = urlsplit(self.path).path
        if path.startswith("/services/"):
            status, text = self.owner.webhook(body)
            self._send(status, text.encode(), wait_s=1.0 if status == 429 else None)
            return
        token = str(self.headers.get("Authorization", "")).removeprefix("Bearer ") or str(
            body.get("token", "")
        )
        status, answer, wait_s = self.owner.call(path.rpartition("/")[2], body, token=token)
        if status == 0:
            self.close_connection = True
            return
        self._send(status, json.dumps(answer).encode(), wait_s=wait_s)

    def _send(self, status: int, body: bytes, *, wait_s: float | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if wait_s is not None:
            self.send_header("Retry-After", str(max(1, round(wait_s))))
        self.end_headers()
        self.wfile.write(body)


def _body(raw: bytes, kind: str, query: str) -> Json:
    """What a client sent, as JSON or as a form whose members may be JSON."""
    if kind.startswith("application/json"):
        body = json.loads(raw or b"{}")
        return body if isinstance(body, dict) else {}
    text = f"{query}&{raw.decode('utf-8', 'replace')}"
    return {name: _value(name, values[-1]) for name, values in parse_qs(text).items()}


def _value(name: str, text: str) -> Any:
    if name in ("blocks", "metadata", "attachments"):
        return json.loads(text)
    if name in ("include_all_metadata", "reply_broadcast", "unfurl_links", "unfurl_media", "link_names"):
        return text in ("1", "true", "True")
    return text
