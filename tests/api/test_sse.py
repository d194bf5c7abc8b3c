"""Streams of what is made while somebody waits: their steps, their end, and the end of the service before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from argus.api.http import sse


def read(work: Callable[[sse.Push], object], *, is_over: Callable[[], bool]) -> list[bytes]:
    async def whole() -> list[bytes]:
        return [part async for part in sse.live(work, is_over=is_over)]  # type: ignore[arg-type]

    return asyncio.run(whole())


def test_steps_come_before_the_answer() -> None:
    async def work(push: sse.Push) -> tuple[str, object]:
        for number in range(3):
            push("step", number)
        return "answer", "42"

    told = read(work, is_over=lambda: False)
    assert [part.split(b"\n")[0] for part in told] == [b"event: step"] * 3 + [b"event: answer"]


def test_a_service_that_ends_breaks_off_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "GLANCE_S", 0.01)
    ended: list[str] = []

    async def work(push: sse.Push) -> tuple[str, object]:
        push("step", 1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("given up")
        return "answer", "never"

    told = read(work, is_over=lambda: True)
    assert told[0].startswith(b"event: step") and told[-1].startswith(b"event: error")
    assert b'"status":503' in told[-1] and len(told) == 2 and ended == ["given up"]


def test_a_reader_that_goes_away_leaves_nothing_behind() -> None:
    async def work(_push: sse.Push) -> tuple[str, object]:
        await asyncio.Event().wait()
        return "answer", "never"

    async def gone() -> set[asyncio.Task[object]]:
        async def reading() -> None:
            async for _part in sse.live(work, is_over=lambda: False):
                pass

        reader = asyncio.ensure_future(reading())
        for _ in range(5):  # turns of the loop: it waits for the first event
            await asyncio.sleep(0)
        reader.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(gone()) == set()


def test_an_error_that_nobody_foresaw_is_the_last_event() -> None:
    async def work(_push: sse.Push) -> tuple[str, object]:
        raise RuntimeError("secret")

    told = read(work, is_over=lambda: False)
    assert len(told) == 1 and b"RuntimeError" in told[0] and b"secret" not in told[0]


def test_an_answer_that_is_no_stream_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "GLANCE_S", 0.01)
    ended: list[str] = []

    async def never() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("given up")
        return "never"

    async def at_once() -> str:
        return "42"

    async def both() -> str:
        with pytest.raises(sse.Stopped):
            await sse.whole(never(), is_over=lambda: True)
        await asyncio.sleep(0)
        return await sse.whole(at_once(), is_over=lambda: True)

    assert asyncio.run(both()) == "42" and ended == ["given up"]
