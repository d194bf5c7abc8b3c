"""torchtitan on the shape of its components."""

from __future__ import annotations

from argus.collectors.hooks import torchtitan_trainer
from argus.collectors.records.events import FLAG_EVAL
from tests.collectors.hooks.bench import Bench
from tests.collectors.hooks.frames import imported, module


class MetricsProcessor:
    def should_log(self, step: int) -> bool:
        return step % 10 == 0


class CheckpointManager:
    def save(self, curr_step: int, last_step: bool = False) -> None: ...


class Validator:
    def validate(self, step: int) -> None: ...


def test_steps_have_torchtitans_number_and_validation_is_marked() -> None:
    modules = (
        module("torchtitan.components.metrics", {"MetricsProcessor": MetricsProcessor}),
        module("torchtitan.components.checkpoint", {"CheckpointManager": CheckpointManager}),
        module("torchtitan.components.validate", {"Validator": Validator}),
    )
    with imported(*modules):
        bench = Bench()
        bench.add("torchtitan_trainer", torchtitan_trainer)
        metrics, validator, checkpoints = MetricsProcessor(), Validator(), CheckpointManager()
        for step in range(7, 10):
            bench.recorder.begin_iteration()
            frame = bench.recorder.open(bench.recorder.names["optimizer"])
            bench.tick(5)
            bench.recorder.close(frame)
            bench.recorder.end_candidate()
            assert metrics.should_log(step) is False
            if step == 8:
                validator.validate(step)
                checkpoints.save(step, last_step=True)
        bench.recorder.finish()
        bench.ok()
        steps = bench.rows("steps")
        assert [row["user_step"] for row in steps] == [7, 8, 9]
        assert [bool(int(row["flags"]) & FLAG_EVAL) for row in steps] == [False, False, True]
        assert [row["kind"] for row in bench.rows("events")] == ["mark:eval", "mark:checkpoint"]
        bench.session.stop()
