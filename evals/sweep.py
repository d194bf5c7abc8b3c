"""The sweep: every layout with every fault, so that a rule that fits one kind of job cannot hide what it breaks in another.

A cell is a layout and a fault, named `tp2-pp2-dp4/link-tp`; the seed draws the job's step, the culprit and the onset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from argus.evals.scenarios._draw import ONSET, STEPS, Draw
from argus.evals.scenarios.slow_kernel import KERNELS
from argus.evals.simulator.groups import layouts, shape_of
from argus.evals.simulator.job import QUIET, Fault, Job
from argus.evals.simulator.program import program_of
from argus.evals.truth import Scenario
from argus.topology.layout import build

LAYOUTS: tuple[Mapping[str, int], ...] = (
    {"dp": 4},
    {"tp": 2, "dp": 2},
    {"pp": 2, "dp": 2},
    {"pp": 4, "dp": 1},
    {"dp": 8},
    {"tp": 2, "dp": 4},
    {"cp": 2, "dp": 4},
    {"pp": 4, "dp": 2},
    {"ep": 4, "dp": 8},
    {"tp": 2, "pp": 2, "dp": 4},
    {"pp": 2, "ep": 4, "dp": 8},
    {"tp": 4, "dp": 8},
    {"tp": 2, "pp": 4, "dp": 4},
    {"tp": 2, "pp": 2, "ep": 4, "dp": 8},
)
"""How 4 to 32 ranks are divided."""

RANK_FAULTS: Mapping[str, str] = {
    "compute": "compute.slow",
    "data": "data.slow_loader",
    "copy": "copy.slow",
    "gc": "host.gc",
    "starved": "host.cpu_starved",
}
"""Faults of one rank and the class that names them."""

LINKS = ("tp", "cp", "dp", "dp_cp", "ep", "edp", "pp")
"""Kinds of groups one of which has a slow path; of a pipeline the way between two neighbours."""

MICRO_BATCHES = 8
HEALTHY = "healthy"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One layout with one fault."""

    layout: tuple[tuple[str, int], ...]
    fault: str

    @property
    def name(self) -> str:
        """What the cell is called."""
        return "-".join(f"{dim}{size}" for dim, size in self.layout) + f"/{self.fault}"

    @property
    def ranks(self) -> int:
        """Ranks of the layout; experts are spread over replicas."""
        return int(np.prod([size for dim, size in self.layout if dim != "ep"]))


@cache
def cells() -> Mapping[str, Callable[..., Scenario]]:
    """A maker of scenarios by the name of each cell."""
    found: dict[str, Callable[..., Scenario]] = {}
    for layout in LAYOUTS:
        kinds = program_of(_job(tuple(layout.items()), np.random.default_rng(0))).num_calls
        links = [f"link-{kind}" for kind in LINKS if kind in kinds]
        for fault in (HEALTHY, *RANK_FAULTS, "two", *links):
            cell = Cell(layout=tuple(layout.items()), fault=fault)
            found[cell.name] = partial(scenario, cell, ranks=cell.ranks)
    return found


def scenario(cell: Cell, *, seed: int = 0, ranks: int = 0, severity: float = 1.5) -> Scenario:
    """The trial of a cell; it has the layout's number of `ranks`. ValueError for another."""
    if ranks != cell.ranks:
        raise ValueError(f"{cell.name} has {cell.ranks} ranks, got {ranks}")
    rng = np.random.default_rng([seed, ranks, 5])
    job = _job(cell.layout, rng, has_kernels=cell.fault in (HEALTHY, "copy"))
    drawn = Draw(job=job, rank=int(rng.integers(ranks)), onset_step=int(rng.integers(*ONSET)))
    if cell.fault == HEALTHY:
        return Scenario(job=job)
    if cell.fault == "two":
        return _two(drawn, severity)
    if cell.fault in RANK_FAULTS:
        return _of_rank(drawn, cell.fault, severity)
    return _of_link(drawn, cell.fault.removeprefix("link-"), severity)


def _job(layout: tuple[tuple[str, int], ...], rng: np.random.Generator, *, has_kernels: bool = False) -> Job:
    sizes = dict(layout)
    stages = sizes.get("pp", 1)
    return Job(
        ranks=int(np.prod([size for dim, size in layout if dim != "ep"])),
        tp=sizes.get("tp", 1),
        cp=sizes.get("cp", 1),
        pp=stages,
        ep=sizes.get("ep", 1),
        micro_batches=MICRO_BATCHES if stages > 1 else 1,
        routing_spread=0.02 if "ep" in sizes else 0.0,
        steps=STEPS,
        step_s=float(rng.uniform(0.2, 1.5)),
        noise=QUIET,
        clock_offset_s=0.001,
        kernels=KERNELS if has_kernels else 0,
    )


def _of_rank(drawn: Draw, kind: str, severity: float) -> Scenario:
    fault = Fault(kind=kind, ranks=(drawn.rank,), severity=severity)
    return drawn.with_fault(RANK_FAULTS[kind], fault, exonerated=("link.slow",))


def _two(drawn: Draw, severity: float) -> Scenario:
    """One rank computes slower, and one half a job away waits for its data."""
    other = (drawn.rank + drawn.job.ranks // 2) % drawn.job.ranks
    one, two = _of_rank(drawn, "compute", severity), _of_rank(replace(drawn, rank=other), "data", severity)
    return replace(one, faults=(*one.faults, *two.faults), also=(two.truth,))


def _of_link(drawn: Draw, kind: str, severity: float) -> Scenario:
    name = shape_of(drawn.job).groups[kind].name_of(drawn.rank)
    group = build(layouts(drawn.job)).named[drawn.rank, name]
    members = group.ranks
    if kind == "pp":
        place = min(members.index(drawn.rank), len(members) - 2)
        members = members[place : place + 2]
    fault = Fault(kind="link", group=kind, ranks=members, severity=severity)
    return drawn.with_fault(
        "link.slow", fault, scope=f"group:{group.id}", ranks=group.ranks, exonerated=("compute.slow",)
    )


def matrix(right: Mapping[str, float]) -> tuple[str, ...]:
    """Shares of right trials by cell as lines, a layout each; what a layout has no group for is a dash."""
    faults = tuple(dict.fromkeys(name.partition("/")[2] for name in right))
    known = {name.partition("/")[0] for name in right}
    rows = ["-".join(f"{dim}{size}" for dim, size in layout.items()) for layout in LAYOUTS]
    lines = ["".join((f"{'layout':<18}", *(f"{fault:>{max(len(fault) + 1, 7)}}" for fault in faults)))]
    for row in (one for one in rows if one in known):
        shares = [right.get(f"{row}/{fault}") for fault in faults]
        told = ("–" if share is None else f"{share:.0%}" for share in shares)
        widths = (max(len(fault) + 1, 7) for fault in faults)
        lines.append(
            f"{row:<18}" + "".join(f"{text:>{width}}" for text, width in zip(told, widths, strict=True))
        )
    return tuple(lines)
