"""Ask a running service something over HTTP."""

from __future__ import annotations

import argparse
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

from argus.api.cli.errors import CliError

DEFAULT_SERVER = "http://127.0.0.1:8321"
TIMEOUT_S = 30.0
MAX_ANSWER = 256 << 20


def add_server(parser: argparse.ArgumentParser) -> None:
    """Declare where the service is."""
    parser.add_argument(
        "--server", metavar="URL", help=f"the service (default: ARGUS_SERVER, else {DEFAULT_SERVER})"
    )


def server_of(args: argparse.Namespace, env: Mapping[str, str]) -> str:
    """The service's URL."""
    url = args.server or env.get("ARGUS_SERVER", "") or DEFAULT_SERVER
    return (url if "://" in url else f"http://{url}").rstrip("/")


def quoted(name: str) -> str:
    """A name as part of a path."""
    return urllib.parse.quote(name, safe="/")


def ask(url: str, *, method: str = "GET", body: object = None) -> dict[str, Any]:
    """The JSON object at `url`. Raises CliError with one sentence."""
    raw = ask_bytes(url, method=method, body=body)
    try:
        answer = json.loads(raw)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise CliError(f"{url} does not answer like an argus service", code=1)
    return answer


def ask_bytes(url: str, *, method: str = "GET", body: object = None) -> bytes:
    """The body at `url`. Raises CliError with one sentence."""
    key = os.environ.get("ARGUS_KEY", "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    payload = None
    if body is not None:
        payload, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    try:
        request = urllib.request.Request(url, payload, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return bytes(answer.read(MAX_ANSWER))
    except urllib.error.HTTPError as error:
        raise CliError(_reason(error), code=1) from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CliError(
            f"no answer from {url}: {reason}; is `argus serve` up, is --server right?", code=1
        ) from None


def _reason(error: urllib.error.HTTPError) -> str:
    with error:
        if error.code == 401:
            return "this service needs a key: set ARGUS_KEY to one of `argus key create`"
        try:
            return str(json.loads(error.read(1 << 16))["detail"])
        except (ValueError, KeyError, TypeError, OSError):
            return f"the service answers {error.code} {error.reason}"
