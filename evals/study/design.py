"""Which conditions the study runs, by size: a fractional design around one base point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from argus.collectors.host.split import ROBUST, Look, Rule
from argus.evals.bench import Size
from argus.evals.study.families import FAMILIES
from argus.evals.study.measure import Condition

SMOKE_FAMILIES = ("log-normal", "modes ×1.3", "tail 2 %", "routing skew")
SURFACE_FAMILIES = ("log-normal", "shifted gamma", "modes ×1.3", "routing skew", "tail 2 %")

SEEDS: Mapping[Size, int] = {"smoke": 1, "default": 4, "full": 12}

AGAIN_SEEDS: Mapping[Size, int] = {"smoke": 2, "default": 40, "full": 100}
"""Fresh trials of a condition that the default lost: with so many F1 is known to a few hundredths."""

AGAIN_FROM = 50_000
"""Their seeds begin so far above those of the first trials."""

LATER_WINDOWS = 32
"""Windows after which a lost condition is looked at again: what a running mean of the product's reaches in the end."""

LATER_LAUNCHES = 1 << 14
"""Launches of a kernel on all ranks up to which it is: where there are many, more windows tell nothing new."""

LATER_HEALTHY = {"smoke": 1, "default": 4, "full": 20}
"""Healthy jobs of 64 ranks that are watched as long, four times as many of eight."""

LARGE_FAMILIES = ("log-normal", "tail 2 %", "routing skew")
"""Families whose large cluster the default form runs too."""

LARGE_SEEDS = 2
"""A large cluster averages over its own ranks."""

ALPHAS = (1.5, 2.0, 3.0, 4.0, 6.0)
FACTORS = (1.02, 1.03, 1.05, 1.08, 1.10, 1.20)


def conditions(size: Size) -> list[Condition]:
    """The base point of every family, and each factor of the design moved away from it in turn."""
    names = SMOKE_FAMILIES if size == "smoke" else tuple(FAMILIES)
    seeds = SEEDS[size]
    out: list[Condition] = []
    for family in names:
        base = Condition(family=family, seeds=seeds, count=1000 if FAMILIES[family].tail_share else 200)
        out.append(replace(base, ranks=32) if size == "smoke" else base)
        if size == "smoke":
            continue
        is_tail = FAMILIES[family].tail_share > 0  # a tail has no factor to vary
        out += [replace(base, ranks=8)] if is_tail else [replace(base, factor=1.05), replace(base, ranks=8)]
        out += [replace(base, share=share) for share in (0.25, 0.5)]
        out += [replace(base, count=count) for count in (20, 2000)]
        if size == "full" or family in LARGE_FAMILIES:
            out += [replace(base, ranks=512, seeds=min(seeds, LARGE_SEEDS))]
        if size == "full":
            out += [] if is_tail else [replace(base, factor=factor) for factor in (1.02, 1.1, 1.5, 3.0)]
            out += [replace(base, share=0.1)]
            out += [replace(base, count=10_000)]
            out += [replace(base, ranks=4096, seeds=2)]
    return out


def again(row: Mapping[str, Any], size: Size) -> Condition:
    """The condition of a row on fresh seeds, fewer of a large cluster, over more windows if these can help."""
    lost = Condition(**{item.name: row[item.name] for item in fields(Condition)})
    few = max(LARGE_SEEDS, AGAIN_SEEDS[size] * 64 // max(lost.ranks, 64))
    windows = LATER_WINDOWS if lost.ranks * lost.count <= LATER_LAUNCHES else lost.windows
    return replace(lost, seeds=few, first_seed=lost.first_seed + AGAIN_FROM, windows=windows)


def healthy_conditions(size: Size) -> list[Condition]:
    """Every family with nobody sick, small and large groups; few launches are watched for long."""
    names = SMOKE_FAMILIES[:1] if size == "smoke" else tuple(FAMILIES)
    seeds = {"smoke": 1, "default": 4, "full": 40}[size]
    sizes = (32,) if size == "smoke" else (8, 64)
    short = Condition(family=names[0], share=0.0, seeds=seeds)
    long = replace(short, seeds=LATER_HEALTHY[size], count=20, windows=LATER_WINDOWS)
    return [
        replace(form, family=family, ranks=ranks, seeds=form.seeds * (1 if ranks > 8 else 4))
        for family in names
        if not FAMILIES[family].tail_share  # healthy, a tail is a plain log-normal
        for ranks in sizes
        for form in (short, long)
    ]


def sweep(size: Size) -> list[Condition]:
    """Ever smaller slowdowns of one rank in 64, for the smallest that is found."""
    families = SMOKE_FAMILIES[:1] if size == "smoke" else ("log-normal", "shifted gamma", "modes ×1.3")
    seeds = {"smoke": 1, "default": 8, "full": 40}[size]
    counts = (200, 2000) if size == "full" else (200,)
    return [
        Condition(family=family, factor=factor, count=count, seeds=seeds)
        for family in families
        for count in counts
        for factor in FACTORS
    ]


def rules() -> dict[str, dict[str, Rule]]:
    """Compression rules of the surfaces: parameter to value to rule."""
    first, *finer = ROBUST.looks

    def looks(**changes: float) -> tuple[Look, ...]:
        return (replace(first, **changes), *finer)  # type: ignore[arg-type]

    return {
        "bandwidth constant": {
            f"{constant} {'robust' if robust else 'std'}": replace(ROBUST, constant=constant, robust=robust)
            for robust in (True, False)
            for constant in (0.5, 0.8, 1.06, 1.5)
        },
        "minimum count": {str(n): replace(ROBUST, looks=looks(min_count=n)) for n in (2, 3, 5, 10)},
        "minimum share": {
            f"{s:.3f}": replace(ROBUST, looks=looks(min_share=s)) for s in (0.0, 0.002, 0.01, 0.05)
        },
        "minimum gap": {str(g): replace(ROBUST, min_gap_ratio=g) for g in (1.02, 1.08, 1.15, 1.3)},
        "valley depth": {str(v): replace(ROBUST, looks=looks(max_valley=v)) for v in (0.5, 0.75, 0.9, 1.0)},
    }


def surface_conditions(size: Size) -> Sequence[Condition]:
    """Where the surfaces are read: a slowdown of a twentieth on one rank in 64."""
    families = SURFACE_FAMILIES[:1] if size == "smoke" else SURFACE_FAMILIES
    seeds = {"smoke": 1, "default": 1, "full": 8}[size]
    ranks = 16 if size == "smoke" else 64
    return [
        Condition(
            family=family,
            factor=1.05,
            seeds=seeds,
            ranks=ranks,
            count=500 if FAMILIES[family].tail_share else 200,
        )
        for family in families
    ]


WINDOW_STEPS = (1, 2, 5, 10, 20, 50)
LAUNCHES_PER_STEP = 20
