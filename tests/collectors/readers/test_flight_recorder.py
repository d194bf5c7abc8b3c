"""The flight-recorder reader: plain values only, the rank from the name, counters of every group."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argus.collectors.readers import ReaderError, Reading, flight_recorder, reader_for
from argus.collectors.readers._fake_dump import fake_dump, fake_entry
from argus.collectors.readers._plain_pickle import NotPlain, load_plain
from argus.collectors.records.flight import FlightDump

GROUPS = {"0": ("default_pg", (0, 1, 2, 3)), "7": ("TENSOR_MODEL_PARALLEL_GROUP", (2, 3))}


def dump(**options: Any) -> dict[str, Any]:
    return fake_dump(groups=GROUPS, counts={"0": (12, 12), "7": (31, 29)}, **options)


def read(path: Path) -> tuple[Reading, FlightDump]:
    (reading,) = flight_recorder.read(path)
    assert reading.dump is not None
    return reading, reading.dump


def as_json(raw: object) -> bytes:
    return json.dumps(raw).encode()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5, "json", "gz"])
def test_all_forms_say_the_same(tmp_path: Path, protocol: int | str) -> None:
    raw = dump()
    body = pickle.dumps(raw, protocol) if isinstance(protocol, int) else as_json(raw)
    path = tmp_path / "nccl_trace_rank_3"
    path.write_bytes(gzip.compress(body) if protocol == "gz" else body)
    assert reader_for(body[:65536], path.name) is flight_recorder
    reading, found = read(path)
    assert found.rank == 3
    assert found.groups == {"0": (12, 12), "7": (31, 29)}
    assert [(call.op, call.seq, call.group) for call in found.pending] == [
        ("all_reduce", 30, "7"),
        ("all_reduce", 31, "7"),
    ]
    assert found.pending[0].frames == ("step (train.py:7)",)
    assert found.pending[0].timeout_ns == 180 * 10**9
    layout = reading.records.layout
    assert (layout.rank, layout.world_size, layout.versions["nccl"]) == (3, 4, "2.27.3")


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("_dump_2", 2),
        ("trace-rank-3.json", 3),
        ("fr2.pickle", 2),
        ("nccl_trace_rank_3.json.gz", 3),
        ("nccl_trace_rank_2.gpu-node-3", 2),
        ("rank3_node2.pkl", 3),
        ("nccl_trace_rank_2_20250101", 2),
        ("nccl_trace_rank_container-node02_3", 3),
        ("node_rank_2_local_rank_2_3", 3),
    ],
)
def test_the_rank_is_in_the_name(tmp_path: Path, name: str, rank: int) -> None:
    body = as_json(dump())
    (tmp_path / name).write_bytes(gzip.compress(body) if name.endswith("gz") else body)
    assert read(tmp_path / name)[1].rank == rank


def test_a_name_without_a_rank_is_refused_unless_the_groups_tell(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_bytes(as_json(dump()))
    with pytest.raises(ReaderError, match=r"dump\.json does not say its rank"):
        read(tmp_path / "dump.json")
    (tmp_path / "dump_9.json").write_bytes(as_json(dump()))
    with pytest.raises(ReaderError, match="one of 2"):
        read(tmp_path / "dump_9.json")
    alone = fake_dump(groups={**GROUPS, "9": ("dp", (1, 3))}, counts={"0": (1, 0)})
    (tmp_path / "dump.json").write_bytes(as_json(alone))
    assert read(tmp_path / "dump.json")[1].rank == 3


def test_without_status_the_entries_tell(tmp_path: Path) -> None:
    raw = dump(has_status=False)
    raw["entries"].insert(0, fake_entry("7", GROUPS["7"][0], 1, seq=29, state="completed"))
    (tmp_path / "r2").write_bytes(as_json(raw))
    assert read(tmp_path / "r2")[1].groups == {"0": None, "7": (31, 29)}


def test_sends_name_their_other_end_by_global_rank(tmp_path: Path) -> None:
    send = fake_entry("7", GROUPS["7"][0], op="send 1->0", seq=5, is_p2p=True)
    (tmp_path / "r3").write_bytes(as_json(dump(extra=[send])))
    found = read(tmp_path / "r3")[1]
    assert (found.pending[-1].peer, found.pending[-1].is_send) == (2, True)
    assert found.p2p_groups == {"7"}


class Evil:
    """What a hostile pickle would like to run."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch /tmp/argus-was-here",)


