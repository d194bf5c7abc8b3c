"""The stand-in's Socket Mode: a websocket over which it tells an app what people press and say."""

from __future__ import annotations

import json
import threading
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from argus.api.slack.double import SlackDouble


class DoubleSocket:
    """A context manager around a stand-in that is served; `acknowledged` are the envelopes that were."""

    def __init__(self, double: SlackDouble, *, port: int = 0) -> None:
        self.acknowledged: list[str] = []
        self._open: list[ServerConnection] = []
        self._num = 0
        self._connected = threading.Event()
        self._server = serve(self._serve, "127.0.0.1", port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="slack-double-socket", daemon=True
        )
        double.socket_url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}/link/?ticket=double"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()

    def send(self, kind: str, payload: dict[str, Any], *, timeout_s: float = 10.0) -> str:
        """Tell one app, as soon as one is connected; the envelope's id."""
        assert self._connected.wait(timeout_s), "no app has connected"
        self._num += 1
        envelope = f"envelope-{self._num}"
        body = {"type": kind, "envelope_id": envelope, "payload": payload, "accepts_response_payload": False}
        self._open[-1].send(json.dumps(body))
        return envelope

    def _serve(self, connection: ServerConnection) -> None:
        connection.send(json.dumps({"type": "hello", "num_connections": 1}))
        self._open.append(connection)
        self._connected.set()
        try:
            for message in connection:
                self._take(message)
        except ConnectionClosed:
            self._open.remove(connection)

    def _take(self, message: str | bytes) -> None:
        try:
            said = json.loads(message)
        except ValueError:
            return  # a ping of the client's own making
        if isinstance(said, dict) and "envelope_id" in said:
            self.acknowledged.append(str(said["envelope_id"]))
