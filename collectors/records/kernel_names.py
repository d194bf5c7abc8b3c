"""Names of GPU kernels as they are shown, and which of them communicate."""

from __future__ import annotations

import re

MAX_KERNEL_NAME = 80

_COMM = re.compile(
    r"nccl|rccl|oneccl|hccl|mccl|xccl|deep_ep|nvshmem|userbuffers|multimem_|symm_mem|mscclpp|one_shot_all|two_shot_all",
    re.IGNORECASE,
)
"""NCCL, RCCL and other makers' libraries; DeepEP, NVSHMEM, Transformer Engine's user buffers and symmetric memory beside them."""


_ANONYMOUS = "(anonymous namespace)"
"""Part of a name, though it looks like a signature."""


def short_name(kernel: str) -> str:
    """A kernel's demangled name without template and signature.

    >>> short_name("void at::native::add<float, 4>(int, float*)")
    'at::native::add'
    >>> short_name("void at::native::(anonymous namespace)::fill<float>(float*)")
    'at::native::(anonymous namespace)::fill'
    """
    plain = re.sub(r"^void\s+", "", kernel)
    cut = re.search(r"[<(]", plain.replace(_ANONYMOUS, "_" * len(_ANONYMOUS)))
    return (plain[: cut.start()].rstrip() if cut and cut.start() else plain)[:MAX_KERNEL_NAME]


def is_comm(kernel: str) -> bool:
    """Whether it moves data between ranks.

    >>> is_comm("ncclDevKernel_AllReduce_Sum_f16_RING_LL"), is_comm("ampere_sgemm_128x64_nn")
    (True, False)
    """
    return _COMM.search(kernel) is not None


def group_kind(desc: str) -> str:
    """Kind of a communication kernel's group as its description tells it, `world` without one."""
    desc = desc[:40].lower()
    return "world" if desc in ("", "default_pg", "undefined") else desc.removeprefix("mesh_")
