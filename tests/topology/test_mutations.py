"""Structured files with one value replaced by something else: facts or one sentence, nothing worse."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from argus.topology.export import fleet_to_json
from argus.topology.facts import LoaderError
from argus.topology.fleet import build_fleet
from argus.topology.loaders import loaders
from tests.topology import samples
from tests.topology.causes import cached_fleet
from tests.topology.fleets import Shape

ODD: tuple[object, ...] = (None, True, -1, 10**30, 0.5, "", "x", "-3", [], {}, [None], {"a": 1}, [[1]], "0.0")
NAMES = ("nodes.json", "pods.json", "rank-1.pt.trace.json", "nccl_trace_rank_3", "saved.json", "layout.json")
TURNS = 250


def document(name: str) -> tuple[str, Any]:
    if name == "saved.json":
        return "saved", fleet_to_json(cached_fleet(Shape(world=16, tp=2, pp=1, ep=2)))
    if name == "layout.json":
        return "layouts", [json.loads(line) for line in samples.RECORDS.splitlines()]
    loader, text = samples.SAMPLES[name]
    return loader, json.loads(text)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with the key of each of its values."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_replaced_value_never_escapes(name: str) -> None:
    loader_name, sound = document(name)
    loader = loaders()[loader_name]
    rng = random.Random(name)
    for _ in range(TURNS):
        broken = copy.deepcopy(sound)
        for _ in range(rng.randint(1, 3)):
            found = list(places(broken))
            holder, key = rng.choice(found) if found else (None, None)
            if holder is not None:
                holder[key] = copy.deepcopy(rng.choice(ODD))
        try:
            facts = loader.load(json.dumps(broken).encode(), origin=name, host="")
        except LoaderError as error:
            assert str(error).startswith(name) and "\n" not in str(error)
            continue
        assert facts.origin == name and all(text.startswith(name) for text in facts.warnings)
        try:
            fleet = build_fleet([facts])
        except ValueError as error:
            assert "nothing is known" in str(error)
        else:
            assert fleet.ranks_of("rank:0") == (0,)
