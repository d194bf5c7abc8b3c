"""The pool lends a bounded number of zeroed buffers."""

from __future__ import annotations

import ctypes

from argus.collectors.rank.cupti.pool import Pool


def test_a_buffer_goes_round_zeroed_and_aligned() -> None:
    pool = Pool(num_buffers=1, num_bytes=64)
    address = pool.lend()
    assert address % 8 == 0
    ctypes.memset(address, 255, 64)
    pool.give_back(address, 40)
    taken = pool.take()
    assert taken is not None and len(taken) == 40 and (taken == 255).all()
    pool.recycle(taken)
    assert pool.lend() == address
    assert ctypes.string_at(address, 40) == bytes(40)


def test_an_empty_pool_declines_and_counts() -> None:
    pool = Pool(num_buffers=2, num_bytes=64)
    assert all(pool.lend() for _ in range(2))
    assert [pool.lend(), pool.lend()] == [0, 0]
    assert (pool.num_declined, pool.num_free) == (2, 0)


def test_nothing_full_is_nothing() -> None:
    assert Pool(num_buffers=1, num_bytes=64).take() is None


def test_a_size_beyond_the_buffer_is_cut() -> None:
    pool = Pool(num_buffers=1, num_bytes=64)
    pool.give_back(pool.lend(), 1 << 40)
    taken = pool.take()
    assert taken is not None and len(taken) == 64
