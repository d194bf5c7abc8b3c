"""Find the files behind the paths a user gave, also inside archives, without trusting any of them."""

from __future__ import annotations

import io
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, BinaryIO, Self

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer


from argus.collectors.readers import HEAD_BYTES, ReaderError

MAX_FILES = 20_000
"""Files looked at in one call: twice the ranks of the largest jobs."""

MAX_UNPACKED = 8 << 30
"""Bytes unpacked from one archive or one compressed file; more is taken for a bomb."""

MAX_PART = 200
"""Bytes kept of a part of a name in an archive: file systems take 255."""

_CHUNK = 1 << 20
_TAR_MAGIC_AT = 257

_CUT = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)
"""What unpacking raises where the bytes end early or are not as they should be."""

_DAMAGED_ZIP = (*_CUT, NotImplementedError, ValueError, IndexError)
"""What `zipfile` raises besides, of names that are no UTF-8 though they say so, or without a character."""

_watcher: ContextVar[Callable[[int], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(tell: Callable[[int], None]) -> Iterator[None]:
    """Tell how many bytes of files were read, as they are read inside the block."""
    token = _watcher.set(tell)
    try:
        yield
    finally:
        _watcher.reset(token)


@dataclass(frozen=True, kw_only=True)
class Found:
    """One file to read: where its bytes are and what the user calls it; or why it is left out."""

    name: str
    path: Path | None = None
    refused: str = ""
    is_named: bool = False


class Inflated:
    """The bytes of a plain or gzip-compressed file; `cut` says where and why they end early."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_UNPACKED) -> None:
        self._raw: BinaryIO = path.open("rb")
        self._left = max_bytes
        self._max = max_bytes
        self._gzip = self._raw.read(2) == b"\x1f\x8b"
        self._raw.seek(0)
        self._inflate = zlib.decompressobj(31)
        self._packed = b""
        self._tell = _watcher.get()
        self.cut = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def read(self, size: int = _CHUNK) -> bytes:
        """Up to about `size` bytes, b"" at the end. ReaderError past the limit."""
        chunk = self._inflated(size) if self._gzip else self._stored(size)
        self._left -= len(chunk)
        if self._left < 0:
            raise ReaderError(f"expands to more than {self._max >> 20} MiB, which is refused")
        return chunk

    def _stored(self, size: int) -> bytes:
        chunk = self._raw.read(size)
        if self._tell is not None:
            self._tell(len(chunk))
        return chunk

    def _inflated(self, size: int) -> bytes:
        while not self.cut:
            if self._inflate.eof:
                if self._packed[:2] != b"\x1f\x8b":
                    return b""
                self._inflate = zlib.decompressobj(31)
            if len(self._packed) < 2:
                self._packed += self._stored(_CHUNK)
            is_end = not self._packed
            try:
                out = self._inflate.decompress(self._packed, size)
            except zlib.error as error:
                self.cut = f"the gzip data is damaged ({error})"
                break
            self._packed = self._inflate.unused_data or self._inflate.unconsumed_tail
            if self._inflate.eof and len(self._packed) < 2:
                self._packed += self._stored(_CHUNK)
            if out:
                return out
            if is_end and not self._inflate.eof:
                self.cut = "the gzip data is cut short"
        return b""


def head_of(path: Path) -> bytes:
    """The first uncompressed bytes of a file, fewer if it is short or damaged."""
    head = b""
    with Inflated(path) as source:
        while len(head) < HEAD_BYTES and (chunk := source.read(HEAD_BYTES)):
            head += chunk
    return head[:HEAD_BYTES]


def find(paths: Iterable[Path], scratch: Path) -> Iterator[Found]:
    """Every file behind `paths`; archives are unpacked one file at a time into `scratch`.

    An unpacked file is gone once the next one is asked for. ReaderError if a path is not there.
    """
    count, paths = 0, list(paths)
    for path in paths:
        for found in _behind(path, scratch, is_alone=len(paths) == 1):
            count += 1
            if count > MAX_FILES:
                yield Found(
                    name=str(path), refused=f"holds more than {MAX_FILES} files, the rest is left out"
                )
                return
            yield found


def _behind(path: Path, scratch: Path, *, is_alone: bool) -> Iterator[Found]:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ReaderError(f"{path}: {error.strerror or error}") from None
    if stat.S_ISDIR(mode):
        yield from _folder(path, scratch, is_alone=is_alone)
    elif stat.S_ISREG(mode):
        yield from _file(path, name=str(path), scratch=scratch, is_named=True)
    else:
        raise ReaderError(f"{path} is neither a file nor a folder")


def _folder(root: Path, scratch: Path, *, is_alone: bool) -> Iterator[Found]:
    """What a folder holds, under the folder's own name unless it `is_alone`: `node0 node1` tells hosts apart."""
    inside = os.path.realpath(root)  # unlike `Path.resolve` it takes links that lead to themselves
    shut: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=shut.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [path for name in folders if (path := Path(folder) / name).is_symlink()]
        files = [Path(folder) / name for name in sorted(names) if not name.startswith(".")]
        for path in (*links, *files):
            shown = str(path.relative_to(root) if is_alone else path)
            if not Path(os.path.realpath(path)).is_relative_to(inside):
                yield Found(name=shown, refused=f"is a link that leads out of {root}")
            elif path not in links:
                yield from _entry(path, shown=shown, scratch=scratch)
    for error in shut:
        yield Found(name=str(error.filename), refused=_unread(error))


def _entry(path: Path, *, shown: str, scratch: Path) -> Iterator[Found]:
    """What a folder holds that is no folder."""
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        yield Found(name=shown, refused=_unread(error))
        return
    if is_file:
        yield from _file(path, name=shown, scratch=scratch, is_named=False)
    else:
        yield Found(name=shown, refused="is not a regular file")


def _unread(error: OSError) -> str:
    return f"cannot be read ({error.strerror or error})"


def _file(path: Path, *, name: str, scratch: Path, is_named: bool) -> Iterator[Found]:
    try:
        head = head_of(path)
    except OSError as error:
        yield Found(name=name, refused=_unread(error))
        return
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar":
        yield from _tar(path, name, scratch)
    elif head[:4] == b"PK\x03\x04":
        yield from _zip(path, name, scratch)
    else:
        # Whole, for a rank may be told by the folder that the user stands in.
        yield Found(name=name, path=Path(os.path.abspath(path)), is_named=is_named)


def _tar(path: Path, name: str, scratch: Path) -> Iterator[Found]:
    budget = _Budget(left=MAX_UNPACKED)
    with Inflated(path) as source:
        try:
            with tarfile.open(fileobj=io.BufferedReader(_Stream(source)), mode="r|") as archive:
                for member in archive:
                    if member.isdir() or _is_hidden(member.name):
                        continue
                    reason = _bad_name(member.name) or ("" if member.isreg() else "is a link or a device")
                    body = None if reason else archive.extractfile(member)
                    yield from _member(body, name=member.name, reason=reason, scratch=scratch, budget=budget)
        except (tarfile.TarError, EOFError) as error:
            yield Found(name=name, refused=f"is damaged, what follows is lost ({source.cut or error})")
        except ReaderError as error:
            yield Found(name=name, refused=str(error))
        except OSError as error:
            yield Found(name=name, refused=_not_unpacked(error))
        else:
            if source.cut:
                yield Found(name=name, refused=f"is damaged, what follows is lost ({source.cut})")


def _zip(path: Path, name: str, scratch: Path) -> Iterator[Found]:
    budget = _Budget(left=MAX_UNPACKED)
    try:
        with zipfile.ZipFile(path) as archive:
            if "xl/workbook.xml" in archive.namelist():
                yield Found(name=name, refused="is a workbook of Excel: save the sheet as CSV")
                return
            for member in archive.infolist():
                if member.is_dir() or _is_hidden(member.filename):
                    continue
                kind = stat.S_IFMT(member.external_attr >> 16)
                is_plain = kind in (0, stat.S_IFREG) and not member.flag_bits & 1
                reason = _bad_name(member.filename) or (
                    "" if is_plain else "is a link, a device or encrypted"
                )
                with archive.open(member) if not reason else nullcontext() as body:
                    yield from _member(
                        body, name=member.filename, reason=reason, scratch=scratch, budget=budget
                    )
    except ReaderError as error:
        yield Found(name=name, refused=str(error))
    except OSError as error:
        yield Found(name=name, refused=_not_unpacked(error))
    except _DAMAGED_ZIP as error:
        yield Found(name=name, refused=f"is damaged, what follows is lost ({error})")


def _not_unpacked(error: OSError) -> str:
    return f"cannot be unpacked, what follows is lost ({error.strerror or error})"


@dataclass
class _Budget:
    left: int


class _Stream(io.RawIOBase):
    """What tarfile wants of a stream."""

    def __init__(self, source: Inflated) -> None:
        self._source = source
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        out = memoryview(buffer).cast("B")
        if not len(self._rest):
            self._rest = memoryview(self._source.read())
        size = min(len(out), len(self._rest))
        out[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _member(
    body: IO[bytes] | None, *, name: str, reason: str, scratch: Path, budget: _Budget
) -> Iterator[Found]:
    """One file of an archive, unpacked under a name of our own."""
    if reason or body is None:
        yield Found(name=name, refused=reason or "has no content")
        return
    # Gone before the next one comes, which may call a file as this one does a folder.
    own = scratch / "member"
    # Its last three names are kept, for a rank may be told by them.
    path = own.joinpath(*map(_shortened, PurePosixPath(name).parts[-3:]))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        damage = _unpack(body, path, budget)
        head = head_of(path)
        if head[:4] == b"PK\x03\x04" or head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar":
            yield Found(name=name, refused="is an archive inside an archive")
        else:
            yield Found(name=name, path=path)
    finally:
        shutil.rmtree(own, ignore_errors=True)  # all of the scratch folder goes in the end
    if damage is not None:
        raise damage


def _shortened(part: str) -> str:
    return os.fsdecode(os.fsencode(part)[-MAX_PART:])


def _unpack(body: IO[bytes], path: Path, budget: _Budget) -> Exception | None:
    """Copy what can be copied; the error that ended it early, None if all is there."""
    with path.open("wb") as out:
        try:
            while chunk := body.read(_CHUNK):
                budget.left -= len(chunk)
                if budget.left < 0:
                    raise ReaderError(f"unpacks to more than {MAX_UNPACKED >> 20} MiB, which is refused")
                out.write(chunk)
        except (tarfile.TarError, *_CUT) as error:
            return error
    return None


def _bad_name(name: str) -> str:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.name:
        return "has a name that leads out of the archive"
    return ""


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in PurePosixPath(name).parts)
