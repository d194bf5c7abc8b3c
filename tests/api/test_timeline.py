"""The Perfetto file: read back by Perfetto's own messages, nested, flowing, on one clock."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argus.api.lanes import lanes_of
from argus.api.perfetto import Slice, Track, encode_trace
from argus.api.timeline import timeline
from argus.collectors.host.fake_rank import steps
from argus.collectors.records.events import RankRecords
from argus.collectors.records.layout import GroupInfo, Layout

STACK = {
    "rank": 1,
    "ts_s": 1_700_000_000.15,
    "reason": "slow_step",
    "threads": [
        {
            "kind": "main",
            "name": "MainThread",
            "state": "S",
            "wchan": "futex",
            "has_gil": True,
            "stack": "a;b (c:1)",
        }
    ],
}


def parse(raw: bytes) -> Any:
    module = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="no perfetto")
    trace = module.Trace()
    trace.ParseFromString(raw)
    return trace


def events_of(trace: Any) -> dict[int, list[tuple[int, int, str]]]:
    """(time, type, name) of each track's events, in file order."""
    names: dict[int, str] = {}
    found: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for packet in trace.packet:
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        if packet.HasField("track_event"):
            event = packet.track_event
            found[event.track_uuid].append((packet.timestamp, event.type, names.get(event.name_iid, "")))
    return found


def check_nesting(events: list[tuple[int, int, str]]) -> None:
    """Every end closes the innermost open slice, and time never goes back."""
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    depth = 0
    for _, kind, _ in events:
        depth += {1: 1, 2: -1, 3: 0}[kind]
        assert depth >= 0
    assert depth == 0


def ranks(offset_ns: int = 0) -> list[RankRecords]:
    """Two ranks on two hosts, the second's clock `offset_ns` ahead."""
    group = GroupInfo(name="default_pg", desc="dp", ranks=(0, 1))
    found = []
    for rank in range(2):
        layout = Layout(run="r", attempt=0, rank=rank, world_size=2, host=f"h{rank}", groups=(group,))
        records = steps(layout, 0, 5)
        if rank:
            moved = {}
            for kind, columns in (
                ("steps", ("start_ns", "end_ns")),
                ("phases", ("start_ns",)),
                ("collectives", ("entry_ns", "end_ns")),
            ):
                rows = getattr(records, kind).copy()
                for column in columns:
                    rows[column] += offset_ns
                moved[kind] = rows
            records = replace(records, **moved)
        found.append(records)
    return found


def test_every_rank_is_a_process_with_its_rows_and_all_slices() -> None:
    trace = parse(timeline(ranks(), stacks=[STACK], metadata={"argus-run": "r"}))
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")
    }
    processes = [t for t in tracks.values() if t.HasField("process")]
    assert [t.process.process_name for t in processes] == [t.name for t in processes]
    assert [t.name.split(" · ")[:2] for t in processes] == [["rank 0", "h0"], ["rank 1", "h1"]]
    names = {(tracks[t.parent_uuid].name[:6], t.name) for t in tracks.values() if t.parent_uuid}
    rows = {"steps", "phases", "nccl dp"}
    assert names == {(f"rank {r}", row) for r in (0, 1) for row in rows} | {("rank 1", "cpu stacks")}
    events = events_of(trace)
    assert set(events) <= set(tracks)
    for found in events.values():
        check_nesting(found)
    begun = sum(kind == 1 for found in events.values() for _, kind, _ in found)
    assert begun == 2 * (5 + 10 + 5) and sum(len(f) for f in events.values()) == 2 * begun + 1


def test_one_call_is_one_flow_over_ranks_and_args_are_there() -> None:
    trace = parse(timeline(ranks(), metadata={}))
    flows: dict[int, int] = defaultdict(int)
    for packet in trace.packet:
        for flow in packet.track_event.flow_ids:
            flows[flow] += 1
            args = {a.name: a.int_value for a in packet.track_event.debug_annotations}
            assert {"seq", "bytes", "step", "peer", "blocked_us"} <= set(args)
    assert sorted(flows.values()) == [2] * 5


def test_clocks_of_hosts_are_brought_together_and_the_file_says_how() -> None:
    trace = parse(timeline(ranks(offset_ns=300_000_000), metadata={}))
    metadata = {m.name: m.string_value for p in trace.packet for m in p.chrome_events.metadata}
    assert metadata["argus-alignment-method"] == "collective ends" and metadata["argus-alignment-n"] == "10"
    assert float(metadata["argus-alignment-residual-us"]) < 1000
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor.name
        for p in trace.packet
        if p.HasField("track_descriptor")
    }
    starts = [found[0][0] for uuid, found in sorted(events_of(trace).items()) if tracks[uuid] == "steps"]
    assert abs(starts[0] - starts[1]) < 1_000_000


spans = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 20)).map(lambda s: (s[0], s[0] + s[1])), max_size=30
)


@given(spans)
def test_lanes_hold_only_what_nests(given_spans: list[tuple[int, int]]) -> None:
    lanes = lanes_of(given_spans)
    for i, (a, b) in enumerate(given_spans):
        for j, (c, d) in enumerate(given_spans[:i]):
            if lanes[i] == lanes[j]:
                assert b <= c or d <= a or (a <= c and d <= b) or (c <= a and b <= d)


@given(spans)
def test_what_nests_stays_nested_in_the_file(given_spans: list[tuple[int, int]]) -> None:
    lanes = lanes_of(given_spans)
    slices = [
        Slice(track=1 + lane, name=f"s{a}", start_ns=a, dur_ns=b - a)
        for lane, (a, b) in zip(lanes, given_spans, strict=True)
    ]
    tracks = [Track(uuid=1 + lane, name=str(lane)) for lane in sorted(set(lanes))]
    for found in events_of(parse(encode_trace(tracks, slices, metadata={}))).values():
        check_nesting(found)
        assert sum(kind == 1 for _, kind, _ in found) == sum(kind == 2 for _, kind, _ in found)


@given(st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False), st.text()))
def test_values_come_back(value: str | float) -> None:
    raw = encode_trace(
        [], [Slice(track=1, name="x", start_ns=0, dur_ns=None, args={"v": value})], metadata={}
    )
    (annotation,) = (a for p in parse(raw).packet for a in p.track_event.debug_annotations)
    field = {str: "string_value", int: "int_value", float: "double_value"}[type(value)]
    expected = value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
    assert getattr(annotation, field) == expected