def hostile() -> dict[str, bytes]:
    """Pickles that must not be loaded."""
    marked = b"\x80\x04}(\x8c\x09pg_config"
    return {
        "calls": pickle.dumps({"pg_config": Evil()}),
        "class": pickle.dumps({"pg_config": Path("x")}),
        "protocol 0": pickle.dumps(Evil(), 0),
        "persistent": b"\x80\x04\x8c\x01xQ.",
        "extension": b"\x80\x02\x82\x01.",
        "global": b"\x80\x02cos\nsystem\n.",
        "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        "instance": b"\x80\x02(ios\nsystem\n.",
        "far memo": b"\x80\x02}r\xff\xff\xff\x7f.",
        "far memo in text": b"\x80\x02}p99999999999\n.",
        "build": b"\x80\x02]}b.",
        "unhashable": b"\x80\x02}]K\x01s.",
        "empty stack": b"\x80\x02.",
        "cut": marked,
        "empty": b"",
    }


@pytest.mark.parametrize("name", list(hostile()))
def test_a_hostile_pickle_is_refused_before_it_runs(name: str, tmp_path: Path) -> None:
    body = hostile()[name]
    with pytest.raises(NotPlain):
        load_plain(body)
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(body)
    with pytest.raises(ReaderError, match="nccl_trace_rank_0"):
        read(path)
    assert not Path("/tmp/argus-was-here").exists()


def test_random_damage_is_one_sentence(tmp_path: Path) -> None:
    bodies = [pickle.dumps(dump(), 4), as_json(dump())]
    rng = np.random.default_rng(5)
    path = tmp_path / "rank_2"
    for turn in range(300):
        bad = bytearray(bodies[turn % 2])
        for place in rng.integers(0, len(bad), 4).tolist():
            bad[place] = int(rng.integers(256))
        path.write_bytes(bytes(bad[: int(rng.integers(1, len(bad)))] if turn % 3 == 0 else bad))
        try:
            read(path)
        except ReaderError as error:
            assert "rank_2" in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    "odd",
    [
        {"pg_config": {}},
        {"pg_config": {"0": 3}},
        {"pg_config": {"0": {"ranks": "__import__('os')"}}},
        {"pg_config": {"0": {"ranks": [-1]}}},
        {"version": "3.0"},
        {"pg_config": None},
    ],
)
def test_a_dump_without_groups_is_refused(odd: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "r0.json").write_bytes(as_json(dump() | odd))
    with pytest.raises(ReaderError, match=r"r0\.json"):
        read(tmp_path / "r0.json")


@pytest.mark.parametrize(
    "entries",
    [None, 3, [None, 3, "x"], [{}], [{"process_group": 3}], [{"process_group": ["7"], "profiling_name": 3}]],
)
def test_odd_entries_count_for_nothing(entries: object, tmp_path: Path) -> None:
    (tmp_path / "r2.json").write_bytes(as_json(dump() | {"entries": entries, "pg_status": {"x": 1}}))
    assert read(tmp_path / "r2.json")[1].rank == 2


def test_the_pickles_of_a_real_recorder_use_plain_opcodes_only() -> None:
    shared = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "flight-recorder"
    if not shared.exists():
        pytest.skip("the public dumps are not here")
    for path in sorted(shared.glob("*/_dump_*")):
        assert any(op.name == "BINUNICODE" for op, _, _ in pickletools.genops(path.read_bytes()))
        assert isinstance(load_plain(path.read_bytes()), dict)


def test_a_trace_that_names_its_process_groups_is_no_dump() -> None:
    head = b'{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "pg_config": [{"pg_name": "0"}]}}'
    assert not flight_recorder.sniff(head, "rank-3.pt.trace.json")


def of_gloo(counts: dict[str, tuple[int, int]], **options: Any) -> dict[str, Any]:
    """A dump as gloo's recorder leaves it: its one group has no name, its calls name others."""
    raw = fake_dump(groups=GROUPS, counts=counts, **options)
    return raw | {"pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}}}


def test_groups_that_are_not_listed_are_those_of_the_calls(tmp_path: Path) -> None:
    (tmp_path / "rank_2").write_bytes(pickle.dumps(of_gloo({"0": (9, 8), "7": (4, 3)}), 2))
    reading, found = read(tmp_path / "rank_2")
    assert found.groups == {"0": (9, 8), "7": (4, 3)} and found.undescribed == {"0", "7"}
    assert [(call.group, call.seq) for call in found.pending] == [("0", 9), ("7", 4)]
    groups = {group.name: group.ranks for group in reading.records.layout.groups}
    assert groups == {"0": (0, 1, 2), "7": (2,)} and not reading.are_members_known
    (warning,) = reading.warnings
    assert warning.startswith("rank_2: the members of its process groups are not listed")


def test_the_other_end_of_a_send_is_known_where_the_group_holds_everybody(tmp_path: Path) -> None:
    ends = [fake_entry(n, GROUPS[n][0], op="send 1->0", seq=5, is_p2p=True) for n in ("0", "7")]
    (tmp_path / "r1").write_bytes(as_json(of_gloo({}, extra=ends, has_status=False)))
    assert [(call.group, call.peer) for call in read(tmp_path / "r1")[1].pending] == [("0", 0), ("7", -1)]


def test_a_dump_without_members_and_without_a_rank_is_refused(tmp_path: Path) -> None:
    for name in ("dump.json", "dump_9999999.json"):
        (tmp_path / name).write_bytes(as_json(of_gloo({"0": (9, 8)})))
        with pytest.raises(ReaderError, match="does not say its rank"):
            read(tmp_path / name)
