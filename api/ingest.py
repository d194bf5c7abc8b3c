"""Reading what hosts send: bytes and JSON in, checked values and reasons out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from argus.analytics.store.bodies import shrink
from argus.analytics.store.documents import dump_plain
from argus.analytics.store.intake import Arrival, Rejection
from argus.collectors.records.errors import NewerError, WireError
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.kernel_read import bundle, open_blob, read
from argus.collectors.records.layout import MAX_WORLD, Layout
from argus.collectors.records.outside_event import MAX_EVENTS, OutsideEvent
from argus.collectors.records.report import Report
from argus.collectors.records.stacks import StackDump, StackTable
from argus.collectors.records.summary import RankWindow
from argus.collectors.records.text import has_page
from argus.collectors.records.upload import open_windows

T = TypeVar("T")

MAX_ATTEMPT = 1 << 31
MAX_NUMBER = 1 << 62
"""Numbers beyond it are no steps, counts or nanoseconds, and no database's integer."""

MAX_SPANNED = 1 << 24
"""Members of groups in one request of layouts; a host of 8 ranks among 10,240 tells some 300,000."""

MAX_ITEMS = 100_000
"""Items of one request: a host has tens of ranks, a hundred thousand is an attack."""


@dataclass(frozen=True, kw_only=True)
class Beats:
    """One host's heartbeats, checked; `texts` and `report_texts` are the good items as the store keeps them."""

    beats: Parsed[Heartbeat]
    reports: Parsed[Report]
    texts: tuple[str, ...]
    report_texts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Parsed(Generic[T]):
    """The good items of a request and what is wrong with the others."""

    items: tuple[T, ...]
    rejected: tuple[Rejection, ...]


def parse_windows(body: bytes, *, max_bytes: int, age_s: float = 0.0) -> Parsed[Arrival]:
    """Rank windows of an upload that waited so long. Raises WireError when it cannot be read as a whole."""
    parsed = _each(enumerate(open_windows(body, max_bytes=max_bytes)), _arrival)
    return replace(
        parsed, items=tuple(replace(item, age_s=age_s) for item in parsed.items) if age_s else parsed.items
    )


def parse_layouts(body: bytes) -> Parsed[Layout]:
    """Layout records of a request. Raises WireError when there is no list of them."""
    items = _list(_object(body), "layouts")
    if sum(map(_num_spanned, items)) > MAX_SPANNED:
        raise WireError(f"the groups of one request must have at most {MAX_SPANNED} members")
    return _each(enumerate(items), _layout)


def _num_spanned(raw: object) -> int:
    """Members of groups that are told as first, step and number: few bytes that become many."""
    groups = raw.get("groups") if isinstance(raw, dict) else None
    told = groups if isinstance(groups, list) else ()
    spans = [group.get("ranks") for group in told if isinstance(group, dict)]
    nums = [span.get("num") for span in spans if isinstance(span, dict)]
    return sum(num for num in nums if isinstance(num, int) and num > 0)


def parse_all_beats(bodies: Sequence[bytes]) -> list[Beats | WireError]:
    """The heartbeats of several hosts, or why those of one cannot be read."""
    parsed: list[Beats | WireError] = []
    for body in bodies:
        try:
            beats, reports = parse_heartbeats(body)
        except WireError as error:
            parsed.append(error)
            continue
        texts = tuple(dump_plain(beat.to_json()) for beat in beats.items)
        report_texts = tuple(dump_plain(report.to_json()) for report in reports.items)
        parsed.append(Beats(beats=beats, reports=reports, texts=texts, report_texts=report_texts))
    return parsed


def parse_heartbeats(body: bytes) -> tuple[Parsed[Heartbeat], Parsed[Report]]:
    """Heartbeats of a request, and what the processor says of itself beside them, if it does.

    A bad one costs only itself. Raises WireError when there is no list of heartbeats.
    """
    raw = _object(body)
    beats = _each(enumerate(_list(raw, "heartbeats")), _heartbeat)
    processor = raw.get("processor")
    return beats, _each(enumerate([] if processor is None else [processor]), _report)


def _report(_index: int, raw: object) -> Report:
    report = Report.from_json(raw)
    _name(report.host, "processor.host")
    return report


def parse_observations(body: bytes) -> tuple[Parsed[StackDump], Parsed[HostSample]]:
    """Stack dumps and host samples of a request; what is wrong with one costs only that one.

    The indices of refused samples follow those of the dumps. Raises WireError.
    """
    raw = _object(body)
    dumps, samples, stacks = (_list(raw, key) for key in ("dumps", "samples", "stacks"))
    table = StackTable.of(stacks)
    return (
        _each(enumerate(dumps), lambda _index, raw: _dump(raw, table)),
        _each(enumerate(samples, start=len(dumps)), lambda _index, raw: _sample(raw)),
    )


