"""Load pickles that hold nothing but numbers, texts, lists and dictionaries."""

from __future__ import annotations

import io
import pickle
import pickletools

MAX_OPS = 20_000_000
"""Values in one file; a dump of a full default ring buffer of one rank has 150,000."""

_PLAIN = frozenset(
    {
        "PROTO",
        "FRAME",
        "STOP",
        "MARK",
        "POP",
        "POP_MARK",
        "EMPTY_DICT",
        "EMPTY_LIST",
        "EMPTY_TUPLE",
        "DICT",
        "LIST",
        "TUPLE",
        "TUPLE1",
        "TUPLE2",
        "TUPLE3",
        "SETITEM",
        "SETITEMS",
        "APPEND",
        "APPENDS",
        "NONE",
        "NEWTRUE",
        "NEWFALSE",
        "INT",
        "LONG",
        "LONG1",
        "LONG4",
        "BININT",
        "BININT1",
        "BININT2",
        "FLOAT",
        "BINFLOAT",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "BINBYTES",
        "SHORT_BINBYTES",
        "PUT",
        "BINPUT",
        "LONG_BINPUT",
        "MEMOIZE",
        "GET",
        "BINGET",
        "LONG_BINGET",
        "DUP",
    }
)
"""Opcodes that build plain values: none of them names, calls or fills an object."""

_MEMO_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")


class NotPlain(ValueError):
    """The pickle is damaged or holds more than plain values; says which."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        raise NotPlain(f"names the class {module[:40]}.{name[:40]}")

    def persistent_load(self, pid: object) -> object:
        raise NotPlain("refers to something outside of itself")


def load_plain(body: bytes) -> object:
    """The value. Every opcode is looked at before the first is run. Raises NotPlain."""
    try:
        for count, (opcode, arg, _) in enumerate(pickletools.genops(body), start=1):
            if opcode.name not in _PLAIN:
                raise NotPlain(f"uses {opcode.name}, which plain values do not need")
            # A far memo slot makes the loader allocate all slots before it.
            if opcode.name in _MEMO_PUTS and isinstance(arg, int) and not 0 <= arg <= count:
                raise NotPlain("keeps values under numbers it cannot have")
            if count > MAX_OPS:
                raise NotPlain(f"holds more than {MAX_OPS} values")
        return _Plain(io.BytesIO(body)).load()
    except NotPlain:
        raise
    except (
        pickle.UnpicklingError,
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        EOFError,
        OverflowError,
        MemoryError,
        RecursionError,
    ) as error:
        raise NotPlain(f"is damaged ({str(error)[:80] or type(error).__name__})") from None
