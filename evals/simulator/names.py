"""String tables of simulated ranks: the same places for all, but for what their groups are called."""

from __future__ import annotations

from dataclasses import dataclass

from argus.collectors.records.events import PHASES
from argus.evals.simulator.groups import WORLD_NAME, Shape, shape_of
from argus.evals.simulator.job import Job
from argus.evals.simulator.kernel_rows import kernel_texts
from argus.evals.simulator.program import PAUSES, natives_of, program_of

OPS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send", "recv")
UNITS = ("tokens", "sum_len2", "expert_tokens")


@dataclass(frozen=True, kw_only=True)
class Names:
    """`common` strings, then one per kind of group."""

    common: tuple[str, ...]
    kinds: tuple[str, ...]
    natives: dict[str, str]
    places: dict[str, int]
    shape: Shape

    def __getitem__(self, text: str) -> int:
        return self.places[text]

    def group(self, kind: str) -> int:
        """Place of the name of the rank's own group of a kind."""
        return len(self.common) + self.kinds.index(kind)

    def role(self, group: int) -> int:
        """Place of the stream role of the calls of a group, which is given by its place."""
        return self.places[role_of(self.kinds[group - len(self.common)], self.shape)]

    def native(self, phase: str) -> str:
        """What the framework calls a phase."""
        return self.natives[phase]

    def of_rank(self, rank: int) -> tuple[str, ...]:
        """A rank's string table."""
        own = (
            WORLD_NAME if kind == "world" else self.shape.groups[kind].name_of(rank) for kind in self.kinds
        )
        return (*self.common, *own)


def role_of(kind: str, shape: Shape) -> str:
    """Stream role of the calls of a kind of group; gradients over all ranks run in the world's stream."""
    is_world = kind == "world" or shape.groups[kind].names == (WORLD_NAME,)
    return "comm:world" if is_world else f"comm:{kind}"


def names_of(job: Job) -> Names:
    """Every string the job's records use, the empty one first."""
    natives = natives_of(job)
    events = ("gc", "loader_wait", "compile", "alloc_retry", *(f"mark:{name}" for name in PAUSES))
    texts = ("", *PHASES, *natives.values(), *OPS, *events, *(f"work:{unit}" for unit in UNITS))
    kinds = tuple(program_of(job).num_calls)
    roles = [role_of(kind, shape_of(job)) for kind in kinds] if job.kernels else []
    common = tuple(dict.fromkeys((*texts, *kernel_texts(job.kernels), *roles)))
    return Names(
        common=common,
        kinds=kinds,
        natives=natives,
        places={text: place for place, text in enumerate(common)},
        shape=shape_of(job),
    )
