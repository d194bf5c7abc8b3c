"""Where `argus serve` listens, and the server there until a signal ends it."""

from __future__ import annotations

import gc
import signal
import socket
import sys
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from argus.api.cli.errors import CliError
from argus.api.cli.serve_store import shown
from argus.api.settings import Settings

if TYPE_CHECKING:
    from argus.api.http.connections import Crowding
    from argus.api.projects import Projects
    from argus.api.service import Service

BACKLOG = 2048
"""Connections the kernel holds while the service is busy: every host of a large cluster after an outage."""

SWITCH_S = 0.0005
"""How long one thread may hold the interpreter while another wants it. A thousand hosts' requests take it back after
every read and write; at Python's 5 ms they would stand still whenever a window is analysed."""

GC_THRESHOLDS = (50_000, 20, 100)
"""Of Python's garbage collector. Each heartbeat that takes its predecessor's place counts as growth, so at the default
it looked through those of ten thousand ranks every few seconds, and nothing else ran for half a second each time."""

SHUTDOWN_S = 10
"""How long requests in flight may take to end after SIGTERM."""


def listen(settings: Settings) -> socket.socket:
    """The listening socket. Raises CliError."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CliError(
            f"cannot listen on {settings.host} port {settings.port} ({reason}); choose another with --port",
            code=1,
        ) from None


def serve_http(
    service: Service, listener: socket.socket, *, projects: Projects, tls: Mapping[str, str]
) -> None:
    """Answer on the listener until SIGTERM, SIGINT or SIGHUP."""
    import uvicorn

    from argus.api.http.app import make_app
    from argus.api.http.connections import listening

    settings = service.settings
    url = url_of(listener, scheme="https" if tls else "http")

    def ready() -> None:
        gc.freeze()  # what is there now stays
        print(f"argus serve: ready on {url}, database {shown(settings.db)}", flush=True)

    listening(listener)
    app = make_app(service, on_ready=ready, projects=projects)
    options = {**_options(settings, crowding=app.state.crowding), **tls}
    config = uvicorn.Config(app, **options)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            for project in projects.opened():
                project.service.board.close()  # who waits for orders or news must not hold up the end
            super().handle_exit(sig, frame)

    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*GC_THRESHOLDS)
    # uvicorn raises the signal again once it has shut down; to end in order is no failure.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    server = Server(config)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which uvicorn leaves alone: nohup
        signal.signal(signal.SIGHUP, server.handle_exit)
    server.run(sockets=[listener])


def _options(settings: Settings, *, crowding: Crowding) -> dict[str, Any]:
    """How uvicorn is to serve."""
    from argus.api.http.connections import KEEP_ALIVE_S, protocol_of, room_for

    return {
        "log_level": "error",  # its warnings are one for each junk request of a scanner
        "log_config": None,  # by the handler of the root: see serve_log
        "access_log": False,
        "timeout_graceful_shutdown": SHUTDOWN_S,
        "timeout_keep_alive": KEEP_ALIVE_S,
        "http": protocol_of(max_connections=room_for(settings.max_connections), crowding=crowding),
        "ws": "none",
        "server_header": False,
        "proxy_headers": bool(settings.trusted_proxies),
        "forwarded_allow_ips": settings.trusted_proxies or None,
    }


def url_of(listener: socket.socket, *, scheme: str) -> str:
    """Where a listener is reached."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
