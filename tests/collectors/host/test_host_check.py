"""What a rank's stream may say, and what becomes of the rest."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argus.collectors.host.check import MAX_AHEAD_STEPS, Checked, Checker, first_layout, parse_counts
from argus.collectors.host.fake_rank import NAMES, steps
from argus.collectors.host.names import MAX_NAMES, OVERFLOW, NameTable
from argus.collectors.host.recorder import encode
from argus.collectors.rank.attach import find_hooks
from argus.collectors.records.errors import WireError
from argus.collectors.records.events import DTYPES, Rows
from argus.collectors.records.frames import Frame, FrameReader, Kind
from argus.collectors.records.layout import Layout

LAYOUT = Layout(run="r", attempt=0, rank=1, world_size=2, host="h")


def checker(names: NameTable | None = None) -> Checker:
    it = Checker(LAYOUT, names=names or NameTable())
    it.check(Frame(kind=Kind.STRINGS, body={"first": 0, "names": list(NAMES)}))
    return it


def rows_of(checked: Checked) -> Rows:
    assert checked.frame is not None and checked.frame.rows is not None
    return checked.frame.rows


def step_rows(*numbers: int) -> Rows:
    rows = np.zeros(len(numbers), DTYPES["steps"])
    rows["step"] = numbers
    return rows


def test_good_rows_pass_unchanged() -> None:
    it, records = checker(), steps(LAYOUT, 0, 5)
    for kind in (Kind.STEPS, Kind.PHASES, Kind.COLLECTIVES):
        rows = getattr(records, kind.name.lower())
        assert rows_of(it.check(Frame(kind=kind, rows=rows))).tobytes() == rows.tobytes()
    assert not it.rejected


def test_two_connections_share_one_table_though_their_numbers_differ() -> None:
    table = NameTable()
    first, second = checker(table), Checker(LAYOUT, names=table)
    second.check(Frame(kind=Kind.STRINGS, body={"first": 1, "names": ["new", "forward"]}))
    rows = np.zeros(2, DTYPES["phases"])
    rows["name"] = (1, 2)
    got = rows_of(second.check(Frame(kind=Kind.PHASES, rows=rows)))
    assert [table.all()[i] for i in got["name"]] == ["new", "forward"]
    assert got["name"][1] == NAMES.index("forward")
    assert rows_of(first.check(Frame(kind=Kind.PHASES, rows=rows)))["name"][0] == NAMES.index("forward")


def test_a_resent_table_adds_nothing_to_a_recording() -> None:
    frame = Frame(kind=Kind.STRINGS, body={"first": 0, "names": list(NAMES)})
    assert checker().check(frame).frame is None


def test_names_beyond_the_limit_share_one_entry() -> None:
    table = NameTable()
    ids = [table.intern(f"name {i}") for i in range(MAX_NAMES + 10)]
    assert len(table) == MAX_NAMES
    assert table.all()[ids[-1]] == table.all()[ids[-2]] == OVERFLOW
    assert table.intern("name 3") == ids[3]


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("step", -1, "bad_step"),
        ("step", 1 << 60, "bad_step"),
        ("dur_ns", -5, "bad_value"),
        ("start_ns", -1, "bad_value"),
        ("clock", 7, "bad_value"),
        ("name", 10_000, "bad_name"),
    ],
)
def test_an_impossible_row_is_counted_and_the_others_stay(column: str, value: int, reason: str) -> None:
    it = checker()
    rows = np.zeros(3, DTYPES["phases"])
    rows[column][1] = value
    assert len(rows_of(it.check(Frame(kind=Kind.PHASES, rows=rows)))) == 2
    assert it.rejected == Counter({reason: 1})


def test_a_step_far_ahead_of_the_others_is_refused() -> None:
    it = checker()
    it.check(Frame(kind=Kind.STEPS, rows=step_rows(1_000_000)))
    it.check(Frame(kind=Kind.STEPS, rows=step_rows(1_000_001 + MAX_AHEAD_STEPS)))
    assert it.rejected == Counter({"bad_step": 1})


def test_not_a_number_is_refused_and_unobserved_cpu_time_is_not() -> None:
    it = checker()
    events = np.zeros(2, DTYPES["events"])
    events["value"] = (np.nan, 1.0)
    assert len(rows_of(it.check(Frame(kind=Kind.EVENTS, rows=events)))) == 1
    phases = np.zeros(1, DTYPES["phases"])
    phases["cpu_ns"] = -1
    assert len(rows_of(it.check(Frame(kind=Kind.PHASES, rows=phases)))) == 1


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Kind.LAYOUT, {}),
        (Kind.LAYOUT, {**LAYOUT.to_json(), "rank": 0}),
        (Kind.STRINGS, {"first": 99, "names": ["gap"]}),
        (Kind.STRINGS, {"first": True, "names": ["x"]}),
        (Kind.STRINGS, {"first": 0, "names": "text"}),
        (Kind.STRINGS, {"first": 0, "names": [3]}),
        (Kind.STRINGS, {}),
        (Kind.STATUS, {"ts_ns": 0, "step": 10**30}),
        (Kind.STATUS, {"ts_ns": 10**300, "step": 1}),
        (Kind.STATUS, {"ts_ns": 0, "step": 1, "groups": {"g": [1, -1]}}),
        (Kind.STATUS, {"ts_ns": 0, "step": 1, "groups": {str(i): [1, 1] for i in range(5000)}}),
        (Kind.DROPS, {"reason": -1}),
        (Kind.DROPS, {"reason": "many"}),
        (Kind.DROPS, {str(i): 1 for i in range(100)}),
        (Kind.NOTE, {"unseen": 3}),
        (Kind.HOST, {}),
        (Kind.STACKS, {"stacks": [], "dumps": []}),
    ],
)
def test_a_stream_that_lies_ends_with_a_reason(kind: Kind, body: dict[str, object]) -> None:
    with pytest.raises(WireError, match=r"\w+"):
        checker().check(Frame(kind=kind, body=body))


def test_a_stream_begins_with_its_layout() -> None:
    with pytest.raises(WireError, match="begins with LAYOUT, got BYE"):
        first_layout(Frame(kind=Kind.BYE, body={}))
    assert first_layout(Frame(kind=Kind.LAYOUT, body=LAYOUT.to_json())) == LAYOUT


def test_text_that_no_encoding_holds_is_replaced() -> None:
    table = NameTable()
    Checker(LAYOUT, names=table).check(
        Frame(kind=Kind.STRINGS, body={"first": 1, "names": ["\ud800kernel", "x" * 5000]})
    )
    assert table.all()[1:] == ("?kernel", "x" * 1024)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
BODIES: dict[Kind, dict[str, object]] = {
    Kind.LAYOUT: LAYOUT.to_json(),
    Kind.STRINGS: {"first": 1, "names": ["a", "b"]},
    Kind.STATUS: {"ts_ns": 1, "step": 2, "phase": "forward", "groups": {"g": [1, 2]}},
    Kind.DROPS: {"ring_full": 3},
    Kind.NOTE: {"unseen": "kernels"},
    Kind.BYE: {},
}


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(kind=st.sampled_from(list(BODIES)), data=st.data())
def test_any_json_is_taken_or_refused_with_a_reason(kind: Kind, data: st.DataObject) -> None:
    body = dict(BODIES[kind])
    for key in data.draw(st.lists(st.sampled_from([*body, "other"]), max_size=3)):
        body[key] = data.draw(JSON)
    try:
        checked = checker().check(Frame(kind=kind, body=body))
    except WireError as error:
        assert str(error)
    else:
        assert checked.frame is None or FrameReader().feed(encode(checked.frame)).__next__().kind == kind


def test_a_rank_may_tell_that_each_of_its_collectors_failed() -> None:
    names = [name for name, _ in find_hooks()]
    drops = {**{f"{name}_error": 1 for name in names}, **{f"reason {number}": 1 for number in range(16)}}
    assert parse_counts(drops) == drops
