"""Socket Mode: hearing Slack over a connection that we open, for clusters nothing can reach from outside."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from argus.api.slack.switchboard import Switchboard

if TYPE_CHECKING:
    from slack_sdk import WebClient
    from slack_sdk.socket_mode import SocketModeClient
    from slack_sdk.socket_mode.client import BaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest

LOG = logging.getLogger("argus.slack")

FIRST_RETRY_S, LAST_RETRY_S = 2.0, 60.0


class Socket:
    """slack_sdk's own client: it reconnects by itself once it was connected; the first connection is ours to retry."""

    def __init__(self, heard_by: Switchboard, client: SocketModeClient) -> None:
        self._heard_by, self._client = heard_by, client
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        client.socket_mode_request_listeners.append(self._hear)

    def start(self) -> None:
        """Connect, in a thread: Slack may be out of reach when the service starts."""
        self._thread = threading.Thread(target=self._connect, name="argus-slack", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Hang up."""
        self._stopping.set()
        self._client.close()
        if self._thread is not None:
            self._thread.join()

    def _connect(self) -> None:
        wait_s = FIRST_RETRY_S
        while not self._stopping.is_set():
            try:
                self._client.connect()
                return
            except Exception as error:  # noqa: BLE001 - whatever a network does, it is tried again
                LOG.error("Slack's Socket Mode cannot be reached: %s", type(error).__name__)
            self._stopping.wait(wait_s)
            wait_s = min(wait_s * 2, LAST_RETRY_S)

    def _hear(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        """Acknowledge at once, then work: Slack waits three seconds."""
        from slack_sdk.socket_mode.response import SocketModeResponse

        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        payload: dict[str, Any] = request.payload
        if request.type == "interactive":
            self._heard_by.hear_action(payload)
        elif request.type == "events_api":
            self._heard_by.hear_event(payload)


def listening(heard_by: Switchboard, web_client: WebClient, *, app_token: str) -> Socket:
    """A connection not opened yet."""
    from slack_sdk.socket_mode import SocketModeClient

    return Socket(heard_by, SocketModeClient(app_token=app_token, web_client=web_client))
