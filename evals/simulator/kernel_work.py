"""Kernel launches of a transformer's training steps, dense and mixture-of-experts, as KERNEL records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argus.collectors.records.events import KERNEL, Rows

MICRO_BATCHES = 12
DENSE_LAYERS = 32
MOE_LAYERS = 16
EXPERTS_PER_RANK = 8
STEP_NS = 4_000_000_000

_GEMM = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{tile}_nn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{tile}_nn_align8::Params)"
)
_POINTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{op}_kernel_cuda(at::TensorIteratorBase&)::"
    "{{lambda()#1}}::operator()() const::{{lambda(c10::BFloat16)#{n}}}, at::detail::Array<char*, {n}> >"
    "(int, at::native::{op}_kernel_cuda(at::TensorIteratorBase&), at::detail::Array<char*, {n}>)"
)
_TILES = ("128x64_32x6", "128x128_32x4", "256x128_32x3", "128x256_32x3", "64x64_64x5", "256x64_32x4")


@dataclass(frozen=True, kw_only=True)
class Site:
    """One launch of one layer: which kernel, on which stream role, how long (median) and how even."""

    name: str
    role: str
    dur_ns: float
    sigma: float
    per_step: int
    skew: float = 0.0  # extra spread between experts, fixed per launch site and step


def dense() -> tuple[Site, ...]:
    """A dense transformer's launches of one step."""
    return _layers(DENSE_LAYERS, _attention(DENSE_LAYERS) + _mlp(DENSE_LAYERS)) + _optimizer()


def moe() -> tuple[Site, ...]:
    """A mixture-of-experts transformer: routing makes the work of an expert differ from step to step."""
    return _layers(MOE_LAYERS, _attention(MOE_LAYERS) + _experts(MOE_LAYERS)) + _optimizer()


def launches(
    sites: Sequence[Site],
    rng: np.random.Generator,
    *,
    num_steps: int,
    speed: float = 1.0,
    first_step: int = 0,
) -> tuple[Rows, tuple[str, ...]]:
    """KERNEL rows of one rank in launch order, and their string table.

    `speed` > 1 makes every kernel slower by that factor.
    """
    names = ("", *dict.fromkeys(text for site in sites for text in (site.name, site.role)))
    place = {text: i for i, text in enumerate(names)}
    counts = np.array([site.per_step for site in sites])
    site_of = rng.permuted(np.repeat(np.arange(len(sites)), counts))
    columns = {
        "name": np.array([place[site.name] for site in sites]),
        "role": np.array([place[site.role] for site in sites]),
    }
    rows = np.zeros(len(site_of) * num_steps, KERNEL)
    for step in range(num_steps):
        here = rows[step * len(site_of) : (step + 1) * len(site_of)]
        here["step"] = first_step + step
        for column, values in columns.items():
            here[column] = values[site_of]
        here["dur_ns"] = _durations(sites, site_of, rng) * speed
        here["start_ns"] = (first_step + step) * STEP_NS + np.cumsum(here["dur_ns"])
    return rows, names


