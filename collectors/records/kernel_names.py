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


_WRAPPERS = frozenset({"cutlass::device_kernel", "cutlass::Kernel", "cutlass::Kernel2", "ck_tile::kentry"})
"""Kernels that say only in their template what they do."""

_GROUPED = re.compile(r"gemm\w*grouped|grouped\w*gemm|GroupProblemShape|GemmType\)[1-9]", re.IGNORECASE)
"""Products of many matrices at once, one for each expert: as the templates of CUTLASS, CK and DeepGEMM tell them."""

GROUPED_MARK = "[grouped]"


def short_name(kernel: str) -> str:
    """A kernel's demangled name without template and signature; of a mere wrapper with what it wraps.

    >>> short_name("void at::native::add<float, 4>(int, float*)")
    'at::native::add'
    >>> short_name("void at::native::(anonymous namespace)::fill<float>(float*)")
    'at::native::(anonymous namespace)::fill'
    >>> short_name("void cutlass::device_kernel<flash::FlashAttnFwdSm90<int>>(int)")
    'cutlass::device_kernel[flash::FlashAttnFwdSm90]'
    >>> short_name("void deep_gemm::fp8_gemm<128u, (deep_gemm::GemmType)1>(float*)")
    'deep_gemm::fp8_gemm[grouped]'
    """
    plain = re.sub(r"^void\s+", "", kernel)
    cut = re.search(r"[<(]", plain.replace(_ANONYMOUS, "_" * len(_ANONYMOUS)))
    if not cut or not cut.start():
        return plain[:MAX_KERNEL_NAME]
    short, rest = plain[: cut.start()].rstrip(), plain[cut.start() :]
    inner = re.match(r"<([\w:]+)", rest) if short in _WRAPPERS else None
    short += f"[{inner[1]}]" if inner else ""
    if _GROUPED.search(rest) and not _GROUPED.search(short):
        return short[: MAX_KERNEL_NAME - len(GROUPED_MARK)] + GROUPED_MARK
    return short[:MAX_KERNEL_NAME]


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
