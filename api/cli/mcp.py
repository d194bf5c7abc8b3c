"""`argus mcp`: the tools as an MCP server on stdin and stdout, for an editor or a desktop assistant."""

from __future__ import annotations

import argparse
import signal

from argus.api.cli.face import add_face, face_of
from argus.api.cli.interrupts import ENDING


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the facts are."""
    add_face(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until the client closes stdin."""
    from argus.api.mcp import mcp_server

    server = mcp_server(face_of(args))
    for one in (
        signal.SIGINT,
        *ENDING,
    ):  # a thread that waits for input cannot be told to end; nothing is left behind
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, signal.SIG_DFL)
    server.run("stdio")
    return 0
