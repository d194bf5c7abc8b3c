"""Recordings read back whole, cut, damaged, hostile."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argus.collectors.host.fake_rank import frames, preamble, steps
from argus.collectors.host.window import cut
from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers.recording import read, sniff
from argus.collectors.records.events import DTYPES
from argus.collectors.records.frames import Kind, encode_json, encode_rows
from argus.collectors.records.host_look import HostLook
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.layout import GroupInfo, Layout
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.stacks import StackDump, encode_stacks

LAYOUT = Layout(run="r", attempt=0, rank=3, world_size=4, host="h")
WHOLE = preamble(LAYOUT) + frames(steps(LAYOUT, 0, 20)) + encode_json(Kind.BYE, {})


def reading_of(raw: bytes, path: Path) -> Reading:
    path.write_bytes(raw)
    (reading,) = read(path)
    return reading


def test_a_whole_recording_is_its_records(tmp_path: Path) -> None:
    reading = reading_of(WHOLE, tmp_path / "rank-3.argus")
    sent = steps(LAYOUT, 0, 20)
    assert reading.warnings == () and reading.source == "rank-3.argus"
    assert reading.records.layout == LAYOUT
    for kind in DTYPES:
        assert getattr(reading.records, kind).tobytes() == getattr(sent, kind).tobytes()
    assert [reading.records.name(int(i)) for i in reading.records.phases["name"][:2]] == [
        "forward",
        "backward",
    ]


def test_a_compressed_recording_reads_too(tmp_path: Path) -> None:
    assert len(reading_of(gzip.compress(WHOLE), tmp_path / "rank-3.argus.gz").records.steps) == 20


def test_the_latest_layout_counts(tmp_path: Path) -> None:
    group = GroupInfo(name="0", desc="default_pg", ranks=(0, 1, 2, 3))
    later = Layout(run="r", attempt=0, rank=3, world_size=4, host="h", groups=(group,))
    reading = reading_of(WHOLE + encode_json(Kind.LAYOUT, later.to_json()), tmp_path / "a")
    assert reading.records.layout.groups == (group,)


LOOK = HostLook(ts_s=1_700_000_000.0, pid=7, host={"cpu_some_s": 1.0}, whole={"cpu_s": 2.0})
DUMP = StackDump(run="r", attempt=0, rank=3, host="h", ts_s=1.0, step=4)


def told(*looks: HostLook) -> bytes:
    return b"".join(encode_json(Kind.HOST, look.to_json()) for look in looks)


def test_what_the_host_saw_comes_with_the_records_also_after_the_goodbye(tmp_path: Path) -> None:
    later = replace(
        LOOK, ts_s=LOOK.ts_s + 2, run_delay_s={7: 0.5}, sample=HostSample(host="h", start_s=1.0, end_s=2.0)
    )
    stacks = encode_json(Kind.STACKS, encode_stacks([DUMP]))
    reading = reading_of(WHOLE + told(LOOK, later) + stacks, tmp_path / "a")
    assert reading.warnings == ()
    assert reading.records.looks == (LOOK, later) and reading.records.stacks == (DUMP,)
    assert cut(reading.records, WindowPlan(first=20))[0].use["thread_run_delay_ratio"] == 0.25


def test_a_clock_set_back_leaves_only_the_looks_after_it(tmp_path: Path) -> None:
    back = replace(LOOK, ts_s=LOOK.ts_s - 100)
    assert reading_of(WHOLE + told(LOOK, LOOK, back), tmp_path / "a").records.looks == (back,)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Kind.HOST, {}),
        (Kind.HOST, {**LOOK.to_json(), "ts_s": float("nan")}),
        (Kind.HOST, {**LOOK.to_json(), "pid": -1}),
        (Kind.HOST, {**LOOK.to_json(), "host": {"a": "b"}}),
        (Kind.HOST, {**LOOK.to_json(), "whole": [1.0]}),
        (Kind.HOST, {**LOOK.to_json(), "run_delay_s": {"x": 1.0}}),
        (Kind.HOST, {**LOOK.to_json(), "sample": {"host": ""}}),
        (Kind.STACKS, {"stacks": []}),
        (Kind.STACKS, encode_stacks([replace(DUMP, rank=2)])),
    ],
)
def test_an_observation_that_cannot_be_ends_the_reading_with_its_reason(
    tmp_path: Path, kind: Kind, body: dict[str, object]
) -> None:
    reading = reading_of(WHOLE + encode_json(kind, body) + told(LOOK), tmp_path / "x")
    assert len(reading.records.steps) == 20 and reading.records.looks == ()
    assert len(reading.warnings) == 1 and "only what lies before" in reading.warnings[0]


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_a_recording_cut_short_gives_the_rest_and_a_warning(tmp_path: Path, keep: float) -> None:
    raw = b"".join([preamble(LAYOUT), *(frames(steps(LAYOUT, n, n + 1)) for n in range(100))])
    reading = reading_of(raw[: int(len(raw) * keep)], tmp_path / "rank-3.argus")
    assert 0 < len(reading.records.steps) < 100
    assert len(reading.warnings) == 1 and "rank-3.argus" in reading.warnings[0]


def test_damage_ends_the_reading_with_its_reason(tmp_path: Path) -> None:
    reading = reading_of(WHOLE + b"junk" * 10 + WHOLE, tmp_path / "x")
    assert len(reading.records.steps) == 20
    assert len(reading.warnings) == 1 and "magic" in reading.warnings[0]


def test_impossible_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    bad = np.zeros(3, DTYPES["steps"])
    bad["step"] = (-1, 5, 1 << 60)
    reading = reading_of(preamble(LAYOUT) + encode_rows("steps", bad), tmp_path / "x")
    assert reading.records.steps["step"].tolist() == [5]
    assert reading.warnings == ("x: 2 rows are left out as bad_step",)


@pytest.mark.parametrize(
    "raw", [b"", b"Ag", WHOLE[:20], WHOLE[400:], encode_json(Kind.LAYOUT, {"rank": 9}), b"\x1f\x8bnoise"]
)
def test_a_file_without_a_layout_is_one_sentence(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(ReaderError, match=r"broken\.argus.*layout"):
        reading_of(raw, tmp_path / "broken.argus")


def test_only_recordings_are_taken_whatever_their_name() -> None:
    assert sniff(WHOLE[:64], "no-suffix")
    assert not sniff(b"{", "rank-0.argus") and not sniff(b"", "rank-0.argus")


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, len(WHOLE)), noise=st.binary(min_size=1, max_size=40))
def test_no_bytes_break_the_reader(tmp_path: Path, at: int, noise: bytes) -> None:
    try:
        reading = reading_of(WHOLE[:at] + noise + WHOLE[at + len(noise) :], tmp_path / "f.argus")
    except ReaderError as error:
        assert "f.argus" in str(error)
    else:
        assert reading.records.layout.world_size >= 1
