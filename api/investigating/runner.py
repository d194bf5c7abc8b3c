"""The thread that investigates: an event loop of its own, a few investigations at once, each step kept as it is made."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Self

from sqlalchemy.exc import SQLAlchemyError

from argus.agent.case import Case
from argus.agent.context import Unknown
from argus.agent.loop.course import Step
from argus.agent.loop.investigate import BROKE_OFF, broke_off, without_model
from argus.agent.model.message import Message
from argus.analytics.store import investigations
from argus.analytics.store.engine import Store
from argus.analytics.store.investigations import CANCELLED, DONE, FAILED, INTERRUPTED, RUNNING, Investigation
from argus.api.agent import Agent
from argus.api.investigating.asked import LEASE_S, Asked, Conflict, enter
from argus.api.toolbox import Toolbox

LOG = logging.getLogger("argus.investigate")

Json = dict[str, Any]
RENEW_S = 5.0
"""How often a service says that it still has what it runs."""


class Runner:
    """Investigations of one project. `name` is this service's own; `agent_of` makes the agent anew for each."""

    def __init__(
        self,
        *,
        agent_of: Callable[[], Agent],
        toolbox: Toolbox,
        store: Store,
        clock: Callable[[], float],
        name: str,
        at_once: int,
    ) -> None:
        self._agent_of, self._toolbox, self._store, self._clock = agent_of, toolbox, store, clock
        self._name, self._at_once = name, at_once
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, Coroutine[Any, Any, None]]] = deque()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.num_news = 0

    def ask(self, asked: Asked) -> tuple[Investigation, bool]:
        """Take an investigation on; it, and whether it is new. Raises Conflict, Busy."""
        found, is_new = enter(self._store, asked, owner=self._name, now_s=self._clock())
        if is_new:
            self._begin(found.id, self._investigate(found))
        return found, is_new

    def follow_up(self, kept: Investigation, text: str, *, by: str) -> None:
        """One more question about a finished investigation. Raises Conflict."""
        now_s = self._clock()
        if kept.outcome is None:
            raise Conflict(
                f"the investigation is {kept.status}: it has no outcome to ask about; start a new one"
            )
        with self._store.write() as connection:
            if not investigations.take_up(
                connection, kept.id, owner=self._name, lease_s=now_s + LEASE_S, now_s=now_s
            ):
                raise Conflict("the investigation is under way; ask when it has ended")
            said = {"text": text, "by": by}
            investigations.add_event(connection, kept.id, what="asked", body=said, now_s=now_s)
        self._begin(kept.id, self._answer(kept, text))

    def cancel(self, investigation_id: str) -> bool:
        """Have an investigation end, wherever it runs; False if it has ended."""
        with self._store.write() as connection:
            is_live = investigations.ask_to_cancel(connection, investigation_id)
        if is_live and self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel_here, investigation_id)
        return is_live

    def stop(self) -> None:
        """End what runs, as interrupted, and the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end_all(), loop).result(timeout=30.0)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def renew(self, now_s: float) -> None:
        """Hold on to what runs here, end what was cancelled elsewhere, and note what its service left behind."""
        for investigation_id in self._held():
            with self._store.write() as connection:
                is_ours = investigations.extend(
                    connection, investigation_id, owner=self._name, lease_s=now_s + LEASE_S
                )
            if not is_ours and self._loop is not None:
                self._loop.call_soon_threadsafe(self._cancel_here, investigation_id)
        with self._store.read() as connection:
            left = investigations.abandoned(connection, now_s=now_s)
        for one in left:
            self._break_off(one.id, "the service that ran this ended before it was done", owner=one.owner)

    def _held(self) -> list[str]:
        """What this service runs or is about to."""
        with self._lock:
            loop = self._loop
        if loop is None:
            return []

        async def here() -> list[str]:
            return [*self._tasks, *(one for one, _ in self._waiting)]

        return asyncio.run_coroutine_threadsafe(here(), loop).result(timeout=30.0)

    def _begin(self, investigation_id: str, work: Coroutine[Any, Any, None]) -> None:
        loop = self._running_loop()
        loop.call_soon_threadsafe(self._enqueue, investigation_id, work)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="argus-investigate", daemon=True
                )
                self._thread.start()
            return self._loop

    def _enqueue(self, investigation_id: str, work: Coroutine[Any, Any, None]) -> None:
        self._waiting.append((investigation_id, work))
        self._launch()

    def _launch(self) -> None:
        while self._waiting and len(self._tasks) < self._at_once:
            investigation_id, work = self._waiting.popleft()
            task = asyncio.get_running_loop().create_task(work)
            self._tasks[investigation_id] = task
            task.add_done_callback(partial(self._over, investigation_id))

    def _over(self, investigation_id: str, task: asyncio.Task[None]) -> None:
        """A further question may have begun between an investigation's last word and this: then its task stays."""
        if self._tasks.get(investigation_id) is task:
            del self._tasks[investigation_id]
        self._launch()
        if task.cancelled():  # also one that had not come to its first line
            self._break_off(investigation_id, "it was cut off before it was done")

    def _cancel_here(self, investigation_id: str) -> None:
        """In the loop: end a task, or take it out of the queue."""
        if task := self._tasks.get(investigation_id):
            task.cancel()
        for item in [one for one in self._waiting if one[0] == investigation_id]:
            self._waiting.remove(item)
            item[1].close()
            self._break_off(investigation_id, "cancelled before it began")

    async def _end_all(self) -> None:
        for investigation_id, work in self._waiting:
            work.close()
            self._break_off(investigation_id, "the service ended before it began")
        self._waiting.clear()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _investigate(self, asked: Investigation) -> None:
        """From the triage to the outcome; every end is kept."""
        case: Case | None = None
        try:
            await asyncio.to_thread(self._note, asked.id, "started", {}, RUNNING)
            agent = await asyncio.to_thread(self._agent_of)
            case = await asyncio.to_thread(
                agent.case, self._toolbox, run=asked.run, incident=asked.incident_id
            )
            await asyncio.to_thread(self._note, asked.id, "triage", {"diagnosis": dict(case.diagnosis)})
            async with _Steps(self, asked.id) as steps:
                outcome = await agent.investigate(
                    self._toolbox, case, question=asked.question, watch=steps.push
                )
            await asyncio.to_thread(self._end, asked.id, DONE, outcome.to_json(), outcome=outcome.to_json())
        except Unknown as error:
            await asyncio.to_thread(self._end, asked.id, FAILED, {"text": str(error)})
        except Exception as error:
            LOG.error("investigation %s failed", asked.id, exc_info=error)
            if case is None:
                text = f"the investigation failed: {type(error).__name__}"
                await asyncio.to_thread(self._end, asked.id, FAILED, {"text": text})
                return
            left = without_model(case, reason=broke_off(error), failure=BROKE_OFF).to_json()
            await asyncio.to_thread(self._end, asked.id, DONE, left, outcome=left)

    async def _answer(self, kept: Investigation, text: str) -> None:
        """One more question, with the outcome and what was asked before as history."""
        try:
            agent = await asyncio.to_thread(self._agent_of)
            case = await asyncio.to_thread(agent.case, self._toolbox, run=kept.run, incident=kept.incident_id)
            history = await asyncio.to_thread(self._history, kept)
            async with _Steps(self, kept.id) as steps:
                answered = await agent.answer(
                    self._toolbox, case, question=text, history=history, watch=steps.push
                )
            await asyncio.to_thread(self._end, kept.id, DONE, answered.to_json(), what="answer")
        except Exception as error:
            LOG.error("a question about %s failed", kept.id, exc_info=error)
            note = f"the question could not be answered: {type(error).__name__}"
            failed = {"text": "", "note": note, "failure": "error"}
            await asyncio.to_thread(self._end, kept.id, DONE, failed, what="answer")

    def _history(self, kept: Investigation) -> list[Message]:
        with self._store.read() as connection:
            told = investigations.events_after(connection, kept.id, number=0, limit=10_000)
        said = [Message(role="assistant", content=str((kept.outcome or {}).get("headline", "")))]
        turns = {"asked": "user", "answer": "assistant"}
        said += [
            Message(role=turns[event["what"]], content=str(event["body"].get("text", "")))
            for event in told
            if event["what"] in turns
        ]
        return [message for message in said if message.content][:-1]

    def _break_off(self, investigation_id: str, why: str, *, owner: str | None = None) -> None:
        """Cancelled by somebody, or left behind; what is asked further costs no outcome that there was before."""
        try:
            with self._store.read() as connection:
                found = investigations.investigation(connection, investigation_id)
        except SQLAlchemyError as error:  # as in `_end`
            LOG.error("the end of investigation %s is not kept: %s", investigation_id, type(error).__name__)
            return
        status = CANCELLED if found is not None and found.is_cancelled else INTERRUPTED
        if found is not None and found.outcome is not None:
            answer = {"text": "", "note": why, "failure": status}
            self._end(investigation_id, DONE, answer, what="answer", owner=owner)
        else:
            self._end(investigation_id, status, {"text": why}, owner=owner)

    def _note(self, investigation_id: str, what: str, body: Json, status: str = "") -> None:
        now_s = self._clock()
        with self._store.write() as connection:
            investigations.add_event(connection, investigation_id, what=what, body=body, now_s=now_s)
            if status:
                investigations.set_status(
                    connection, investigation_id, owner=self._name, status=status, now_s=now_s
                )
        self._tell()

    def _end(
        self,
        investigation_id: str,
        status: str,
        body: Mapping[str, Any],
        *,
        outcome: Json | None = None,
        what: str = "",
        owner: str | None = None,
    ) -> None:
        """Keep the last word; one whose service was thought gone keeps the word it has."""
        now_s = self._clock()
        said = what or ("outcome" if outcome is not None else status)
        try:
            with self._store.write() as connection:
                if investigations.set_status(
                    connection,
                    investigation_id,
                    owner=owner or self._name,
                    status=status,
                    now_s=now_s,
                    outcome=outcome,
                ):
                    investigations.add_event(
                        connection, investigation_id, what=said, body=dict(body), now_s=now_s
                    )
        except SQLAlchemyError as error:  # the lease runs out, and somebody notes that it was interrupted
            LOG.error("the end of investigation %s is not kept: %s", investigation_id, type(error).__name__)
        self._tell()

    def _tell(self) -> None:
        """Who follows an investigation looks at this number."""
        with self._lock:
            self.num_news += 1


class _Steps:
    """Keeps the steps of one investigation in order, outside of the loop that makes them."""

    def __init__(self, runner: Runner, investigation_id: str) -> None:
        self._runner, self._id = runner, investigation_id
        self._queue: asyncio.Queue[Step | None] = asyncio.Queue()
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._queue.put_nowait(None)
        assert self._writer is not None
        await self._writer

    def push(self, step: Step) -> None:
        """Called in the loop."""
        self._queue.put_nowait(step)

    async def _write(self) -> None:
        while (step := await self._queue.get()) is not None:
            body = {"what": step.what, "text": step.text, "details": dict(step.details)}
            try:
                await asyncio.to_thread(self._runner._note, self._id, "step", body)
            except Exception as error:  # a step less is no reason to lose the outcome
                LOG.error("a step of investigation %s is not kept", self._id, exc_info=error)
