"""DeepSpeed's engine on its public shape: accumulation, its own counters, checkpoints."""

from __future__ import annotations

from argus.collectors.hooks import deepspeed_engine
from argus.collectors.records.events import FLAG_CHECKPOINT
from tests.collectors.hooks.bench import Bench
from tests.collectors.hooks.frames import imported, module

ACCUMULATION = 2


def engine_type(bench: Bench) -> type:
    class DeepSpeedEngine:
        def __init__(self) -> None:
            self.micro_steps = self.global_steps = 0

        def is_gradient_accumulation_boundary(self) -> bool:
            return (self.micro_steps + 1) % ACCUMULATION == 0

        def forward(self, x: int) -> int:
            bench.tick(10)
            return x + 1

        def backward(self, loss: int) -> int:
            bench.tick(20)
            self.allreduce_gradients()
            return loss

        def allreduce_gradients(self) -> None:
            if self.is_gradient_accumulation_boundary():
                bench.tick(4)

        def step(self) -> None:
            if self.is_gradient_accumulation_boundary():
                bench.tick(5)
                self.global_steps += 1
            self.micro_steps += 1

        def save_checkpoint(self, folder: str) -> str:
            bench.tick(50)
            return folder

    return DeepSpeedEngine


def test_accumulated_micro_batches_are_one_step_with_the_engines_number() -> None:
    bench = Bench()
    made = engine_type(bench)
    with imported(module("deepspeed.runtime.engine", {"DeepSpeedEngine": made})):
        bench.add("deepspeed_engine", deepspeed_engine)
        engine = made()
        for _ in range(3 * ACCUMULATION):
            engine.backward(engine.forward(1))
            engine.step()
        bench.recorder.finish()
        bench.ok()
        steps = bench.rows("steps")
        assert [row["user_step"] for row in steps] == [1, 2, 3]
        phases = [row for row in bench.timed() if row[3] == 0][:5]
        micro = [("forward", "fwd", 10, 0), ("backward", "bwd", 20, 0)]
        last = [("forward", "fwd", 10, 0), ("backward", "bwd", 24, 0), ("optimizer", "step", 5, 0)]
        assert phases == micro + last
        bench.session.stop()


def test_a_checkpoint_flags_its_step_and_returns_what_it_did() -> None:
    bench = Bench()
    made = engine_type(bench)
    with imported(module("deepspeed.runtime.engine", {"DeepSpeedEngine": made})):
        bench.add("deepspeed_engine", deepspeed_engine)
        engine = made()
        engine.micro_steps = 1
        for i in range(2):
            engine.micro_steps = 1
            engine.backward(engine.forward(1))
            engine.step()
            if i == 0:
                assert engine.save_checkpoint("there") == "there"
        bench.recorder.finish()
        bench.ok()
        flags = [int(row["flags"]) & FLAG_CHECKPOINT for row in bench.rows("steps")]
        assert flags == [0, FLAG_CHECKPOINT]  # what follows a step's end belongs to the next one
        assert [row["kind"] for row in bench.rows("events")] == ["mark:checkpoint"]
        bench.session.stop()
