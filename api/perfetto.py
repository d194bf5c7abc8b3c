"""Perfetto's protobuf, written by hand: the few messages a timeline needs.

Field numbers: protos/perfetto/trace in the Perfetto sources (trace_packet, track_event, track_descriptor,
process_descriptor, debug_annotation, chrome_trace_event).

>>> track = Track(uuid=7, name="steps")
>>> len(encode_trace([track], [Slice(track=7, name="step 1", start_ns=10, dur_ns=5)], metadata={})) > 20
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from argus.api.protobuf import bytes_field, double_field, fixed64_field, text_field, varint_field

SEQUENCE = 1
"""All packets are one sequence: names are interned once for the whole file."""

_BEGIN, _END, _INSTANT = 1, 2, 3
_CLEARED, _NEEDS_STATE = 1, 2

Value = str | int | float


@dataclass(frozen=True, kw_only=True)
class Track:
    """A row of the timeline; a process if `pid` is not None."""

    uuid: int
    name: str
    parent: int = 0
    pid: int | None = None


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Something that took time, or an instant if `dur_ns` is None; slices of a track must nest.

    Slices with the same `flow` are joined by arrows.
    """

    track: int
    name: str
    start_ns: int
    dur_ns: int | None
    args: Mapping[str, Value] = field(default_factory=dict)
    flow: int = 0


def encode_trace(tracks: Iterable[Track], slices: Iterable[Slice], *, metadata: Mapping[str, Value]) -> bytes:
    """The bytes of a `.pftrace` file."""
    parts = [_packet(_descriptor(track), flags=0) for track in tracks]
    parts.insert(0, _packet(b"", flags=_CLEARED))
    if metadata:
        parts.append(_packet(_metadata(metadata), flags=0))
    names: dict[str, int] = {}
    parts += [_event(event, names) for event in sorted(_events(slices), key=lambda event: event.order)]
    return b"".join(parts)


@dataclass(frozen=True, kw_only=True)
class _Event:
    """One edge of a slice; at one time ends come first, inner before outer, then begins, outer before inner."""

    at_ns: int
    kind: int
    slice: Slice

    @property
    def order(self) -> tuple[int, int, int]:
        dur_ns = self.slice.dur_ns or 0
        return (self.at_ns, 0, dur_ns) if self.kind == _END else (self.at_ns, 1, -dur_ns)


def _events(slices: Iterable[Slice]) -> Iterator[_Event]:
    for item in slices:
        if item.dur_ns is None:
            yield _Event(at_ns=item.start_ns, kind=_INSTANT, slice=item)
            continue
        # An end at its own begin would be sorted before it: the shortest slice lasts a nanosecond.
        yield _Event(at_ns=item.start_ns, kind=_BEGIN, slice=item)
        yield _Event(at_ns=item.start_ns + max(item.dur_ns, 1), kind=_END, slice=item)


def _event(event: _Event, names: dict[str, int]) -> bytes:
    item = event.slice
    body = varint_field(9, event.kind) + varint_field(11, item.track)
    interned = b""
    if event.kind != _END:
        number = names.get(item.name)
        if number is None:
            number = names[item.name] = len(names) + 1
            interned = bytes_field(2, varint_field(1, number) + text_field(2, item.name))
        body += varint_field(10, number)
        body += b"".join(bytes_field(4, _annotation(name, value)) for name, value in item.args.items())
        if item.flow:
            body += fixed64_field(47, item.flow)
    packet = varint_field(8, event.at_ns) + bytes_field(11, body)
    return _packet(packet + (bytes_field(12, interned) if interned else b""), flags=_NEEDS_STATE)


def _descriptor(track: Track) -> bytes:
    body = varint_field(1, track.uuid) + text_field(2, track.name)
    if track.parent:
        body += varint_field(5, track.parent)
    if track.pid is not None:
        body += bytes_field(3, varint_field(1, track.pid) + text_field(6, track.name))
    return bytes_field(60, body)


def _metadata(metadata: Mapping[str, Value]) -> bytes:
    """ChromeEventBundle.metadata: shown as metadata of the trace."""
    entries = (text_field(1, name) + text_field(2, str(value)) for name, value in metadata.items())
    return bytes_field(5, b"".join(bytes_field(2, entry) for entry in entries))


def _annotation(name: str, value: Value) -> bytes:
    head = text_field(10, name)
    if isinstance(value, str):
        return head + text_field(6, value)
    if isinstance(value, float):
        return head + double_field(5, value)
    return head + varint_field(4, value)


def _packet(body: bytes, *, flags: int) -> bytes:
    body += varint_field(10, SEQUENCE)
    if flags:
        body += varint_field(13, flags)
    return bytes_field(1, body)
