"""The bounded ring."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from argus.collectors.rank import ring as module
from argus.collectors.rank.ring import Ring
from argus.collectors.records.events import KERNEL


def test_the_newest_is_dropped_and_counted() -> None:
    ring = Ring(capacity=3)
    for number in range(5):
        ring.put("events", (number,))
    assert ring.take("events") == [(0,), (1,), (2,)]
    assert ring.dropped() == {"ring_full": 2}
    assert ring.take("events") == []


def test_a_ring_says_when_half_of_its_room_is_taken() -> None:
    ring = Ring(capacity=4)
    ring.put("events", (0,))
    assert not ring.is_filling
    ring.put("events", (1,))
    assert ring.is_filling
    ring.take("events")
    assert not ring.is_filling
    ring.put_block("kernels", np.zeros(module.BLOCK_CAPACITY // 2 - 1, KERNEL))
    assert not ring.is_filling
    ring.put_block("kernels", np.zeros(1, KERNEL))
    assert ring.is_filling


def test_names_are_one_table_from_the_empty_string() -> None:
    ring = Ring()
    assert [ring.intern(text) for text in ("", "a", "b", "a")] == [0, 1, 2, 1]
    assert ring.names == ["", "a", "b"]


def test_generated_names_end_in_the_empty_string_and_are_counted() -> None:
    ring = Ring()
    indices = [ring.intern(f"n{number}") for number in range(module.MAX_NAMES + 10)]
    assert len(ring.names) == module.MAX_NAMES
    assert indices[-1] == 0
    assert ring.dropped() == {"names_full": 11}
    assert len(ring.names[ring.intern("x" * 5000)]) <= module.MAX_NAME


def test_threads_lose_nothing() -> None:
    ring = Ring(capacity=1 << 20)

    def put_many() -> None:
        for number in range(2000):
            ring.put("events", (ring.intern(f"k{number % 50}"),))

    threads = [threading.Thread(target=put_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    taken = 0
    while any(thread.is_alive() for thread in threads):
        taken += len(ring.take("events"))
    for thread in threads:
        thread.join()
    assert taken + len(ring.take("events")) == 8000
    assert len(ring.names) == 51


class Interrupted(list[str]):
    """Names into which something else is written first: as by a collection that runs here."""

    def __init__(self, names: list[str], ring: Ring) -> None:
        super().__init__(names)
        self.ring: Ring | None = ring

    def append(self, name: str) -> None:
        ring, self.ring = self.ring, None
        super().append(name)
        if ring is not None:
            assert self[ring.intern("gc")] == "gc"


class Counting(dict[str, int]):
    """Drop counts that are read while a drop is counted."""

    ring: Ring | None = None

    def get(self, key: str, default: Any = None) -> Any:
        ring, self.ring = self.ring, None
        if ring is not None:
            ring.drop("inner", 2)
            assert "inner" not in ring.dropped()
        return super().get(key, default)


def test_what_interrupts_a_thread_inside_the_ring_may_use_it() -> None:
    ring = Ring()
    ring.names = Interrupted(ring.names, ring)
    index = ring.intern("forward")
    assert (ring.names[index], ring.intern("forward")) == ("forward", index)
    assert ring.names[ring.intern("gc")] == "gc" and sorted(ring.names) == ["", "forward", "gc"]
    counts = ring._dropped = Counting()
    counts.ring = ring
    ring.drop("outer", 1)
    assert ring.dropped() == {"outer": 1, "inner": 2}


def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    ring, held = Ring(), threading.Event()

    def hold() -> None:
        with ring._lock:
            held.set()
            done.wait()

    done = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    ring.renew_lock()
    ring.drop("ring_full", 1)
    assert ring.dropped() == {"ring_full": 1} and ring.intern("forward") == 1
    done.set()
    thread.join()
