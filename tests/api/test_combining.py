"""Work of several callers done at once: everybody gets the own answer, an error stays with its item."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from argus.api.combining import Combiner, Gathering
from argus.api.http.intake import SMALL, Gate
from argus.api.http.limits import Queue


class Slow:
    """Work that holds the first caller until the others wait behind it."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.begun.set()
        assert self.go.wait(30)
        self.batches.append(list(numbers))
        if 13 in numbers:
            raise ValueError("thirteen")
        return [number * 2 for number in numbers]


def run(work: Slow, numbers: Sequence[int]) -> list[int | str]:
    combine = Combiner(work)

    def ask(number: int) -> int | str:
        try:
            return combine(number)
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(len(numbers)) as pool:
        first = pool.submit(ask, numbers[0])
        assert work.begun.wait(30)
        rest = [pool.submit(ask, number) for number in numbers[1:]]
        while len(combine._waiting) < len(rest):
            threading.Event().wait(0.001)
        work.go.set()
        return [future.result() for future in (first, *rest)]


def test_those_who_wait_share_one_piece_of_work() -> None:
    work = Slow()
    assert run(work, range(20, 40)) == [2 * number for number in range(20, 40)]
    assert len(work.batches) == 2 and sorted(work.batches[1]) == list(range(21, 40))


def test_enough_who_wait_end_a_pause() -> None:
    batches: list[int] = []

    def work(numbers: Sequence[int]) -> Sequence[int]:
        batches.append(len(numbers))
        return numbers

    combine = Combiner(work, pause_s=3600.0, enough=5)
    assert combine(0) == 0  # alone, it does not wait
    with ThreadPoolExecutor(5) as pool:
        assert sorted(pool.map(combine, range(5))) == list(range(5))
    assert batches == [1, 5]


def test_an_error_stays_with_the_item_that_made_it() -> None:
    assert run(Slow(), [0, 1, 13, 3]) == [0, 2, "thirteen", 6]


def test_it_goes_on_after_an_error() -> None:
    work = Slow()
    work.go.set()
    combine = Combiner(work)
    with pytest.raises(ValueError, match="thirteen"):
        combine(13)
    assert combine(2) == 4


def test_callers_on_the_event_loop_share_the_work_too() -> None:
    batches: list[list[int]] = []

    def work(numbers: Sequence[int]) -> list[int | Exception]:
        batches.append(list(numbers))
        return [ValueError("thirteen") if number == 13 else number * 2 for number in numbers]

    async def ask() -> list[int | BaseException]:
        gather = Gathering(work)
        return await asyncio.gather(*(gather(number) for number in range(20)), return_exceptions=True)

    answers = asyncio.run(ask())
    assert [answer for answer in answers if isinstance(answer, int)] == [
        2 * number for number in range(20) if number != 13
    ]
    assert str(answers[13]) == "thirteen" and len(batches) <= 2


def test_an_error_of_all_is_everybodys() -> None:
    def work(_numbers: Sequence[int]) -> list[int | Exception]:
        raise OSError("no disk")

    async def ask() -> list[int | BaseException]:
        gather = Gathering(work)
        first = await asyncio.gather(*(gather(number) for number in range(3)), return_exceptions=True)
        return [*first, *await asyncio.gather(gather(4), return_exceptions=True)]

    assert [str(answer) for answer in asyncio.run(ask())] == ["no disk"] * 4


def test_small_requests_wait_a_moment_for_one_another() -> None:
    batches: list[list[int]] = []

    def work(numbers: Sequence[int]) -> list[int | Exception]:
        batches.append(list(numbers))
        return list(numbers)

    async def ask() -> None:
        gather = Gathering(work, pause_s=1.0)
        await gather(0)
        assert batches == [[0]], "who comes alone does not wait"
        asked = []
        for number in range(1, 6):
            asked.append(asyncio.create_task(gather(number)))
            await asyncio.sleep(0.005)
        assert await asyncio.gather(*asked) == [1, 2, 3, 4, 5]

    asyncio.run(ask())
    assert batches == [[0], [1, 2, 3, 4, 5]]


def test_uploads_wait_a_moment_for_one_another() -> None:
    work = Slow()
    work.go.set()
    combine = Combiner(work, pause_s=1.0)
    assert combine(0) == 0 and work.batches == [[0]], "who comes alone does not wait"
    with ThreadPoolExecutor(5) as pool:
        assert sorted(pool.map(combine, range(1, 6))) == [2, 4, 6, 8, 10]
    assert [sorted(batch) for batch in work.batches] == [[0], [1, 2, 3, 4, 5]]


def test_signs_of_life_have_places_of_their_own() -> None:
    gate = Gate(room=2, max_bytes=1 << 20, replay=Queue(per_s=1.0, ticks=lambda: 0.0))
    assert gate.enter(is_small=False) and gate.enter(is_small=False) and not gate.enter(is_small=False)
    assert "2 requests" in gate.crowd(is_small=False)
    places = 0
    while gate.enter(is_small=True):
        places += 1
    assert places == 2 * SMALL and f"{places} requests" in gate.crowd(is_small=True)
    gate.leave(is_small=True)
    assert gate.enter(is_small=True) and gate.crowd(is_small=False)