def parse_events(body: bytes) -> Parsed[OutsideEvent]:
    """Out-of-band events of a request. Raises WireError when there is no list of them, or it is too long."""
    items = _list(_object(body), "events")
    if len(items) > MAX_EVENTS:
        raise WireError(f"more than {MAX_EVENTS} events in one request")
    return _each(enumerate(items), lambda _index, raw: OutsideEvent.from_json(raw))


def _dump(raw: object, table: StackTable) -> StackDump:
    dump = table.dump(raw)
    _name(dump.host, "stack dump's host", may_be_empty=True)
    return dump


def _sample(raw: object) -> HostSample:
    return HostSample.from_json(raw)


def _each(items: Any, parse: Callable[[int, Any], T]) -> Parsed[T]:
    good: list[T] = []
    rejected: list[Rejection] = []
    for index, item in items:
        if index >= MAX_ITEMS:
            raise WireError(f"more than {MAX_ITEMS} items in one request")
        try:
            good.append(parse(index, item))
        except NewerError:
            raise  # all of a sender's windows are of one version: it keeps them until we read it
        except WireError as error:
            rejected.append(Rejection(index=index, reason=str(error)))
    return Parsed(items=tuple(good), rejected=tuple(rejected))


def _arrival(index: int, came: tuple[bytes, bytes]) -> Arrival:
    body, frame = came
    window = RankWindow.from_bytes(body)
    _run(window.run, "window.run")
    _name(window.host, "window.host", may_be_empty=True)
    _below(window.rank, MAX_WORLD, "window.rank")
    _below(window.attempt, MAX_ATTEMPT, "window.attempt")
    if (window.steps["end_ns"] < window.steps["start_ns"]).any():
        raise WireError(
            f"window {window.window} of rank {window.rank} holds steps that end before they start"
        )
    kernels, wrong = _checked_kernels(window.kernels)
    if window.kernels:
        window = window.with_loss(wrong, 1) if wrong else window
        stored = shrink(replace(window, kernels=b"").to_bytes())
    else:
        stored = frame or shrink(body)
    return Arrival(
        index=index,
        run=window.run,
        attempt=window.attempt,
        rank=window.rank,
        window=window.window,
        first_step=window.first_step,
        num_steps=window.num_steps,
        host=window.host,
        body=stored,
        kernels=kernels,
        ended_ns=int(window.steps["end_ns"].max(initial=0)),
    )


def _checked_kernels(payload: bytes) -> tuple[bytes, str]:
    """The blob if all of it can be read, so that no damaged one is ever stored; else why not, and none.

    It costs nothing else: the steps of the window that carries the kernels of its host are worth keeping.
    """
    try:
        if payload:
            _check_kernels(payload)
    except WireError as error:
        return b"", str(error)[:64]
    return payload, ""


def _check_kernels(payload: bytes) -> None:
    blob = open_blob(payload)
    read(bundle([blob]))
    for rank in blob.ranks["rank"].tolist():
        _below(rank, MAX_WORLD, "a rank of window.kernels")
    for text in blob.texts().values():
        if "\x00" in text:
            raise WireError("a name of window.kernels holds a zero byte")


def _layout(_index: int, raw: object) -> Layout:
    layout = Layout.from_json(raw)
    _run(layout.run, "layout.run")
    _name(layout.host, "layout.host", may_be_empty=True)
    _name(layout.source, "layout.source", may_be_empty=True)
    _below(layout.attempt, MAX_ATTEMPT, "layout.attempt")
    return layout


def _heartbeat(_index: int, raw: object) -> Heartbeat:
    beat = Heartbeat.from_json(raw)
    _run(beat.run, "heartbeat.run")
    _name(beat.host, "heartbeat.host", may_be_empty=True)
    status = beat.status
    numbers: Sequence[int] = (
        status.ts_ns,
        status.step,
        status.phase_since_ns,
        status.step_since_ns,
        status.step_p50_ns,
        *(number for pair in status.groups.values() for number in pair),
    )
    if max(map(abs, numbers)) > MAX_NUMBER:
        raise WireError(f"heartbeat of rank {beat.rank} holds a number beyond {MAX_NUMBER}")
    return beat


def _name(text: str, what: str, *, may_be_empty: bool = False) -> None:
    if not text and not may_be_empty:
        raise WireError(f"{what} must not be empty")
    if not text.isprintable():
        raise WireError(f"{what} must be printable text, got {text!a:.60}")


def _run(text: str, what: str) -> None:
    _name(text, what)
    if not has_page(text):
        raise WireError(f"{what} must not be . or .. or hold one between slashes, got {text!a:.60}")


def _below(number: int, limit: int, what: str) -> None:
    if number >= limit:
        raise WireError(f"{what} must be below {limit}, got {number}")


def _list(raw: Mapping[str, object], key: str) -> list[object]:
    items = raw.get(key)
    if not isinstance(items, list):
        raise WireError(f"body must be an object with the list {key!r}")
    return items


def _object(body: bytes) -> Mapping[str, object]:
    try:
        raw = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WireError(f"body is not JSON: {error!s:.200}") from None
    if not isinstance(raw, dict):
        raise WireError("body must be an object")
    return raw


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")
