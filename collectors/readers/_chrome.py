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

_NO_NUMBER = re.compile(
    r"(?<=[:\[,\s])(?:-?(?:inf(?:inity)?|nan(?:\(\w{1,8}\))?)|n/a)(?=\s*[,}\]])", re.IGNORECASE
)
"""Numbers as C++ prints them, which kineto does of a copy that took no time (kineto#105); -nan(ind) is Microsoft's.
Where it knows none it wrote N/A (kineto#131)."""

_BACKSLASH = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})|\\(?=.{5})", re.DOTALL)
"""An escape of JSON, or else a backslash as it stands in the paths of Windows (kineto#336)."""


_NEXT_EVENT = re.compile(r'\}\s*,\s*(?=\{[^{}\[\]]{0,1000}?"ph"\s*:)')
"""The end of an event before another one, by which reading goes on behind one that is no JSON."""

_LONGEST_TOKEN = 64
"""Characters at the end of the text that may be half of something; what makes no sense before them never will."""

_MOST_BEHIND = 1 << 15
"""Characters kept of what was read where an event is no JSON: the decoder counts the lines of all of them for each."""


class ByteSource(Protocol):
    """Bytes in order; `cut` is a reason if they ended too early."""

    cut: str

    def read(self, size: int = ...) -> bytes:
        """The next bytes, b"" at the end."""


class _End(Exception):
    """The text ended, or stopped making sense."""


class TraceStream:
    """A trace as a stream: iterate `events()` first, then read `meta` and `damage`.

    `meta` holds the top-level keys beside the events. `damage` is "" or says how the file ends early; `num_malformed`
    events within it are no JSON, as with a quote in a name that kineto does not escape (kineto#1459).
    """

    def __init__(self, source: ByteSource) -> None:
        self.meta: dict[str, Any] = {}
        self.damage = ""
        self.has_events = False
        self.num_malformed = 0
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
            self.damage = self._source.cut or self._what_follows()
        except _End as end:
            self.damage = self._source.cut or str(end)

    def _what_follows(self) -> str:
        """Why there is text behind the end of the JSON, "" if there is none."""
        try:
            self._skip(_SPACE + "\0")
        except _End:
            return ""
        return "more follows behind the end of its JSON, as where several ranks write into one file"

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
        self._at += 1

    def _array(self) -> Iterator[dict[str, Any]]:
        self.has_events = True
        while self._skip(_SPACE + ",") != "]":
            try:
                value = self._value()
            except _End:
                if not self._is_at_next():
                    raise
                self.num_malformed += 1
                continue
            if isinstance(value, dict):
                yield value
        self._at += 1

    def _is_at_next(self) -> bool:
        """Whether another event follows the one that is no JSON; it is read next."""
        want = _CHUNK
        while True:
            found = _NEXT_EVENT.search(self._text, self._at)
            if found is not None:
                self._at = found.end()
                if self._at > _MOST_BEHIND:
                    self._text, self._at = self._text[self._at :], 0
                return True
            if self._is_last or len(self._text) - self._at > MAX_VALUE:
                return False
            self._fill(want)
            want *= 2

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
                if self._is_last or self._is_beyond_help(error):
                    raise _End("the JSON is cut short or malformed") from None
                if len(self._text) - self._at > MAX_VALUE:
                    raise _End(f"the JSON is malformed, or a value exceeds {MAX_VALUE >> 20} MiB") from None
            self._fill(want)
            want *= 2

    def _is_beyond_help(self, error: Exception) -> bool:
        """Whether no further text makes JSON of what is there: each of a million such events must not ask for more."""
        return (
            isinstance(error, json.JSONDecodeError)
            and not error.msg.startswith("Unterminated string")
            and error.pos < len(self._text) - _LONGEST_TOKEN
        )

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