def _durations(
    sites: Sequence[Site], site_of: np.ndarray[tuple[int], np.dtype[np.int64]], rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    median = np.array([site.dur_ns for site in sites])
    routed = median * np.exp(np.array([site.skew for site in sites]) * rng.normal(size=len(sites)))
    sigma = np.array([site.sigma for site in sites])
    return np.asarray(routed[site_of] * np.exp(sigma[site_of] * rng.normal(size=len(site_of))))


def _layers(layers: int, sites: tuple[Site, ...]) -> tuple[Site, ...]:
    """Forward as given; backward twice as long, and once more for the weights of a matrix product."""
    out: list[Site] = []
    for site in sites:
        out.append(site)
        if site.role != "compute":
            out.append(Site(**{**vars(site), "dur_ns": site.dur_ns * 1.02}))
            continue
        back = (
            site.name.replace("_nn_", "_nt_").replace("_fwd", "_bwd").replace("::native::", "::native::grad_")
        )
        out.append(Site(**{**vars(site), "name": back, "dur_ns": site.dur_ns * 1.9}))
        if "gemm" in site.name:
            weights = site.name.replace("_nn_", "_tn_")
            out.append(Site(**{**vars(site), "name": weights, "dur_ns": site.dur_ns * 1.1}))
    return tuple(out)


def _gemm(tile: int, *, us: float, per_step: int) -> Site:
    name = _GEMM.format(tile=_TILES[tile % len(_TILES)])
    return Site(name=name, role="compute", dur_ns=us * 1e3, sigma=0.008, per_step=per_step)


def _pointwise(op: str, *, us: float, per_step: int, arity: int = 2) -> tuple[Site, ...]:
    """The same kernel at three places of a layer: three modes."""
    name = _POINTWISE.format(op=op, n=arity)
    parts = ((1.0, 0.4), (1.5, 0.3), (4.0, 0.3))
    return tuple(
        Site(
            name=name,
            role="compute",
            dur_ns=us * 1e3 * factor,
            sigma=0.02,
            per_step=max(1, round(per_step * share)),
        )
        for factor, share in parts
    )


def _attention(layers: int) -> tuple[Site, ...]:
    n = layers * MICRO_BATCHES
    sites = [_gemm(0, us=310, per_step=n), _gemm(1, us=180, per_step=n)]
    sites.append(
        Site(
            name="flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>",
            role="compute",
            dur_ns=420e3,
            sigma=0.01,
            per_step=n,
        )
    )
    sites.append(
        Site(
            name="ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            role="comm:tp",
            dur_ns=90e3,
            sigma=0.15,
            per_step=n,
        )
    )
    sites.append(
        Site(
            name="ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            role="comm:tp",
            dur_ns=110e3,
            sigma=0.15,
            per_step=n,
        )
    )
    for i, op in enumerate(("rms_norm", "rotary", "add", "mul", "copy", "transpose", "cast", "dropout")):
        sites += _pointwise(op, us=6 + 3 * i, per_step=n)
    return tuple(sites)


def _mlp(layers: int) -> tuple[Site, ...]:
    n = layers * MICRO_BATCHES
    sites = [_gemm(2, us=690, per_step=n), _gemm(3, us=640, per_step=n)]
    for i, op in enumerate(("silu", "mul", "rms_norm_2", "add_2", "fill", "sum")):
        sites += _pointwise(op, us=9 + 4 * i, per_step=n)
    return tuple(sites)


def _experts(layers: int) -> tuple[Site, ...]:
    n = layers * MICRO_BATCHES
    sites = [
        Site(
            name="ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
            role="comm:ep",
            dur_ns=350e3,
            sigma=0.3,
            per_step=2 * n,
        )
    ]
    for expert in range(EXPERTS_PER_RANK):
        for part in range(2):
            site = _gemm(expert + part, us=60 + 25 * part, per_step=n)
            sites.append(Site(**{**vars(site), "name": site.name + f"_grouped_{part}", "skew": 0.25}))
    for i, op in enumerate(("topk", "scatter", "gather", "silu", "mul", "permute", "histogram", "sort")):
        sites += _pointwise(op, us=5 + 2 * i, per_step=n)
    return tuple(sites)


def _optimizer() -> tuple[Site, ...]:
    """Fused optimizer steps, one template instance per tensor list: many names, few launches."""
    sites = []
    for i in range(180):
        name = (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
            f"FusedOptimizerTensorListMetadata<{i % 5}>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, {i}, "
            "(at::native::ADAM_MODE)1, false> >"
        )
        sites.append(Site(name=name, role="compute", dur_ns=40e3 + 900.0 * i, sigma=0.015, per_step=4))
    sites.append(
        Site(name="Memcpy HtoD (Pinned -> Device)", role="copy", dur_ns=30e3, sigma=0.1, per_step=16)
    )
    sites.append(
        Site(
            name="ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            role="comm:dp",
            dur_ns=4e6,
            sigma=0.1,
            per_step=24,
        )
    )
    return tuple(sites)
