"""An HTTP server of a stand-in on a loopback port: in a thread of its own, or in this one until interrupted."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Loopback:
    """Listens from the begin on; `port` 0 takes a free one."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], *, port: int, name: str) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name=name, daemon=True)

    @property
    def url(self) -> str:
        """Where it is reached, without a path."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def start(self) -> None:
        """Serve in the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and let go of the port."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def serve_forever(self) -> None:
        """Serve here until interrupted."""
        try:
            self._http.serve_forever(0.2)
        finally:
            self._http.server_close()
