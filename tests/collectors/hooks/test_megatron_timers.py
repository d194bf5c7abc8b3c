"""Megatron's timers on the shape of `megatron.core.timers`: real timers synchronise, dummies do nothing."""

from __future__ import annotations

from argus.collectors.hooks import megatron_timers
from tests.collectors.hooks.bench import Bench
from tests.collectors.hooks.frames import imported, module


class DummyTimer:
    """Below the log level: `start` and `stop` do nothing."""

    def start(self, barrier: bool = False) -> None: ...

    def stop(self, barrier: bool = False) -> None: ...

    def elapsed(self, reset: bool = True, barrier: bool = False) -> float:
        raise RuntimeError("dummy timer should not be used to calculate elapsed time")


class Timer:
    """At the log level: counts what in Megatron is a synchronise and a barrier."""

    def __init__(self) -> None:
        self.synchronises = self.barriers = 0
        self.is_started = False

    def start(self, barrier: bool = False) -> None:
        assert not self.is_started
        self.synchronises, self.barriers, self.is_started = (
            self.synchronises + 1,
            self.barriers + barrier,
            True,
        )

    def stop(self, barrier: bool = False) -> None:
        assert self.is_started
        self.synchronises, self.barriers, self.is_started = (
            self.synchronises + 1,
            self.barriers + barrier,
            False,
        )

    def elapsed(self, reset: bool = True, barrier: bool = False) -> float:
        return 1.5


class Timers:
    def __init__(self, log_level: int) -> None:
        self._log_level = log_level
        self.made: dict[str, Timer] = {}
        self._dummy = DummyTimer()

    def __call__(self, name: str, log_level: int | None = None) -> Timer | DummyTimer:
        if name in self.made:
            return self.made[name]
        if (2 if log_level is None else log_level) > self._log_level:
            return self._dummy
        return self.made.setdefault(name, Timer())


def schedule(timers: Timers, bench: Bench, *, micro_batches: int = 2) -> None:
    """One iteration as Megatron's 1F1B schedule times it."""
    timers("forward-backward", log_level=1).start(barrier=False)
    for _ in range(micro_batches):
        for name, ns in (("forward-recv", 3), ("forward-compute", 10), ("backward-compute", 20)):
            timers(name, log_level=2).start()
            bench.tick(ns)
            timers(name).stop()
    timers("forward-backward").stop()
    timers("optimizer", log_level=1).start()
    bench.tick(5)
    timers("optimizer").stop()
    bench.recorder.end_candidate()


def test_every_timer_is_a_phase_at_log_level_0_without_a_synchronise() -> None:
    with imported(module("megatron.core.timers", {"Timers": Timers})):
        bench = Bench()
        bench.add("megatron_timers", megatron_timers)
        timers = Timers(log_level=0)
        for _ in range(2):
            schedule(timers, bench)
        bench.ok()
        assert timers.made == {}  # nothing of Megatron's was made to run
        expected = [
            ("pp_recv", "forward-recv", 3),
            ("forward", "forward-compute", 10),
            ("backward", "backward-compute", 20),
        ] * 2
        found = [row for row in bench.timed() if row[1] != "forward-backward"]
        assert [row[:3] for row in found[:7]] == [*expected, ("optimizer", "optimizer", 5)]
        bench.session.stop()


def test_micro_batches_are_numbered_in_each_step() -> None:
    with imported(module("megatron.core.timers", {"Timers": Timers})):
        bench = Bench()
        bench.add("megatron_timers", megatron_timers)
        timers = Timers(log_level=0)
        for _ in range(3):
            schedule(timers, bench)
        rows = [row for row in bench.rows("phases") if row["native"] == "forward-compute"]
        assert [(row["step"], row["micro_batch"]) for row in rows] == [
            (step, batch) for step in range(3) for batch in range(2)
        ]
        bench.session.stop()


def test_megatrons_own_timers_work_as_before_and_come_back_bare() -> None:
    with imported(module("megatron.core.timers", {"Timers": Timers})):
        bench = Bench()
        before = Timers.__call__
        bench.add("megatron_timers", megatron_timers)
        timers = Timers(log_level=2)
        schedule(timers, bench, micro_batches=1)
        bench.ok()
        timer = timers("forward-compute")
        assert timer.elapsed(reset=False) == 1.5
        made = timers.made["forward-compute"]
        assert (made.synchronises, made.barriers, made.is_started) == (2, 0, False)
        bench.session.stop()
        assert Timers.__call__ is before
        assert isinstance(timers("forward-compute"), Timer)
