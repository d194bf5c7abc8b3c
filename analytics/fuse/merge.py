"""One cause per suspect: what a later rule says of the same ranks is more evidence, not another incident."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from argus.analytics.incident import Cause
from argus.analytics.lifecycle import is_same_place
from argus.analytics.same_cause import is_wider


def one_per_suspect(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Causes in their order; one whose suspects an earlier one of the same nature holds is folded into it, and earlier
    ones that a later one of their class sees of more ranks into that."""
    kept: list[Cause] = []
    for cause in causes:
        for part in [known for known in kept if is_wider(known, cause)]:
            kept.remove(part)
            cause = _folded(cause, part)
        at = next((n for n, known in enumerate(kept) if _is_same(known, cause)), None)
        if at is None:
            kept.append(cause)
        else:
            kept[at] = _folded(kept[at], cause)
    return tuple(kept)


def _is_same(known: Cause, cause: Cause) -> bool:
    """A slow link and a slow member of its group are two causes, and their rules have told them apart."""
    if (known.fault_class == "link.slow") != (cause.fault_class == "link.slow"):
        return False
    same_place = is_same_place(known, cause)
    if cause.fault_class == "link.slow":
        return same_place or bool(set(known.paths) & set(cause.paths))
    return same_place or (bool(cause.suspects) and set(cause.suspects) <= set(known.suspects))


def _folded(known: Cause, cause: Cause) -> Cause:
    """The earlier cause with the later one's evidence."""
    names = {item.name for item in known.evidence}
    return replace(
        known,
        evidence=(*known.evidence, *(item for item in cause.evidence if item.name not in names)),
        findings=tuple(dict.fromkeys((*known.findings, *cause.findings))),
        paths=tuple(dict.fromkeys((*known.paths, *cause.paths))),
        onset_step=min(known.onset_step, cause.onset_step),
    )
