"""Files that describe a cluster, each kind read by one module of this folder.

A loader offers `sniff(head, name)`, true if the first bytes are of its kind, and `load(raw, *, origin,
host)`, which gives Facts or raises LoaderError. `host` is the machine the file is of; a file that
describes every machine of a model has `*`.
"""

from __future__ import annotations

import gzip
import zlib
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, cast

from argus.topology.facts import Facts, LoaderError

HEAD_BYTES = 64 << 10
MAX_BYTES = 256 << 20
"""Largest file taken, unpacked: a node list of 20,000 hosts as JSON is about 200 MB."""


class Loader(Protocol):
    """What a module of this folder offers."""

    def sniff(self, head: bytes, name: str) -> bool:
        """True if a file that starts with `head` is of this kind."""

    def load(self, raw: bytes, *, origin: str, host: str) -> Facts:
        """What the file says. LoaderError if nothing of it can be used."""


def loaders() -> dict[str, Loader]:
    """Every loader of the folder by name, in order of the names."""
    return {
        module.name: cast(Loader, import_module(f"{__name__}.{module.name}"))
        for module in sorted(iter_modules(__path__), key=lambda module: module.name)
    }


def load_bytes(raw: bytes, *, origin: str, host: str = "") -> Facts:
    """Facts of a file's content; LoaderError if no loader knows it or nothing can be used."""
    head = raw[:HEAD_BYTES]
    if not raw.strip():
        raise LoaderError("is empty", origin=origin)
    known = loaders()
    for name, loader in known.items():
        if loader.sniff(head, origin):
            return _guard(name, loader, raw, origin=origin, host=host)
    raise LoaderError(f"is of no known kind; loaders are {', '.join(known)}", origin=origin)


def _guard(name: str, loader: Loader, raw: bytes, *, origin: str, host: str) -> Facts:
    """A nesting bomb is the one failure that parsers report as a RecursionError."""
    try:
        return loader.load(raw, origin=origin, host=host)
    except RecursionError:
        raise LoaderError(f"nests too deep for loader {name}", origin=origin) from None


def load_file(path: Path, *, host: str = "") -> Facts:
    """Facts of a file, gzip or plain. LoaderError naming the file if it cannot be used."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if raw.startswith(b"\x1f\x8b"):
            with gzip.open(path) as packed:
                raw = packed.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LoaderError(f"cannot be read: {reason}", origin=str(path)) from None
    if len(raw) > MAX_BYTES:
        raise LoaderError(f"is larger than {MAX_BYTES >> 20} MiB", origin=str(path))
    return load_bytes(raw, origin=path.name, host=host)
