"""Kinds of process groups, read from what the runtime calls them."""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = ("tp", "cp", "dp", "dp_cp", "pp", "ep", "etp", "edp", "world")
"""Kinds of a group; anything else keeps the runtime's description as its kind."""

DATA_KINDS = ("dp_cp", "dp", "dp_shard_cp", "dp_shard", "dp_replicate", "dp_shard_mod_ep", "dp_shard_in_ep")
"""Groups whose members hold the same part of the model: what they compute may be compared."""

UNNAMED = ("", "undefined", "default")

_BY_DESC = {
    # Megatron-LM, megatron/core/parallel_state.py
    "default_pg": "world",
    "tensor_model_parallel_group": "tp",
    "context_parallel_group": "cp",
    "data_parallel_group": "dp",
    "data_parallel_group_with_cp": "dp_cp",
    "pipeline_model_parallel_group": "pp",
    "expert_model_parallel_group": "ep",
    "expert_tensor_parallel_group": "etp",
    "expert_data_parallel_group": "edp",
    "intra_partial_data_parallel_group_with_cp": "dp_cp_intra",
    "inter_partial_data_parallel_group_with_cp": "dp_cp_inter",
    "intra_partial_expert_data_parallel_group": "edp_intra",
    "inter_partial_expert_data_parallel_group": "edp_inter",
    "model_parallel_group": "mp",
    "embedding_group": "embd",
    "position_embedding_group": "pos_embd",
    "tensor_and_data_parallel_group": "tp_dp",
    "tensor_and_data_parallel_group_with_cp": "tp_dp_cp",
    "tensor_and_context_parallel_group": "tp_cp",
    "expert_tensor_and_model_parallel_group": "etp_ep",
    "expert_tensor_model_pipeline_parallel_group": "etp_ep_pp",
    "intra_distributed_optimizer_instance_group": "optimizer_instance",
    # NCCL option keys of the same
    "embedding": "embd",
    "ep_tp": "etp",
    "ep_dp": "edp",
    "intra_dp_cp": "dp_cp_intra",
    "inter_dp_cp": "dp_cp_inter",
    "tp_ep_mp": "etp_ep",
    # DeviceMesh dimensions (torchtitan, FSDP2, DeepSpeed)
    "fsdp": "dp",
    "data": "dp",
    "model": "tp",
    "tensor": "tp",
    "pipe": "pp",
    "pipeline": "pp",
    "expert": "ep",
    "shard": "dp_shard",
    "replicate": "dp_replicate",
}
_TWINS = re.compile(r"_(ag|gloo)$")  # the same members over another backend or for another collective
_DEEPSPEED_EXPERT = re.compile(r"^ep_size_\d+$")


@dataclass(frozen=True, kw_only=True)
class Group:
    """One process group; `id` is `<kind>/<n>`, n counting the groups of the kind by lowest rank."""

    id: str
    kind: str
    desc: str
    ranks: tuple[int, ...]


def kind_of(desc: str, *, size: int, world_size: int) -> str:
    """Kind of a group from its description; a group of every rank without one is the world.

    >>> kind_of("mesh_tp", size=2, world_size=8), kind_of("", size=8, world_size=8)
    ('tp', 'world')
    >>> kind_of("DATA_PARALLEL_GROUP_WITH_CP_GLOO", size=4, world_size=8)
    'dp_cp'
    """
    if desc.lower() in UNNAMED:
        return "world" if size == world_size else "other"
    plain = _TWINS.sub("", desc.lower().removeprefix("mesh_"))
    if _DEEPSPEED_EXPERT.match(plain):
        return "ep"
    return _BY_DESC.get(plain, plain)[:40]


def settle_data_kinds(kinds: set[str]) -> dict[str, str]:
    """What to call the sharded and replicated halves of data parallelism, given all kinds present.

    One without the other is plain data parallelism; both stay apart, because only together do they
    make the data-parallel group.

    >>> settle_data_kinds({"dp_shard", "tp"}), settle_data_kinds({"dp_shard", "dp_replicate"})
    ({'dp_shard': 'dp'}, {})
    """
    new = {}
    if "dp_replicate" not in kinds:
        new = {old: to for old, to in (("dp_shard", "dp"), ("dp_shard_cp", "dp_cp")) if old in kinds}
    elif not kinds & {"dp_shard", "dp_shard_cp", "dp_shard_mod_ep", "dp"}:
        new = {"dp_replicate": "dp"}
    return {old: to for old, to in new.items() if to not in kinds}
