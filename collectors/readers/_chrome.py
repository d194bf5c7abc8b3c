"""Stream the events of a Chrome trace, so that files of gigabytes and files cut short can be read."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

MAX_VALUE = 64 << 20
"""Characters of one JSON value; kineto's largest, the list of process groups, has a few MiB."""

_CHUNK = 1 << 20
_SPACE = " \t\r\n"

_NO_NUMBER = re.compile(r"(?<=[:\[,\s])-?(?:inf(?:inity)?|nan(?:\(\w{1,8}\))?)(?=\s*[,}\]])", re.IGNORECASE)
"""Numbers as C++ prints them, which kineto does of a copy that took no time (kineto#105); -nan(ind) is Microsoft's."""

_BACKSLASH = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})|\\(?=.{5})", re.DOTALL)
"""An escape of JSON, or else a backslash as it stands in the paths of Windows (kineto#336)."""


class ByteSource(Protocol):
    """Bytes in order; `cut` is a reason if they ended too early."""

    cut: str

    def read(self, size: int = ...) -> bytes:
        """The next bytes, b"" at the end."""


class _End(Exception):
    """The text ended, or stopped making sense."""


class TraceStream:
    """A trace as a stream: iterate `events()` first, then read `meta` and `damage`.

    `meta` holds the top-level keys beside the events. `damage` is "" or says how the file ends early.
    """

    def __init__(self, source: ByteSource) -> None:
        self.meta: dict[str, Any] = {}
        self.damage = ""
        self.has_events = False
        self._source = source
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._decode = json.JSONDecoder(strict=False).raw_decode  # tools put names into it as they are
        self._text = ""
        self._at = 0
        self._is_last = False

    def events(self) -> Iterator[dict[str, Any]]:
        """The trace events in file order; never raises on damaged text."""
        try:
            first = self._skip(_SPACE + "\ufeff")
            if first == "[":
                self._at += 1
                yield from self._array()
            elif first == "{":
                self._at += 1
                yield from self._object()
            else:
                raise _End("it is not JSON")
        except _End as end:
            self.damage = self._source.cut or str(end)

    def _object(self) -> Iterator[dict[str, Any]]:
        while self._skip(_SPACE + ",") != "}":
            key = self._value()
            if not isinstance(key, str) or self._skip(_SPACE) != ":":
                raise _End("the JSON is malformed between its top-level keys")
            self._at += 1
            if key == "traceEvents" and self._skip(_SPACE) == "[":
                self._at += 1
                yield from self._array()
            else:
                self.meta[key] = self._value()

    def _array(self) -> Iterator[dict[str, Any]]:
        self.has_events = True
        while self._skip(_SPACE + ",") != "]":
            value = self._value()
            if isinstance(value, dict):
                yield value
        self._at += 1

    def _value(self) -> object:
        self._skip(_SPACE)
        want = _CHUNK
        while True:
            try:
                value, end = self._decode(self._text, self._at)
                # A number that touches the end of the text may go on in the next chunk.
                if end < len(self._text) or self._is_last or isinstance(value, str | dict | list):
                    self._at = end
                    return value
            except (ValueError, RecursionError) as error:
                if isinstance(error, json.JSONDecodeError) and self._mend(error.pos):
                    continue
                if self._is_last:
                    raise _End("the JSON is cut short or malformed") from None
                if len(self._text) - self._at > MAX_VALUE:
                    raise _End(f"the JSON is malformed, or a value exceeds {MAX_VALUE >> 20} MiB") from None
            self._fill(want)
            want *= 2

    def _mend(self, at: int) -> bool:
        """Whether what stands `at` is what tools write though JSON knows it not; all of it in the text is made JSON."""
        is_known = _NO_NUMBER.match(self._text, at) or "\\" in self._text[max(at - 2, self._at) : at + 1]
        if not is_known:
            return False
        rest = self._text[self._at :]
        whole = _NO_NUMBER.sub("NaN", _BACKSLASH.sub(lambda found: found[0] if found[0][1:] else "/", rest))
        self._text, self._at = whole, 0
        return whole != rest

    def _skip(self, characters: str) -> str:
        """Move to the next character that is none of `characters` and return it."""
        while True:
            text, at = self._text, self._at
            while at < len(text) and text[at] in characters:
                at += 1
            self._at = at
            if at < len(text):
                return text[at]
            if self._is_last:
                raise _End("the JSON is cut short")
            self._fill(_CHUNK)

    def _fill(self, size: int) -> None:
        parts = [self._text[self._at :]]
        while size > 0 and not self._is_last:
            chunk = self._source.read(_CHUNK)
            self._is_last = not chunk
            parts.append(self._utf8.decode(chunk, final=self._is_last))
            size -= len(chunk)
        self._text, self._at = "".join(parts), 0
