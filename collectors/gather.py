"""Read every file behind the paths a user gave."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from argus.collectors.readers import (
    NothingFound,
    Reader,
    ReaderError,
    Reading,
    log_readers,
    reader_for,
)
from argus.collectors.readers._ascend import is_table
from argus.collectors.readers._files import Found, find, head_of, watched
from argus.collectors.readers._fold import folded
from argus.collectors.readers._folders import counted_over_folders
from argus.collectors.readers._foreign import UTF_16, advice
from argus.collectors.readers._members import completed, numbered
from argus.collectors.readers._phase_table import with_peers
from argus.collectors.readers._stated_ranks import told_by_names
from argus.collectors.records.text import tame

LOG = logging.getLogger("argus.gather")

MAX_NAME, MAX_SENTENCE = 500, 4000
"""Characters of a file's name and of a sentence that are kept; both are longer than any reader writes."""

_NOTHING = b"\0 \t\r\n"
"""What an interrupted export leaves of a file."""

MAX_ERROR = 120
"""Characters shown of an error nobody foresaw."""

_LOOKS_LIKE_A_TRACE = (".json", ".gz", ".argus", ".pickle", ".sqlite", ".nsys-rep", ".qdrep", ".parquet")
"""Endings whose file is missed if no reader takes it; other files of a folder are passed over in silence."""

_TEXT = r"json|jsonl|csv|tsv|log|out|err|txt"
_PACKED = re.compile(rf"\.(?:{_TEXT}|tar|sqlite|pickle)\.(?:bz2|xz|zst|zstd|7z)$|\.tgz$", re.IGNORECASE)
_OF_TEXT = re.compile(rf"\.(?:{_TEXT})$", re.IGNORECASE)
"""Files of these names are missed, too, if they are packed as nothing here unpacks, or in UTF-16."""

_LOG_NAME = re.compile(
    r"\.(log|out|err|txt|stdout|stderr)(\.\d+)?(\.gz)?$|^(slurm|stdout|stderr)[-_.\d]*$", re.IGNORECASE
)
"""Names of logs, whose interesting lines may come long after their beginning."""

Progress = Callable[[str, float], None]
"""Told the name of the file being read and the share of its bytes that was."""


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """All readings in file order; `warnings` are sentences about what could not be read, one for files alike.

    `passed` are the same about files of a folder that may well have nothing to do with the job: those whose format
    is known, if there are any.
    """

    readings: tuple[Reading, ...]
    warnings: tuple[str, ...]
    passed: tuple[str, ...] = ()

    @property
    def why_nothing(self) -> str:
        """Sentences, a line each, why nothing of it can be used."""
        nothing = "no file holds a step of a rank" if self.readings else "there is no file to read"
        return "\n".join(self.warnings or self.passed) or nothing


class PassedOver(Exception):
    """A file of a folder that no reader takes, and that need not be one of the job's; `is_known` if its format is."""

    def __init__(self, text: str, *, is_known: bool) -> None:
        super().__init__(text)
        self.is_known = is_known


def gather(
    paths: Iterable[Path], scratch: Path, *, progress: Progress = lambda name, share: None
) -> Gathered:
    """Readings of all files; `scratch` is an empty folder for unpacking. ReaderError if a path is missing."""
    files: list[tuple[str, list[Reading]]] = []
    warnings: list[tuple[str, str]] = []
    passed: list[tuple[str, PassedOver]] = []
    for found in find(paths, scratch):
        if found.path is None:
            warnings.append((found.name, f"{found.name} {found.refused}"))
            continue
        readings: list[Reading] = []
        files.append((found.name, readings))
        try:
            with watched(_Meter(found.name, size=found.path.stat().st_size, progress=progress)):
                for reading in _read(found, found.path):
                    readings.append(_tamed(reading))
                    warnings.extend((found.path.name, text) for text in reading.warnings)
        except PassedOver as error:
            passed.append((found.name, error))
        except ReaderError as error:
            text = str(error)
            named = text if found.path.name in text else f"{found.path.name}: {text}"
            warnings.append((found.path.name, named))
        except OSError as error:
            why = f"{found.name} cannot be read ({error.strerror or error})"
            warnings.append((found.name, why))
        except Exception as error:  # what no reader foresaw must not cost the other files
            LOG.debug("%s could not be read", found.name, exc_info=True)
            warnings.append((found.name, f"{found.name} could not be read: {_unforeseen(error)}"))
    of_ranks, of_names = told_by_names(with_peers(_named_apart(files)))
    placed, of_folders = counted_over_folders(of_ranks)
    ranked, told = numbered(placed)
    said = (*folded(warnings), *of_names, *of_folders, *told)
    known = [one for one in passed if one[1].is_known] or passed
    return Gathered(
        readings=completed(ranked),
        warnings=_printable(said),
        passed=_printable(folded((name, str(error)) for name, error in known)),
    )


