"""What the tests look at in recorded jobs."""

from __future__ import annotations

import numpy as np

from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.records.events import RankRecords
from tests.collectors.rank import jobs


def observe(job: jobs.Job, receiver: FakeReceiver, *, world: int) -> list[RankRecords]:
    """Records of every rank of a job that ended well, lost nothing and said goodbye."""
    assert jobs.run(job, world=world, path=receiver.path) == [0] * world
    receiver.drain()
    heard = receiver.by_rank()
    assert sorted(heard) == list(range(world))
    assert {rank: (one.said_bye, dict(one.dropped)) for rank, one in heard.items()} == dict.fromkeys(
        range(world), (True, {})
    )
    return [heard[rank].records() for rank in range(world)]


def phases(records: RankRecords, step: int, *, depth: int = 0) -> dict[str, int]:
    """Nanoseconds by phase of one step."""
    rows = records.phases[(records.phases["step"] == step) & (records.phases["depth"] == depth)]
    found: dict[str, int] = {}
    for row in rows:
        name = records.name(int(row["name"]))
        found[name] = found.get(name, 0) + int(row["dur_ns"])
    return found


def ops(records: RankRecords, step: int) -> list[str]:
    """Operations of one step in order of entry."""
    rows = records.collectives[records.collectives["step"] == step]
    return [records.name(int(op)) for op in rows["op"][np.argsort(rows["entry_ns"])]]


def assert_sound(records: RankRecords) -> None:
    """What holds for every job: steps follow each other, phases add up, ends come after entries."""
    steps = records.steps
    assert list(steps["step"]) == list(range(len(steps)))
    assert np.array_equal(steps["start_ns"][1:], steps["end_ns"][:-1])
    for row in steps[1:]:
        total = sum(phases(records, int(row["step"])).values())
        assert total == row["end_ns"] - row["start_ns"]
    assert (records.phases["wait_ns"] <= records.phases["dur_ns"]).all()
    assert (records.phases["wait_ns"] >= 0).all()
    assert (records.collectives["end_ns"] >= records.collectives["entry_ns"]).all()
    assert (records.phases["cpu_ns"] >= 0).all()


def counts(all_records: list[RankRecords]) -> dict[tuple[str, str, int], int]:
    """(group, op, seq) with how many ranks have it: all members, or numbering went wrong."""
    found: dict[tuple[str, str, int], int] = {}
    for records in all_records:
        for row in records.collectives:
            key = (records.name(int(row["group"])), records.name(int(row["op"])), int(row["seq"]))
            found[key] = found.get(key, 0) + 1
    return found
