"""The rules that make causes of what lasted: one cause per object, a second best with the command that separates."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

import pytest

from argus.analytics.classes import cause_classes
from argus.analytics.fuse.merge import one_per_suspect
from argus.analytics.fuse.scope import join_ranks
from argus.analytics.fuse.second_best import _pairs, with_separation
from argus.analytics.incident import Cause
from argus.analytics.view import View
from argus.api.cli import build_parser, load
from argus.collectors.records.layout import GroupInfo, Layout
from argus.topology.layout import Topology, build

RANKS, PER_HOST = 32, 8


def topology() -> Topology:
    """Four hosts of eight ranks, tensor groups of four."""
    return build(
        Layout(
            run="r",
            attempt=0,
            rank=rank,
            world_size=RANKS,
            host=f"h-{rank // PER_HOST}",
            groups=(
                GroupInfo(
                    name=f"t{rank // 4}", desc="mesh_tp", ranks=tuple(range(rank // 4 * 4, rank // 4 * 4 + 4))
                ),
            ),
        )
        for rank in range(RANKS)
    )


def view() -> View:
    return View(run="my run", attempt=0, topology=topology(), now_s=0.0)


def cause(rank: int, fault_class: str = "compute.slow", *, s_per_step: float = 0.1) -> Cause:
    return Cause(
        fault_class=fault_class,
        verdict="LIKELY",
        suspects=(rank,),
        scope=f"rank:{rank}",
        s_per_step=s_per_step,
        onset_step=100 + rank,
        findings=(f"f-{rank}",),
        victims=(0, 9),
    )


def scopes(causes: Sequence[Cause]) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.scope, one.suspects) for one in causes]


def test_most_ranks_of_a_host_are_one_cause_of_that_host() -> None:
    joined = join_ranks(view(), [cause(rank, s_per_step=rank / 10) for rank in range(8, 15)])
    assert scopes(joined) == [("host:h-1", tuple(range(8, 15)))]
    assert joined[0].onset_step == 108 and joined[0].s_per_step == 1.4
    assert set(joined[0].findings) == {f"f-{rank}" for rank in range(8, 15)} and joined[0].victims == (0,)


@pytest.mark.parametrize(("ranks", "scope"), [((4, 5, 6, 7), "half:h-0/1"), ((1, 9, 17, 25), "rail:1")])
def test_half_a_host_and_a_rail_are_objects_too(ranks: tuple[int, ...], scope: str) -> None:
    assert scopes(join_ranks(view(), [cause(rank) for rank in ranks])) == [(scope, ranks)]


@pytest.mark.parametrize("ranks", [(3,), (3, 20), (1, 10, 20, 31), (0, 5)])
def test_ranks_that_share_nothing_stay_causes_of_their_own(ranks: tuple[int, ...]) -> None:
    assert scopes(join_ranks(view(), [cause(rank) for rank in ranks])) == [
        (f"rank:{rank}", (rank,)) for rank in ranks
    ]


def test_two_sick_hosts_are_two_causes() -> None:
    joined = join_ranks(view(), [cause(rank) for rank in (*range(8), *range(24, 32))])
    assert sorted(scopes(joined)) == [("host:h-0", tuple(range(8))), ("host:h-3", tuple(range(24, 32)))]


def test_other_classes_on_the_same_host_are_other_causes() -> None:
    mixed = [cause(rank, "data.slow_loader" if rank % 2 else "compute.slow") for rank in range(8, 16)]
    assert all(one.scope.startswith("rank:") for one in join_ranks(view(), mixed))


def test_a_later_rule_adds_evidence_to_the_cause_of_the_same_suspects() -> None:
    first, other = cause(3), cause(20)
    again = replace(cause(3, "compute.memory"), findings=("f-kernel",), onset_step=7)
    kept = one_per_suspect([first, other, again])
    assert scopes(kept) == [("rank:3", (3,)), ("rank:20", (20,))]
    assert kept[0].fault_class == "compute.slow" and kept[0].findings == ("f-3", "f-kernel")
    assert kept[0].onset_step == 7


def test_every_pair_is_of_two_known_causes_and_says_what_either_shows() -> None:
    for pair, known in _pairs().items():
        assert len(pair) == 2 and pair <= set(cause_classes()) and set(known.shows) == pair
        assert all(known.shows.values())


@pytest.mark.parametrize("fault_class", [name for name in cause_classes() if name != "unknown"])
def test_every_cause_has_a_command_that_can_be_pasted(fault_class: str) -> None:
    seconds = [None, *cause_classes()[fault_class].near_miss]
    for second in seconds:
        told = with_separation(replace(cause(3, fault_class), second_best=second), view())
        if not cause_classes()[fault_class].near_miss:
            continue
        assert told.second_best not in (None, fault_class) and told.separation is not None
        assert told.separation.command and told.separation.first_if and told.separation.second_if
        assert "{" not in told.separation.command.replace("awk '{", "")
        assert not re.match(r"(?!Python)[A-Z][a-z]* ", told.separation.second_if)


def test_commands_of_ours_parse_with_the_names_of_the_run() -> None:
    for pair in _pairs():
        best, second = sorted(pair)
        told = with_separation(replace(cause(11, best), second_best=second), view()).separation
        assert told is not None
        parts = shlex.split(told.command)
        if parts[0] == "argus":
            assert build_parser(parts[1], load(parts[1])).parse_args(parts[2:])
            assert "h-1" in parts or "my run" in parts


def test_a_command_names_the_run_whatever_its_name_holds() -> None:
    name = "a  run {hosts} 'x'"
    some = replace(cause(11), second_best="data.slow_loader")
    told = with_separation(some, replace(view(), run=name)).separation
    assert told is not None
    assert shlex.split(told.command)[3:6] == [name, "--rank", "11"]


def test_the_order_of_suspects_does_not_matter() -> None:
    some = [cause(rank) for rank in (*range(8, 15), 30)]
    assert sorted(scopes(join_ranks(view(), some))) == sorted(scopes(join_ranks(view(), some[::-1])))