def _named_apart(files: Sequence[tuple[str, list[Reading]]]) -> list[tuple[str, list[Reading]]]:
    """The files; the source of what is in two that are called alike is the name with their folders."""
    num = Counter(PurePath(name).name for name, _ in files)
    return [
        (
            name,
            [replace(one, source=tame(name, MAX_NAME)) for one in of] if num[PurePath(name).name] > 1 else of,
        )
        for name, of in files
    ]


def _tamed(reading: Reading) -> Reading:
    """The reading with names of its file, its run, its host and its series that can be printed."""
    series, layout = reading.series, reading.records.layout
    named = None if series is None else replace(series, name=tame(series.name, MAX_NAME))
    records = reading.records
    if not (layout.run.isprintable() and layout.host.isprintable()):
        layout = replace(layout, run=tame(layout.run, MAX_NAME), host=tame(layout.host, MAX_NAME))
        records = replace(records, layout=layout)
    return replace(reading, records=records, source=tame(reading.source, MAX_NAME), series=named)


def _printable(sentences: Iterable[str]) -> tuple[str, ...]:
    """Each sentence once, on one line: an archive may call its files what it likes."""
    return tuple(dict.fromkeys(tame(sentence, MAX_SENTENCE) for sentence in sentences))


def _unforeseen(error: Exception) -> str:
    """Type and words of an error that no reader expected, on one line."""
    said = tame(str(error), MAX_ERROR)
    return f"{type(error).__name__} ({said})" if said else type(error).__name__


class _Meter:
    """Adds up the bytes read of one file."""

    def __init__(self, name: str, *, size: int, progress: Progress) -> None:
        self._name, self._size, self._progress = name, size, progress
        self._done = 0
        progress(name, 0.0)

    def __call__(self, num_bytes: int) -> None:
        self._done += num_bytes
        self._progress(self._name, min(self._done / max(self._size, 1), 1.0))


def _read(found: Found, path: Path) -> Iterable[Reading]:
    # A host that goes down leaves zeros at the end of what was being written, a log cut under its writer at its beginning.
    head = head_of(path).strip(b"\0")
    if is_table(path):
        raise (ReaderError if found.is_named else _passed)(
            f"{found.name} is a table of Ascend's profiler, which tells of no step: give its trace_view.json"
        )
    reader = reader_for(head, path.name)
    logs = log_readers()
    if reader is not None and reader not in logs:
        return reader.read(path)
    is_text = bool(head.strip()) and b"\0" not in head and head.lstrip()[:1] != b"{"
    if reader is not None or (is_text and (found.is_named or _LOG_NAME.search(path.name))):
        return _read_log(logs, found, path, head=head)
    raise _untaken(found, head)


def _passed(text: str) -> PassedOver:
    return PassedOver(text, is_known=True)


def _untaken(found: Found, head: bytes, *, is_log: bool = False) -> ReaderError | PassedOver:
    """The error of a file that no reader takes, or of a log with nothing in it: it is missed, or passed over."""
    known = advice(head, found.name)
    what = known or "is in no format that is known"
    text = f"{found.name} {what if head.strip(_NOTHING) else 'is empty or damaged'}"
    is_trace = found.name.lower().endswith(_LOOKS_LIKE_A_TRACE) and not _is_other_json(head)
    is_hidden = (_PACKED if head[:2] not in UTF_16 else _OF_TEXT).search(found.name) is not None
    if found.is_named or (not is_log and (is_trace or is_hidden)):
        return ReaderError(text)
    return PassedOver(text, is_known=bool(known))


def _read_log(logs: Iterable[Reader], found: Found, path: Path, *, head: bytes) -> Iterator[Reading]:
    """What every reader of lines finds in a log. Raises PassedOver if that is nothing, ReaderError if it was named itself."""
    num, empty = 0, 0
    for reader in logs:
        try:
            for reading in reader.read(path):
                num += 1
                yield reading
        except NothingFound:
            empty += 1
    if not num and empty:
        raise _untaken(found, head, is_log=True)


def _is_other_json(head: bytes) -> bool:
    """A settings or result file beside the traces: text that begins like JSON."""
    return head.lstrip()[:1] in (b"{", b"[") and b"\0" not in head
