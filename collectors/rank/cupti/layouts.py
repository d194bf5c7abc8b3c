"""Which of cupti-python's dtypes a libcupti's records have: asked of both, trusted where they agree."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from argus.collectors.rank.cupti.decode import ALIGNMENT, Bytes, ReadName
from argus.collectors.rank.cupti.kinds import (
    CONCURRENT_KERNEL,
    DRIVER,
    KERNEL,
    MEMCPY,
    MEMCPY2,
    MEMSET,
    RUNTIME,
)

STEMS: Mapping[int, str] = {
    CONCURRENT_KERNEL: "kernel",
    KERNEL: "kernel",
    MEMCPY: "memcpy",
    MEMCPY2: "memcpy_pto_p",
    MEMSET: "memset",
    RUNTIME: "api",
    DRIVER: "api",
}
"""How cupti-python calls the dtypes of a kind, before the version number."""

NEEDED: Mapping[str, tuple[str, ...]] = {
    "kernel": ("kind", "start", "end", "stream_id", "correlation_id", "graph_id", "name"),
    "memcpy": ("kind", "start", "end", "stream_id", "correlation_id", "graph_id", "copy_kind"),
    "memcpy_pto_p": ("kind", "start", "end", "stream_id", "correlation_id", "graph_id", "copy_kind"),
    "memset": ("kind", "start", "end", "stream_id", "correlation_id", "graph_id"),
    "api": ("kind", "start", "end", "correlation_id"),
}
"""Columns that are read; a dtype without one of them is no candidate."""

COMPARED = ("kind", "start", "end", "stream_id", "correlation_id", "graph_id", "copy_kind")
CHECKED = 4  # records of a kind compared column by column

FromPointer = Callable[[int], object]
"""cupti-python's own record at an address."""

Hops = Callable[[Bytes], Sequence[int]]
"""Offsets of a buffer's records, as libcupti itself walks them."""


class LayoutError(Exception):
    """libcupti's records are not what cupti-python says; the message says in which way."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One version of a record."""

    dtype: np.dtype[Any]
    from_pointer: FromPointer


class RecordClass(Protocol):
    """A record class of cupti-python."""

    def from_ptr(self, ptr: int, readonly: bool = False) -> object: ...


def candidates(module: object) -> dict[int, tuple[Candidate, ...]]:
    """Every version of every kind's record that cupti-python's `module` knows, oldest first."""
    names = dir(module)
    classes = {name.lower(): name for name in names if name.startswith("Activity")}
    found: dict[int, tuple[Candidate, ...]] = {}
    for kind, stem in STEMS.items():
        pattern = re.compile(rf"activity_{stem}\d*_dtype")
        dtypes = [name for name in names if pattern.fullmatch(name)]
        found[kind] = tuple(
            Candidate(
                dtype=getattr(module, name),
                from_pointer=_reader(getattr(module, classes[_class_key(name)])),
            )
            for name in sorted(dtypes, key=lambda name: int(getattr(module, name).itemsize))
            if _class_key(name) in classes and _has(getattr(module, name), NEEDED[stem])
        )
    return found


def _class_key(dtype_name: str) -> str:
    return dtype_name.removesuffix("_dtype").replace("_", "")


def _has(dtype: np.dtype[Any], columns: Iterable[str]) -> bool:
    return dtype.itemsize % ALIGNMENT == 0 and set(columns) <= set(dtype.names or ())


def _reader(record: RecordClass) -> FromPointer:
    def read(pointer: int) -> object:
        made = record.from_ptr(pointer, True)
        # 13.0's records complain on stderr when they are freed over memory that is not cupti-python's own:
        # these few, CHECKED a kind and process, are never freed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
        return made

    return read


def learn(
    buffer: Bytes,
    kind: int,
    *,
    known: Mapping[int, tuple[Candidate, ...]],
    hops: Hops,
    read_name: ReadName,
) -> np.dtype[Any]:
    """The layout of `kind`'s records in `buffer`. Raises LayoutError if two sources disagree."""
    offsets = [*hops(buffer), len(buffer)]
    words = buffer[: len(buffer) // 4 * 4].view("<i4")
    mine = [(at, end - at) for at, end in pairwise(offsets) if words[at // 4] == kind]
    sizes = {size for _, size in mine}
    if len(sizes) != 1:
        raise LayoutError(f"records of kind {kind} have {len(sizes)} lengths in one buffer")
    size = sizes.pop()
    for candidate in known.get(kind, ()):
        if candidate.dtype.itemsize == size:
            for at, _ in mine[:CHECKED]:
                _compare(buffer, at, candidate, read_name=read_name)
            return candidate.dtype
    raise LayoutError(f"records of kind {kind} are {size} bytes long, which cupti-python does not describe")


def _compare(buffer: Bytes, at: int, candidate: Candidate, *, read_name: ReadName) -> None:
    row = np.frombuffer(buffer, candidate.dtype, 1, at)[0]
    record = candidate.from_pointer(buffer.ctypes.data + at)
    columns = candidate.dtype.names or ()
    same = {name: int(row[name]) == int(getattr(record, name)) for name in COMPARED if name in columns}
    if "name" in columns and row["name"]:
        same["name"] = read_name(int(row["name"])) == record.name  # type: ignore[attr-defined]
    wrong = [name for name, is_same in same.items() if not is_same]
    if wrong:
        raise LayoutError(f"kind {int(row['kind'])}: {', '.join(wrong)} differ from cupti-python's record")
