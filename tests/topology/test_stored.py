"""Stored layouts read back: the same records as one by one, each list of ranks once."""

from __future__ import annotations

import json
import re

import numpy as np

from argus.collectors.records.layout import Layout
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build
from argus.topology.stored import read_layouts


def bodies(job: Job) -> list[str]:
    done = simulate(job, rng=np.random.default_rng(0))
    return [json.dumps(layout.to_json(), separators=(",", ":")) for layout in done.layouts]


def test_records_are_the_same_and_share_their_lists() -> None:
    texts = bodies(Job(ranks=16, tp=2, pp=2, steps=1))
    read = read_layouts(texts)
    assert read == [Layout.from_json(json.loads(text)) for text in texts]
    assert len({id(group.ranks) for layout in read for group in layout.groups}) == len(
        {group.ranks for layout in read for group in layout.groups}
    )
    assert build(read) == build(Layout.from_json(json.loads(text)) for text in texts)


def test_what_looks_like_ranks_inside_a_string_stays_text() -> None:
    strange = 'x"ranks":[1,2]y'
    layout = Layout(run=strange, attempt=0, rank=0, world_size=4, env={"A": strange})
    (read,) = read_layouts([json.dumps(layout.to_json(), separators=(",", ":"))])
    assert read == layout


def test_an_empty_list_and_spaced_json_are_read_too() -> None:
    texts = bodies(Job(ranks=4, steps=1))
    spaced = [json.dumps(json.loads(text)) for text in texts]
    assert read_layouts(spaced) == read_layouts(texts)
    whole = re.sub(r'"ranks":(\{[^}]*\}|\[[^]]*\])', '"ranks":[]', texts[0])
    (read,) = read_layouts([whole])
    assert read.groups[0].ranks == ()
