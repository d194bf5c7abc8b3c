"""Native phase names of frameworks and what they are to the analysis: one table."""

from __future__ import annotations

from collections.abc import Mapping

from argus.collectors.records.events import PHASES

MEGATRON: Mapping[str, str] = {
    "batch-generator": "data",
    "forward-compute": "forward",
    "backward-compute": "backward",
    "forward-recv": "pp_recv",
    "backward-recv": "pp_recv",
    "forward-send": "pp_send",
    "backward-send": "pp_send",
    "forward-send-forward-recv": "pp_recv",
    "forward-send-backward-recv": "pp_recv",
    "backward-send-forward-recv": "pp_recv",
    "backward-send-backward-recv": "pp_recv",
    "forward-backward-send-forward-backward-recv": "pp_recv",
    "all-grads-sync": "grad_sync",
    "grads-all-reduce": "grad_sync",
    "grads-reduce-scatter": "grad_sync",
    "layernorm-grads-all-reduce": "grad_sync",
    "embedding-grads-all-reduce": "grad_sync",
    "finish_grad_sync": "grad_sync",
    "dp-allreduce": "grad_sync",
    "params-all-gather": "param_gather",
    "optimizer-copy-to-main-grad": "optimizer",
    "optimizer-unscale-and-check-inf": "optimizer",
    "optimizer-clip-main-grad": "optimizer",
    "optimizer-count-zeros": "optimizer",
    "optimizer-inner-step": "optimizer",
    "optimizer-copy-main-to-model-params": "optimizer",
    "save-checkpoint": "checkpoint",
    "load-checkpoint": "checkpoint",
    "evaluate": "eval",
}
DEEPSPEED: Mapping[str, str] = {
    "fwd": "forward",
    "bwd": "backward",
    "bwd_inner": "backward",
    "bwd_allreduce": "grad_sync",
    "step": "optimizer",
}
TRAINERS: Mapping[str, str] = {
    "training_step": "forward",
    "validation": "eval",
    "clip_grad_norm_": "optimizer",
    "save_state": "checkpoint",
    "load_state": "checkpoint",
    "save_checkpoint": "checkpoint",
}
RL: Mapping[str, str] = {
    "generate_sequences": "rollout",
    "generate": "rollout",
    "gen": "rollout",
    "compute_rm_score": "reward",
    "compute_ref_log_prob": "ref",
    "compute_log_prob": "ref",
    "old_log_prob": "ref",
    "update_weights": "weight_sync",
    "sync_weights": "weight_sync",
    # Forward, backward and optimizer run inside an update: it wraps them, and `other` is never counted twice.
    "update": "other",
    "update_actor": "other",
    "update_critic": "other",
}
ALIASES: Mapping[str, str] = {
    **MEGATRON,
    **DEEPSPEED,
    **TRAINERS,
    **RL,
    "forward-backward": "other",  # wraps the micro-batches' phases
    "dataloader": "data",
    "evaluation": "eval",
    **{phase: phase for phase in PHASES},
}
"""Native name to canonical phase; a canonical name is its own alias."""


def canonical(native: str) -> str:
    """The phase that `native` is.

    >>> canonical("forward-compute"), canonical("rollout"), canonical("my own")
    ('forward', 'rollout', 'other')
    """
    return ALIASES.get(native, "other")
