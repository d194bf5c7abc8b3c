"""/ and /web/…: the web page itself."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from argus.api.http.answers import not_found

MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Everything comes from this service; nothing in the page's text can run or load anything."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def add_pages(routes: APIRouter) -> None:
    """The page's own files: they hold no data, so anybody who reaches the service may load them."""
    routes.add_api_route("/", get_shell, methods=["GET"], include_in_schema=False)
    routes.add_api_route("/web/{name:path}", get_file, methods=["GET"], include_in_schema=False)


def get_shell() -> Response:
    """The one HTML page."""
    return _served("index.html")


def get_file(name: Annotated[str, Path(max_length=64)]) -> Response:
    """A script, style or licence of the page."""
    return _served(name)


def _served(name: str) -> Response:
    if name not in page_files():
        raise not_found(f"no file {name[:64]!r} of the web page")
    suffix = name[name.rindex(".") :]
    return Response(page_files()[name], media_type=MEDIA[suffix], headers=HEADERS)


@cache
def page_files() -> dict[str, bytes]:
    """Every file of the page by its path under `api/web`."""
    root = files("argus.api").joinpath("web")
    found: dict[str, bytes] = {}
    waiting = [("", root)]
    while waiting:
        prefix, folder = waiting.pop()
        for item in folder.iterdir():
            if item.is_dir():
                waiting.append((f"{prefix}{item.name}/", item))
            elif any(item.name.endswith(suffix) for suffix in MEDIA):
                found[prefix + item.name] = item.read_bytes()
    return found
