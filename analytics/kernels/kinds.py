"""What kind of kernel a name stands for, and what a set of slow kernels has in common."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from argus.analytics.kernels.peers import Bools
from argus.analytics.kernels.tail import Reals

GROUPED, ATTENTION, COPIES = "grouped GEMM", "attention", "copies"

PATTERNS: Mapping[str, str] = {
    GROUPED: r"group(ed)?[_-]?(gemm|matmul|mm)|gemm.*grouped|moe.*gemm|fused_moe|\[grouped\]|_(sdd|dsd|dds)_kernel",
    ATTENTION: r"flash|attention|attn|fmha|sdpa",
    "GEMM": r"gemm|cutlass|cublas|matmul|xmma|nvjet|wgmma|\bmm\b|splitk",
    COPIES: r"memcpy|memset|copy_kernel",
}
"""First match wins; what matches none moves memory: element-wise, norms, reductions, optimizers."""

OF_EXPERTS = re.compile(r"moe|expert|permute")
"""Beside grouped products, what moves an expert's tokens."""

MEMORY = "memory-bound"
COMM = "communication"
ALL = "all kernels by one factor (clock-like)"

ALIKE = 0.5
"""A kind takes part if its effect is at least this part of the largest."""

WHOLE = 0.03
"""Least log effect of a kind as a whole when only single kernels were found: chips differ by less for good."""


def kind_of(name: str, role: str) -> str:
    """Kind of a kernel by name and stream role.

    >>> kind_of("ampere_bf16_s16816gemm_128x128", "compute"), kind_of("x", "comm:dp")
    ('GEMM', 'communication')
    """
    if role.startswith("comm"):
        return COMM
    if role == "copy":
        return COPIES
    lower = name.lower()
    return next((kind for kind, pattern in PATTERNS.items() if re.search(pattern, lower)), MEMORY)


def is_of_experts(name: str, role: str) -> bool:
    """Whether a kernel has as much to do as its rank's experts have tokens, as far as its name tells.

    >>> is_of_experts("_permute_kernel", "compute"), is_of_experts("layer_norm", "compute")
    (True, False)
    """
    return kind_of(name, role) == GROUPED or (role == "compute" and bool(OF_EXPERTS.search(name.lower())))


def breadth(kinds: Sequence[str], effect: Reals, *, weight: Reals, found: Bools | None = None) -> str:
    """In words, which kinds of kernels of one rank are slow. `effect` (log), `weight`, `found` are (kernel,).

    Where single kernels were `found`, their kinds are told, and a kind that is slow as a whole besides.

    >>> one = np.array([0.1, 0.1, 0.0], np.float32)
    >>> breadth(["GEMM", "GEMM", "memory-bound"], one, weight=np.ones(3, np.float32))
    'GEMM only'
    >>> one, found = np.array([0.004, 0.004, 0.1], np.float32), np.array([False, False, True])
    >>> breadth(["GEMM", "GEMM", "memory-bound"], one, weight=np.ones(3, np.float32), found=found)
    'memory-bound only'
    """
    of_kind = {kind: np.array([other == kind for other in kinds]) for kind in sorted(set(kinds))}
    of_kind = {kind: here for kind, here in of_kind.items() if np.isfinite(effect[here]).any()}
    if not of_kind:
        return "no kernels"
    whole = {kind: _mean(effect, weight=weight, here=here) for kind, here in of_kind.items()}
    told, floor = whole, 0.0
    if found is not None:
        told = {
            kind: _mean(effect, weight=weight, here=here & found)
            for kind, here in of_kind.items()
            if (here & found).any()
        }
        floor = WHOLE
    least = ALIKE * max(told.values(), default=0.0)
    as_wholes = {kind for kind, value in whole.items() if value >= max(least, floor) and value > 0}
    slow = [kind for kind in of_kind if kind in as_wholes or (kind in told and told[kind] >= least)]
    compute = {kind for kind in of_kind if kind not in (COMM, COPIES)}
    if len(compute) > 1 and compute <= as_wholes:
        return ALL
    return f"{' and '.join(slow)} only" if slow and least > 0 else "no kind as a whole"


def _mean(effect: Reals, *, weight: Reals, here: Bools) -> float:
    known = here & np.isfinite(effect)
    total = float(weight[known].sum())
    return float((effect[known] * weight[known]).sum()) / total if total > 0 else 0.0


def short_name(name: str) -> str:
    """A kernel's name without its template arguments and parameters.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, x<y>>(int, z)")
    'at::native::vectorized_elementwise_kernel'
    """
    plain, depth = [], 0
    for char in name.replace("(anonymous namespace)", "{anonymous}"):
        depth += (char in "<(") - (char in ">)")
        if depth == 0 and char not in ">)":
            plain.append(char)
    return "".join(plain).removeprefix("void ").strip()[:120] or name[:120]
