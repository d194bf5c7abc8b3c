"""Matching of flight-recorder dumps: who is behind, over groups, pairs and missing dumps."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from argus.api.cli import main
from argus.api.offline.files import triage_files
from argus.api.report import Report
from argus.collectors.readers._fake_dump import fake_dump, fake_entry

WORLD = 8
TP = {"1": (0, 1, 2, 3), "2": (4, 5, 6, 7)}
DP = {"3": (0, 4), "4": (1, 5), "5": (2, 6), "6": (3, 7)}
ALL = tuple(range(WORLD))


def groups_of(rank: int) -> dict[str, tuple[str, Sequence[int]]]:
    mine: dict[str, tuple[str, Sequence[int]]] = {"0": ("default_pg", ALL)}
    mine |= {n: ("TENSOR_MODEL_PARALLEL_GROUP", r) for n, r in TP.items() if rank in r}
    return mine | {n: ("DATA_PARALLEL_GROUP", r) for n, r in DP.items() if rank in r}


def counts_of(rank: int, *, late: Mapping[int, bool]) -> dict[str, tuple[int, int]]:
    """Everybody stands in the tensor group's call 90 but for those late, who never entered it, or, if their
    device died, entered and did not end one before; a tensor group without any waits in the data group."""
    (tensor,) = [n for n, r in TP.items() if rank in r]
    (data,) = [n for n, r in DP.items() if rank in r]
    if rank in late:
        return {"0": (3, 3), tensor: (89, 88 if late[rank] else 89), data: (9, 9)}
    is_stuck = any(other in late for other in TP[tensor])
    return {"0": (3, 3), tensor: (90, 89 if is_stuck else 90), data: (9, 9) if is_stuck else (10, 9)}


def write(folder: Path, late: Mapping[int, bool], *, absent: Sequence[int] = (), **options: Any) -> Path:
    for rank in ALL:
        if rank not in absent:
            raw = fake_dump(groups=groups_of(rank), counts=counts_of(rank, late=late), **options)
            (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(raw, 2))
    return folder


def triage(folder: Path) -> Report:
    report = triage_files([folder], now_s=0.0)
    assert isinstance(report, Report)
    return report


def suspects(report: Report) -> tuple[int, ...]:
    assert report.incident is not None
    assert report.incident.cause.fault_class == "stop.hang"
    return report.incident.cause.suspects


@pytest.mark.parametrize("late", [{2: False}, {5: True}, {1: False, 6: True}, {0: False, 3: False}])
@pytest.mark.parametrize("has_status", [True, False])
def test_ranks_that_keep_their_groups_waiting_are_behind(
    tmp_path: Path, late: dict[int, bool], has_status: bool
) -> None:
    report = triage(write(tmp_path, late, has_status=has_status))
    assert suspects(report) == tuple(sorted(late))
    (finding,) = report.findings
    assert (finding.level, finding.kind, finding.role, finding.ranks) == (
        "L1",
        "stop",
        "culprit",
        tuple(sorted(late)),
    )


@pytest.mark.parametrize("timeout_ms", [10_000, None])
def test_a_short_or_unknown_timeout_is_a_stop_all_the_same(tmp_path: Path, timeout_ms: int | None) -> None:
    assert suspects(triage(write(tmp_path, {2: False}, timeout_ms=timeout_ms))) == (2,)


def test_a_missing_dump_is_not_an_empty_one(tmp_path: Path) -> None:
    report = triage(write(tmp_path, {2: False}, absent=[2]))
    assert suspects(report) == ()
    assert report.diagnosis["verdict"] == "INCONCLUSIVE"
    assert any("no dump of 1 rank of 8 (2)" in text for text in report.diagnosis["missing_evidence"])


def test_one_missing_dump_does_not_hide_another_rank(tmp_path: Path) -> None:
    report = triage(write(tmp_path, {2: False, 5: True}, absent=[2]))
    assert suspects(report) == (5,)


def test_a_rank_with_nothing_pending_while_its_pair_is_pending_is_behind(tmp_path: Path) -> None:
    """Counters of a group with sends differ by right; the pair's pending calls decide."""
    for rank, count in ((0, 40), (1, 77), (2, 41), (3, 12)):
        groups = {"0": ("default_pg", (0, 1, 2, 3))}
        extra = []
        if rank in (0, 1):  # 0 waits for 1, 1 for 2, 2 for 3, who does nothing
            extra = [fake_entry("0", "default_pg", op=f"recv {rank}<-{rank + 1}", seq=9, is_p2p=True)]
        if rank == 2:
            extra = [fake_entry("0", "default_pg", op="recv 2<-3", seq=5, is_p2p=True)]
        raw = fake_dump(groups=groups, counts={"0": (count, count)}, extra=extra)
        (tmp_path / f"dump_{rank}.json").write_text(json.dumps(raw))
    assert suspects(triage(tmp_path)) == (3,)


