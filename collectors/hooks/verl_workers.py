"""verl's workers: rollout, reward, reference, update and weight synchronisation of an RL iteration.

An iteration makes several optimizer steps; its step ends with the actor's update.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from argus.collectors.rank.guard import Part
from argus.collectors.rank.native import Args, Native, around
from argus.collectors.rank.open import NO_FRAME, Frame
from argus.collectors.rank.session import Session

NEEDS = "verl.workers.fsdp_workers"

METHODS = (
    "generate_sequences",
    "compute_rm_score",
    "compute_ref_log_prob",
    "compute_log_prob",
    "update_critic",
    "update_weights",
)
SHARDING = ("verl.workers.sharding_manager.fsdp_vllm", "FSDPVLLMShardingManager")
"""Entering it hands the actor's weights to the inference engine, in versions that have it."""


def install(session: Session, part: Part) -> None:
    """Wrap the workers' methods."""
    fsdp_workers = sys.modules[NEEDS]
    native = Native(session, part)
    for name in dir(fsdp_workers):
        worker = getattr(fsdp_workers, name)
        if not isinstance(worker, type) or worker.__module__ != fsdp_workers.__name__:
            continue
        for method in METHODS:
            if method in vars(worker):
                native.patch(worker, method, native=method)
        if "update_actor" in vars(worker):
            update = UpdateHook(session, native)
            wrapper = around(vars(worker)["update_actor"], part, before=update.before, after=update.after)
            part.patch(worker, "update_actor", wrapper)
    manager = getattr(sys.modules.get(SHARDING[0]), SHARDING[1], None)
    if manager is not None:
        native.patch(manager, "__enter__", native="sync_weights")


class UpdateHook:
    """`update_actor`, whose end is the iteration's."""

    def __init__(self, session: Session, native: Native) -> None:
        self._recorder = session.recorder
        self._native = native
        self._iterations = 0

    def before(self, _args: Args, _kwargs: Mapping[str, object]) -> Frame:
        """The update starts; its optimizer steps end no training step."""
        return self._native.open("update_actor") or NO_FRAME

    def after(self, frame: Frame) -> None:
        """The iteration is over."""
        self._recorder.close(frame)
        self._recorder.user_step(self._iterations)
        self._iterations += 1
