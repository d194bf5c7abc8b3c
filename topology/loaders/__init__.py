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
    return _load(_loader_of(raw[:HEAD_BYTES], origin), raw, origin=origin, host=host)


def load_file(path: Path, *, host: str = "") -> Facts:
    """Facts of a file, gzip or plain. LoaderError naming the file if it cannot be used.

    A loader that finds all it needs at the start has `MAX_READ`: the rest of a trace is not read.
    """
    try:
        # Opened once: what a shell puts for <(command) gives its bytes once.
        with path.open("rb") as bare, gzip.open(bare) if bare.peek(2)[:2] == b"\x1f\x8b" else bare as file:
            head = file.read(HEAD_BYTES)
            loader = _loader_of(head, path.name)
            limit = int(getattr(loader, "MAX_READ", 0)) or MAX_BYTES + 1
            raw = head + file.read(limit - len(head))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LoaderError(f"cannot be read: {reason}", origin=path.name) from None
    if len(raw) > MAX_BYTES:
        raise LoaderError(f"is larger than {MAX_BYTES >> 20} MiB", origin=path.name)
    return _load(loader, raw, origin=path.name, host=host)


def _loader_of(head: bytes, origin: str) -> Loader:
    if not head.strip():
        raise LoaderError("is empty", origin=origin)
    known = loaders()
    for loader in known.values():
        if loader.sniff(head, origin):
            return loader
    raise LoaderError(f"is of no known kind; loaders are {', '.join(known)}", origin=origin)


def _load(loader: Loader, raw: bytes, *, origin: str, host: str) -> Facts:
    """A nesting bomb is the one failure that parsers report as a RecursionError."""
    try:
        return loader.load(raw, origin=origin, host=host)
    except RecursionError:
        raise LoaderError("nests too deep", origin=origin) from None