def test_calls_that_do_not_match_are_told(tmp_path: Path) -> None:
    for rank in (0, 1):
        ops = {"0": "all_gather" if rank else "all_reduce"}
        raw = fake_dump(groups={"0": ("default_pg", (0, 1))}, counts={"0": (5, 4)}, ops=ops)
        (tmp_path / f"dump_{rank}.json").write_text(json.dumps(raw))
    report = triage(tmp_path)
    assert any("call 5 of world/0 differs" in text for text in report.warnings)
    assert suspects(report) == () and report.incident is not None
    assert report.incident.cause.evidence[0].name == "call_differs"


def test_dumps_without_a_pending_call_prove_nothing(tmp_path: Path) -> None:
    for rank in (0, 1):
        raw = fake_dump(groups={"0": ("default_pg", (0, 1))}, counts={"0": (5, 5)})
        (tmp_path / f"dump_{rank}.json").write_text(json.dumps(raw))
    report = triage(tmp_path)
    assert report.incidents == ()
    assert report.diagnosis["verdict"] == "INCONCLUSIVE"


def test_stacks_are_merged_with_the_ranks_behind_first(tmp_path: Path) -> None:
    report = triage(write(tmp_path, {2: False}))
    first, *rest = report.stacks
    assert (first.what, first.ranks) == ("missing, nothing pending", (2,))
    assert {rank for stack in rest for rank in stack.ranks} == {0, 1, 3, 4, 5, 6, 7}
    assert rest[0].frames == ("step (train.py:7)",)


def test_the_command_says_it_in_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {2: False})
    assert main(["triage", str(tmp_path), "--fail-on-fault"]) == 3
    assert "rank 2: missing, nothing pending" in capsys.readouterr().out
    assert main(["triage", str(tmp_path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["incidents"][0]["suspects"] == [2] and said["stacks"][0]["ranks"] == [2]


GLOO = {"": {"name": "", "desc": "", "ranks": "[]"}}
PAIRS = {"1": (0, 1), "2": (2, 3)}


def write_gloo(folder: Path, counts: Mapping[int, Mapping[str, tuple[int, int]]]) -> Path:
    """Dumps that list no members; `counts` by rank name the default group and the rank's pair."""
    for rank, own in counts.items():
        groups: dict[str, tuple[str, Sequence[int]]] = {"0": ("default_pg", ())}
        groups |= {name: ("undefined", ()) for name, pair in PAIRS.items() if rank in pair}
        ended = [
            fake_entry(name, groups[name][0], seq=done, state="completed") for name, (_, done) in own.items()
        ]
        raw = fake_dump(groups=groups, counts=own, extra=ended) | {"pg_config": GLOO}
        (folder / f"gloo_rank_{rank}").write_bytes(pickle.dumps(raw, 2))
    return folder


def test_groups_that_no_dump_lists_are_matched_by_name(tmp_path: Path) -> None:
    stuck, here = {"0": (9, 8), "1": (8, 8)}, {"0": (9, 8), "2": (8, 8)}
    write_gloo(tmp_path, {0: stuck, 1: stuck, 2: {"0": (8, 8), "2": (8, 8)}, 3: here})
    report = triage(tmp_path)
    assert suspects(report) == (2,)
    assert any("not listed" in text for text in report.warnings)


def test_who_waits_in_a_pair_is_not_behind_the_others(tmp_path: Path) -> None:
    """Rank 2 waits for rank 3 in their pair, and so never came to the call the others wait in."""
    stuck = {"0": (9, 8), "1": (8, 8)}
    counts = {0: stuck, 1: stuck, 2: {"0": (8, 8), "2": (9, 8)}, 3: {"0": (8, 8), "2": (8, 8)}}
    (tmp_path / "all").mkdir()
    assert suspects(triage(write_gloo(tmp_path / "all", counts))) == (3,)
    (tmp_path / "few").mkdir()
    del counts[3]
    assert suspects(triage(write_gloo(tmp_path / "few", counts))) == ()


@pytest.mark.parametrize("absent", [[], [0]])
def test_a_dump_that_lists_no_groups_is_not_mixed_with_those_that_do(
    tmp_path: Path, absent: list[int]
) -> None:
    write_gloo(tmp_path, {0: {"0": (2, 1), "1": (1, 1)}})
    report = triage(write(tmp_path, {5: False}, absent=absent))
    assert suspects(report) == (5,)
    assert sum("gloo_rank_0" in text and "left out" in text for text in report.warnings) == 1


def write_four(folder: Path, **odd: Any) -> Report:
    """Four ranks in call 5 of their group; `odd` are fields of rank 3's entry, its `common` those of every entry."""
    common = odd.pop("common", {})
    for rank in range(4):
        raw = fake_dump(groups={"0": ("default_pg", range(4))}, counts={"0": (5, 4)})
        raw["entries"] = [{**entry, **common, **(odd if rank == 3 else {})} for entry in raw["entries"]]
        (folder / f"dump_{rank}.json").write_text(json.dumps(raw))
    return triage(folder)


@pytest.mark.parametrize(
    ("odd", "name"),
    [
        ({"profiling_name": "nccl:broadcast"}, "call_differs"),
        ({"input_sizes": [[17]]}, "call_differs"),
        ({"input_dtypes": ["Float"]}, "call_differs"),
        ({"common": {"state": "started"}, "state": "scheduled"}, "call_not_started"),
    ],
)
def test_who_makes_another_call_or_has_not_begun_it_is_waited_for(
    tmp_path: Path, odd: dict[str, Any], name: str
) -> None:
    report = write_four(tmp_path, **odd)
    assert suspects(report) == (3,) and report.findings[0].ranks == (3,)
    assert report.incident is not None and report.diagnosis["verdict"] == "LIKELY"
    assert report.incident.cause.evidence[0].name == name
    assert "rank 3" in report.diagnosis["headline"] and report.stacks[0].ranks == (3,)
    assert not report.stacks[0].what.startswith("missing")


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"input_sizes": [[4, 4]]},
        {"common": {"profiling_name": "nccl:all_gather"}, "input_sizes": [[17]]},
        {"common": {"state": "scheduled"}},
        {"common": {"state": "scheduled"}, "state": "started"},
    ],
)
def test_calls_that_may_go_together_accuse_nobody(tmp_path: Path, odd: dict[str, Any]) -> None:
    report = write_four(tmp_path, **odd)
    assert suspects(report) == () and report.diagnosis["verdict"] == "INCONCLUSIVE"
    assert not any("call 5" in text for text in report.warnings)


