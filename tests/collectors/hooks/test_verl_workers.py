"""An RL iteration on the shape of verl's workers, and the same by `argus.phase`."""

from __future__ import annotations

from argus.collectors.hooks import verl_workers
from argus.collectors.rank.guard import Part
from argus.collectors.rank.user import UserMarks
from tests.collectors.hooks.bench import Bench
from tests.collectors.hooks.frames import imported, module


def worker_type(bench: Bench) -> type:
    class ActorRolloutRefWorker:
        def generate_sequences(self, prompts: int) -> int:
            bench.tick(100)
            return prompts * 2

        def compute_ref_log_prob(self, batch: int) -> None:
            bench.tick(30)

        def update_actor(self, batch: int) -> None:
            for _ in range(2):  # mini-batches, each with an optimizer step
                bench.recorder.begin_iteration()
                for name, ns in (("forward", 10), ("backward", 20), ("optimizer", 5)):
                    frame = bench.recorder.open(bench.recorder.names[name])
                    bench.tick(ns)
                    bench.recorder.close(frame)
                bench.recorder.end_candidate()

    return ActorRolloutRefWorker


def test_an_iteration_is_one_step_with_its_parts() -> None:
    bench = Bench()
    made = worker_type(bench)
    with imported(module("verl.workers.fsdp_workers", {"ActorRolloutRefWorker": made})):
        bench.add("verl_workers", verl_workers)
        worker = made()
        for _ in range(4):
            assert worker.generate_sequences(3) == 6
            worker.compute_ref_log_prob(1)
            worker.update_actor(1)
        bench.ok()
        assert [row["user_step"] for row in bench.rows("steps")][-3:] == [1, 2, 3]
        rows = [row for row in bench.rows("phases") if row["step"] == bench.recorder.step - 1]
        outermost = [row for row in rows if row["depth"] == 0]
        outer = {(row["name"], row["native"]): row["dur_ns"] for row in outermost}
        assert outer["rollout", "generate_sequences"] == 100
        assert outer["ref", "compute_ref_log_prob"] == 30
        assert sum(int(row["dur_ns"]) for row in rows if row["name"] == "forward") == 20
        assert (
            sum(int(row["dur_ns"]) for row in outermost) == 200
        )  # the update wraps its parts and is not counted twice
        bench.session.stop()


def test_phases_a_script_names_are_known() -> None:
    bench = Bench()
    user = UserMarks(bench.recorder, Part("user", ring=bench.recorder.ring, on_off=bench.session.part_failed))
    for name in ("rollout", "reward", "compute_ref_log_prob", "weight_sync", "my own"):
        user.open(name)
        bench.tick(1)
        user.close(name)
    assert [row[:2] for row in bench.timed()] == [
        ("rollout", "rollout"),
        ("reward", "reward"),
        ("ref", "compute_ref_log_prob"),
        ("weight_sync", "weight_sync"),
        ("other", "my own"),
    ]
