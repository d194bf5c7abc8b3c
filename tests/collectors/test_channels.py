"""The disturbed steps: the same on every rank, apart from each other, all channels in turn."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from argus.collectors.rank.channels import Channels
from argus.collectors.records.channels import (
    ALL,
    BLOCK_STEPS,
    CHANNELS,
    SHADOWED,
    block_of,
    is_profiled,
    off_at,
    shadowed,
)
from argus.collectors.records.events import FLAG_PROFILED, FLAG_SHADOW


@given(st.text(min_size=1, max_size=40), st.integers(1, 1 << 40))
def test_disturbed_steps_lie_in_their_block_with_free_neighbours(run: str, index: int) -> None:
    block = block_of(run, index * BLOCK_STEPS)
    assert block is not None
    steps = sorted((block.all_off, block.one_off, block.profiled))
    assert steps[0] - 1 >= index * BLOCK_STEPS and steps[2] + 1 < (index + 1) * BLOCK_STEPS
    assert steps[1] - steps[0] > 2 and steps[2] - steps[1] > 2
    assert block.channel in SHADOWED
    assert block_of(run, steps[2]) == block


def test_another_process_draws_the_same_steps() -> None:
    code = (
        "from argus.collectors.records.channels import shadowed\n"
        "print([(s, shadowed('r', s)) for s in range(400) if shadowed('r', s)])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == str([(s, shadowed("r", s)) for s in range(400) if shadowed("r", s)])


def test_every_channel_has_its_turn_and_one_step_in_fifty_is_profiled() -> None:
    turns = Counter(shadowed("run", step) for step in range(BLOCK_STEPS, 101 * BLOCK_STEPS))
    assert turns[ALL] == 100
    assert all(turns[channel] > 25 for channel in SHADOWED)
    assert sum(is_profiled("run", step) for step in range(101 * BLOCK_STEPS)) == 100
    places = {step % BLOCK_STEPS for step in range(5000) if shadowed("run", step) == ALL}
    assert len(places) > 20


def test_a_job_without_a_name_and_the_first_steps_are_left_alone() -> None:
    assert not any(shadowed("", step) or is_profiled("", step) for step in range(500))
    assert not any(shadowed("run", step) or is_profiled("run", step) for step in range(BLOCK_STEPS))


def test_a_ranks_switches_follow_the_plan() -> None:
    channels = Channels("run")
    for step in range(500):
        flags = channels.begin(step)
        channel = shadowed("run", step)
        assert flags == (FLAG_SHADOW if channel else FLAG_PROFILED if is_profiled("run", step) else 0)
        assert channels.phases == (channel not in (ALL, "phases"))
        assert channels.collectives == (channel not in (ALL, "collectives"))
        assert channels.is_shadow == (channel == ALL)
        assert channels.is_profiled == is_profiled("run", step)


def test_a_level_holds_from_its_step_on_and_is_told_once() -> None:
    channels = Channels("run")
    said: list[int] = []
    channels.on_level(said.append)
    before_collectives = CHANNELS.index("collectives")
    channels.want(before_collectives, from_step=7)
    states = []
    for step in range(10):
        channels.begin(step)
        channels.want(before_collectives, from_step=7)  # the processor repeats itself
        states.append((channels.phases, channels.collectives))
    assert states == [(True, True)] * 7 + [(False, True)] * 3
    assert said == [before_collectives]
    channels.want(99, from_step=0)
    channels.begin(10)
    assert channels.level == len(CHANNELS) and not channels.collectives
    assert off_at(-1) == () and off_at(2) == CHANNELS[:2]


def test_a_run_switched_off_keeps_its_level_for_later() -> None:
    channels = Channels("run")
    channels.want(1, from_step=0)
    levels = []
    for step in range(6):
        channels.is_off = 2 <= step < 4
        channels.begin(step)
        levels.append(channels.level)
    assert levels == [1, 1, len(CHANNELS), len(CHANNELS), 1, 1]