def test_calls_after_the_one_that_differs_do_not_count(tmp_path: Path) -> None:
    for rank in range(4):
        counts = {"0": (5 + 3 * (rank == 3), 4)}
        raw = fake_dump(
            groups={"0": ("default_pg", range(4))}, counts=counts, ops={"0": "broadcast"} if rank == 3 else {}
        )
        (tmp_path / f"dump_{rank}.json").write_text(json.dumps(raw))
    assert suspects(triage(tmp_path)) == (3,)


def test_a_call_that_is_held_up_by_an_earlier_one_is_not_blamed(tmp_path: Path) -> None:
    """Rank 2 stands in its pair, whose other end never came: its call of all ranks cannot begin."""
    pair = {"1": ("dp", (2, 3))}
    for rank in range(4):
        groups: dict[str, tuple[str, Sequence[int]]] = {"0": ("default_pg", range(4))}
        counts = {"0": (5, 4)}
        if rank >= 2:
            groups |= pair
            counts = {"1": (8, 7), "0": (5, 4)} if rank == 2 else {"1": (7, 7), "0": (4, 4)}
        raw = fake_dump(groups=groups, counts=counts)
        for entry in raw["entries"]:
            held = rank == 2 and entry["process_group"][0] == "0"
            entry["state"] = "scheduled" if held else "started"
        (tmp_path / f"dump_{rank}.json").write_text(json.dumps(raw))
    assert suspects(triage(tmp_path)) == (3,)


def test_calls_issued_as_one_are_not_compared(tmp_path: Path) -> None:
    """Their parts share a number and are never marked as completed."""
    for rank in range(4):
        parts = [fake_entry("0", "default_pg", op="all_reduce", seq=5)] * (1 + (rank == 3))
        last = fake_entry("0", "default_pg", op="coalesced" if rank == 3 else "all_reduce", seq=5)
        raw = fake_dump(groups={"0": ("default_pg", range(4))}, counts={"0": (5, 4)}, extra=[*parts, last])
        (tmp_path / f"dump_{rank}.json").write_text(json.dumps(raw))
    assert suspects(triage(tmp_path)) == ()


SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "flight-recorder"


@pytest.mark.skipif(not SHARED.exists(), reason="the public dumps are not here")
@pytest.mark.parametrize("name", ["gpu_error_2nd", "lock_gil_1st"])
def test_the_public_dumps_name_the_two_faulty_ranks(name: str) -> None:
    report = triage(SHARED / name)
    assert suspects(report) == (9, 14)
    assert len(report.incidents) == 1
