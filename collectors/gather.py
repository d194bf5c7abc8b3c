"""Read every file behind the paths a user gave."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from argus.collectors.readers import ReaderError, Reading, reader_for
from argus.collectors.readers._files import Found, find, head_of

_LOOKS_LIKE_A_TRACE = (".json", ".gz", ".argus", ".pickle")
"""Endings whose file is missed if no reader takes it; other files of a folder are passed over in silence."""


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """All readings in file order; `warnings` are sentences about what could not be read."""

    readings: tuple[Reading, ...]
    warnings: tuple[str, ...]


def gather(
    paths: Iterable[Path], scratch: Path, *, progress: Callable[[str], None] = lambda name: None
) -> Gathered:
    """Readings of all files; `scratch` is an empty folder for unpacking. ReaderError if a path is missing."""
    readings: list[Reading] = []
    warnings: list[str] = []
    for found in find(paths, scratch):
        if found.path is None:
            warnings.append(f"{found.name} {found.refused}")
            continue
        progress(found.name)
        try:
            for reading in _read(found, found.path):
                readings.append(reading)
                warnings.extend(reading.warnings)
        except ReaderError as error:
            warnings.append(str(error))
    return Gathered(readings=tuple(readings), warnings=tuple(warnings))


def _read(found: Found, path: Path) -> Iterable[Reading]:
    try:
        head = head_of(path)
    except OSError as error:
        raise ReaderError(f"{found.name} cannot be read ({error.strerror or error})") from None
    reader = reader_for(head, path.name)
    if reader is not None:
        return reader.read(path)
    if found.is_named or (found.name.lower().endswith(_LOOKS_LIKE_A_TRACE) and not _is_other_json(head)):
        what = "is empty or damaged" if not head.strip() else "is in no format that is known"
        raise ReaderError(f"{found.name} {what}")
    return ()


def _is_other_json(head: bytes) -> bool:
    """A settings or result file beside the traces: text that begins like JSON."""
    return head.lstrip()[:1] in (b"{", b"[") and b"\0" not in head
