"""The layout record says of a pipeline what no process group says."""

from __future__ import annotations

import pytest

from argus.collectors.rank import layout
from argus.collectors.rank.identity import Place
from argus.collectors.rank.layout import LayoutWatch
from argus.collectors.records.layout import GroupInfo
from argus.topology.layout import build


def test_a_pipeline_over_all_ranks_joins_the_groups_once_it_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    world = GroupInfo(name="0", desc="default_pg", ranks=(0, 1, 2))
    groups: list[GroupInfo] = []
    monkeypatch.setattr(layout, "process_groups", lambda: tuple(groups))
    pipelines: list[tuple[int, ...]] = [(0, 1, 2)]
    place = Place(rank=1, world_size=3, local_rank=1)
    watch = LayoutWatch(run="r", place=place, env={}, on_change=lambda: None, pipelines=pipelines)
    first = watch()
    assert first is not None and first.groups == ()
    groups.append(world)
    told = watch()
    assert told is not None and [group.ranks for group in told.groups] == [(0, 1, 2), (0, 1, 2)]
    assert {group.kind for group in build([told]).groups} == {"world", "pp"}
    assert watch() is None


def test_a_layout_that_could_not_be_made_is_made_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "process_groups", lambda: ())
    fails = [OSError("no file left")]

    def changed() -> None:
        if fails:
            raise fails.pop()

    place = Place(rank=0, world_size=1, local_rank=0)
    watch = LayoutWatch(run="r", place=place, env={}, on_change=changed)
    with pytest.raises(OSError, match="no file left"):
        watch()
    told = watch()
    assert told is not None and told.rank == 0
    assert watch() is None
