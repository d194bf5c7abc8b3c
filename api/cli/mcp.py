"""`argus mcp`: the tools as an MCP server on stdin and stdout, for an editor or a desktop assistant."""

from __future__ import annotations

import argparse

from argus.api.cli.face import add_face, face_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the facts are."""
    add_face(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until the client closes stdin."""
    from argus.api.mcp import mcp_server

    mcp_server(face_of(args)).run("stdio")
    return 0
