"""Ask a running service something over HTTP."""

from __future__ import annotations

import argparse
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import Any

from argus.api.cli.errors import CliError
from argus.collectors.records.upload import own_key

DEFAULT_SERVER = "http://127.0.0.1:8321"
TIMEOUT_S = 30.0
"""Longest silence of a service; while it streams it says something every 15 s."""

MAX_ANSWER = 256 << 20


class NotThere(CliError):
    """404: there is nothing of that name."""


HELP = f"the service (default: ARGUS_SERVER, else {DEFAULT_SERVER})"


def add_server(parser: argparse._ActionsContainer, *, help: str = HELP) -> None:
    """Declare where the service is."""
    parser.add_argument("--server", metavar="URL", help=help)


def server_of(args: argparse.Namespace, env: Mapping[str, str]) -> str:
    """The service's URL."""
    url = args.server or env.get("ARGUS_SERVER", "") or DEFAULT_SERVER
    return (url if "://" in url else f"http://{url}").rstrip("/")


def quoted(name: str) -> str:
    """A name as one part of a path."""
    return urllib.parse.quote(name, safe="")


def key_of(env: Mapping[str, str]) -> str:
    """What the service wants to see. Raises CliError."""
    try:
        return own_key(env)
    except ValueError as error:
        raise CliError(str(error)) from None


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
    with _open(url, method=method, body=body) as answer:
        return bytes(answer.read(MAX_ANSWER))


def events(url: str, *, method: str = "GET", body: object = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Server-sent events at `url`: name and JSON object of each. Raises CliError with one sentence."""
    with _open(url, method=method, body=body) as answer:
        yield from read_events(raw.decode("utf-8", "replace") for raw in answer)


def read_events(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    r"""The events of a stream (WHATWG HTML, 9.2.6) whose data are JSON objects; others are passed over.

    >>> list(read_events(["event: step\n", 'data: {"a": 1}\n', "\n"]))
    [('step', {'a': 1})]
    """
    name, data = "", []
    for line in lines:
        field, _, value = line.rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif not field and not value:
            told = _object("\n".join(data))
            if told is not None:
                yield name or "message", told
            name, data = "", []


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@contextmanager
def _open(url: str, *, method: str, body: object) -> Iterator[HTTPResponse]:
    """An answer that is a success; what goes wrong while it is read is told in one sentence too."""
    key = key_of(os.environ)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    payload = None
    if body is not None:
        payload, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    try:
        request = urllib.request.Request(url, payload, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        kind = NotThere if error.code == 404 else CliError
        raise kind(_reason(error), code=1) from None
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
