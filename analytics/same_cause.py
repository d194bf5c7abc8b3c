"""Whether a cause is what an open incident speaks of already: in part, as a whole, or with a better name."""

from __future__ import annotations

from collections.abc import Sequence

from argus.analytics.ballots import VOTE_WINDOWS, Ballot
from argus.analytics.classify import classify
from argus.analytics.cost import price_of
from argus.analytics.incident import Cause, Incident
from argus.analytics.lifecycle import is_stop


def member_of(incidents: Sequence[Incident], cause: Cause) -> Incident | None:
    """An open incident that already holds the cause's suspects: the same cause seen in part or as a whole."""
    return next(
        (i for i in incidents if i.status == "open" and not is_stop(i) and is_part(i.cause, cause)), None
    )


def that_it_may_name(incidents: Sequence[Incident], cause: Cause) -> list[Incident]:
    """The incidents but those of which the cause names some ranks and leaves the others without a reason."""
    return [i for i in incidents if not _is_news(i.cause, cause) or is_covered(i.cause, cause)]


UNNAMED = ("unknown", "step.slower")
"""Classes that say only that something is slow."""

EXPLAINS = 0.5
"""A cause that costs half of what the job became slower by is why."""


def is_named_now(known: Cause, cause: Cause) -> bool:
    """Whether a cause says why, and of all the ranks of which the known one says only that something is slow."""
    return _is_news(known, cause) and is_covered(known, cause)


BY_TIMING = frozenset({"compute.slow", "data.slow_loader", "host.gc", "host.cpu_starved"})
"""Classes told by where a rank's own time is lost; what stacks or kernels showed is not taken back by timing."""


def is_other_now(known: Cause, cause: Cause, ballots: Sequence[Ballot]) -> bool:
    """Whether the known ranks are slow by something else by now.

    Each of the last windows must say so by itself, and clearly: two faults that weigh the same must not take turns.
    """
    if known.fault_class == cause.fault_class or not {known.fault_class, cause.fault_class} <= BY_TIMING:
        return False
    return (
        len(ballots) >= VOTE_WINDOWS
        and bool(cause.suspects)
        and is_covered(known, cause)
        and all(_is_clearly(cause, ballot) for ballot in ballots[-VOTE_WINDOWS:])
    )


def _is_clearly(cause: Cause, ballot: Ballot) -> bool:
    """Whether the window alone gives all of the cause's suspects its class."""
    alone = {s.rank: classify((s,)) for s in ballot.ranks if s.rank in cause.suspects}
    clear = [one for one in alone.values() if one.is_clear and one.fault_class == cause.fault_class]
    return len(clear) == len(cause.suspects)


def is_covered(known: Cause, cause: Cause) -> bool:
    """Whether no suspect of the known cause is left out: each is one of this cause's, or of the object it accuses."""
    is_same_object = known.scope == cause.scope and not known.scope.startswith("run:")
    return is_same_object or set(known.suspects) <= set(cause.suspects)


def _is_news(known: Cause, cause: Cause) -> bool:
    return known.fault_class in UNNAMED and cause.fault_class not in UNNAMED


def is_wider(known: Cause, cause: Cause) -> bool:
    """Whether the same is seen now of more ranks, which one object holds; where nobody is accused there are none."""
    return (
        bool(known.suspects)
        and cause.fault_class == known.fault_class != "link.slow"
        and cause.scope != known.scope
        and set(known.suspects) < set(cause.suspects)
    )


def is_part(known: Cause, cause: Cause) -> bool:
    """Whether both speak of the same ranks, or of the same paths, or of all that the job became slower by."""
    if known.fault_class == "step.slower":
        return price_of(cause) >= EXPLAINS * known.s_per_step
    if "link.slow" in (known.fault_class, cause.fault_class):
        return bool(set(known.paths) & set(cause.paths))
    return bool(set(known.suspects) & set(cause.suspects))
