"""The loopback server: Chat Completions, the list of models, and what else clients ask of servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from argus.agent.model.reading import ask_tokens
from argus.agent.stub_llm.loopback import Loopback
from argus.agent.stub_llm.protocol import Json, completion, read_request
from argus.agent.stub_llm.quirks import ONCE, SLOW, Refusal, check_quirks, refusal_of, streamed, with_habits
from argus.agent.stub_llm.scripts import Script

MODEL = "argus-stub"
MAX_BODY = 16 << 20
SLOW_S = 30.0
"""How long a slow server takes; nobody should wait for it."""


class StubServer:
    """A server on a free loopback port; a context manager. `requests` are the bodies received, in order."""

    def __init__(
        self, script: Script, *, quirks: Iterable[str] = (), port: int = 0, window_tokens: int = 32_768
    ) -> None:
        self.script, self.quirks = script, check_quirks(quirks)
        self.window_tokens = window_tokens
        self.requests: list[Json] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        stub = self

        class Handler(_Handler):
            owner = stub

        self._http = Loopback(Handler, port=port, name="stub-llm")

    @property
    def url(self) -> str:
        """Base URL for a client."""
        return f"{self._http.url}/v1"

    def __enter__(self) -> Self:
        self._http.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.stop()

    def serve_forever(self) -> None:
        """Serve in this thread until interrupted."""
        self._http.serve_forever()

    def received(self, body: Json) -> tuple[str, ...]:
        """Note a request; the quirks that its answer has."""
        with self._lock:
            self.requests.append(body)
            is_first = len(self.requests) == 1
        return tuple(name.removesuffix(ONCE) for name in self.quirks if is_first or not name.endswith(ONCE))


class _Handler(BaseHTTPRequestHandler):
    owner: StubServer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr for each request."""

    def do_GET(self) -> None:
        """Models, and llama.cpp's /props."""
        if self.path.endswith("/models"):
            listed = {
                "id": MODEL,
                "object": "model",
                "owned_by": "argus",
                "max_model_len": self.owner.window_tokens,
            }
            self._send_json({"object": "list", "data": [listed]})
        elif self.path == "/props":
            self._send_json({"default_generation_settings": {"n_ctx": self.owner.window_tokens}})
        else:
            self._send(Refusal(status=404, body='{"error": {"message": "not found"}}'))

    def do_POST(self) -> None:
        """Chat completions."""
        length = min(int(self.headers.get("Content-Length") or 0), MAX_BODY)
        try:
            body = json.loads(self.rfile.read(length))
            ask = read_request(body)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._send(Refusal(body=json.dumps({"error": {"message": f"bad request: {error}"}})))
            return
        if not self.path.endswith("/chat/completions"):
            self._send(Refusal(status=404, body='{"error": {"message": "not found"}}'))
            return
        quirks = self.owner.received(body)
        if SLOW in quirks:
            self.owner.stopping.wait(SLOW_S)
        refusal = refusal_of(quirks, body)
        if refusal is not None:
            self._send(refusal)
            return
        reply = self.owner.script(ask)
        whole = completion(reply, model=str(body.get("model")), prompt_tokens=ask_tokens(ask))
        whole = with_habits(quirks, whole)
        if body.get("stream"):
            self._stream(quirks, whole)
        else:
            self._send_json(whole)

    def _send_json(self, body: Mapping[str, Any]) -> None:
        self._send(Refusal(status=200, body=json.dumps(body)))

    def _send(self, answer: Refusal) -> None:
        if answer.body is None:
            self.close_connection = True
            return
        raw = answer.body.encode()
        self.send_response(answer.status)
        headers = {"Content-Type": answer.content_type, "Content-Length": str(len(raw)), **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self._write(raw)

    def _stream(self, quirks: tuple[str, ...], whole: Json) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for chunk in streamed(quirks, whole):
            if "stream-comments" in quirks:
                self._write(b": ping\n\n")
            self._write(f"data: {json.dumps(chunk)}\n\n".encode())
        if "stream-silent-end" not in quirks:
            self._write(b"data: [DONE]\n\n")

    def _write(self, raw: bytes) -> None:
        try:
            self.wfile.write(raw)
        except (BrokenPipeError, ConnectionResetError):  # a client that gave up: that is its right
            self.close_connection = True
