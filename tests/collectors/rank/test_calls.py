"""Groups of a rank: how many may be told, and whose calls are counted together."""

from __future__ import annotations

from weakref import ref

from argus.collectors.host.check import parse_status
from argus.collectors.rank.calls import CallLog
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import MAX_NAMES, Ring
from argus.collectors.records.heartbeat import MAX_GROUPS


def log() -> CallLog:
    """Calls of a rank without a GPU."""
    return CallLog(Recorder(ring=Ring(), now_ns=lambda: 1, cpu_ns=lambda: 0))


def test_a_status_of_as_many_groups_as_a_rank_tells_of_is_taken() -> None:
    calls = log()
    for number in range(MAX_GROUPS + 10):
        calls.group(str(number), [0, 1])
    status = calls.recorder.status(calls.status())
    assert len(parse_status(status.to_json()).groups) == MAX_GROUPS


def test_a_group_of_the_same_name_with_other_ranks_is_another_one() -> None:
    calls = log()
    send, before = calls.recorder.names["send"], calls.group("1", [0, 2])
    calls.count(send, before)
    after = calls.group("1", [0, 1, 3])
    call = calls.begin(send, after, peer=1, num_bytes=8)
    assert call is not None and (call.peer, call.seq) == (1, 0)
    assert calls.group("1", (0, 1, 3)) is after
    assert calls.status() == {"1": (1, 0)}


class Made:
    """Stands for a process group of the runtime."""


def test_of_groups_made_for_ever_those_that_are_gone_are_forgotten() -> None:
    calls, world, seldom = log(), Made(), Made()
    calls.group("world", [0, 1], of=ref(world))
    for number in range(2 * MAX_GROUPS):
        if number % 1000 == 0:
            calls.count(calls.recorder.names["barrier"], calls.group("world", [0, 1], of=ref(world)))
        if number == 0:
            calls.count(calls.recorder.names["barrier"], calls.group("seldom", [0, 1], of=ref(seldom)))
        made = Made()
        calls.group(str(number), [0, 1], of=ref(made))
    told = calls.status()
    assert len(calls.groups) <= MAX_GROUPS
    assert told["world"] == (9, 9) and told["seldom"] == (1, 1)
    assert str(2 * MAX_GROUPS - 1) in told


def test_calls_of_groups_without_room_for_their_names_are_only_counted() -> None:
    calls = log()
    for number in range(MAX_NAMES):
        calls.recorder.ring.intern(f"name {number}")
    for name in ("a", "b"):
        call = calls.begin(
            calls.recorder.names["all_reduce"], calls.group(name, [0, 1]), peer=-1, num_bytes=8
        )
        assert call is None
    assert calls.status() == {"a": (1, 1), "b": (1, 1)}
