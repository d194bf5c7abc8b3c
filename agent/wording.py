"""Say numbers, ranks and causes the way an engineer reads them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

CAUSES = {
    "compute.slow": "computes slower than its peers",
    "compute.memory": "is slow wherever it moves memory",
    "copy.slow": "copies from and to its host slowly",
    "host.cpu_starved": "does not get the CPU",
    "host.gc": "stops for garbage collection",
    "host.jit": "compiles inside steps",
    "host.allocator": "waits for its memory allocator",
    "host.lock": "waits for a lock",
    "host.filesystem": "waits for a file system",
    "host.numa": "works across sockets",
    "data.slow_loader": "waits for its data",
    "link.slow": "transfers slowly",
    "imbalance.sequence": "waits for the longest sequences",
    "imbalance.experts": "waits for crowded experts",
    "pipeline.imbalance": "computes longer than the other stages: the model is cut unevenly",
    "stop.hang": "hangs: the job waits for it",
    "stop.lost": "is gone: the job waits for it",
    "run.changed": "is slower since it was started again",
    "step.slower": "takes longer for a step",
    "unknown": "arrives last, why is not decided",
}
"""What a suspect does, by cause class, as the end of a sentence that begins with its name."""

CAUSES_OF_MANY = {
    "compute.slow": "compute slower than their peers",
    "compute.memory": "are slow wherever they move memory",
    "copy.slow": "copy from and to their host slowly",
    "host.cpu_starved": "do not get the CPU",
    "host.gc": "stop for garbage collection",
    "host.jit": "compile inside steps",
    "host.allocator": "wait for their memory allocators",
    "host.lock": "wait for a lock",
    "host.filesystem": "wait for a file system",
    "host.numa": "work across sockets",
    "data.slow_loader": "wait for their data",
    "link.slow": "transfer slowly",
    "imbalance.sequence": "wait for the longest sequences",
    "imbalance.experts": "wait for crowded experts",
    "pipeline.imbalance": "compute longer than the other stages: the model is cut unevenly",
    "stop.hang": "hang: the job waits for them",
    "stop.lost": "are gone: the job waits for them",
    "run.changed": "are slower since the run was started again",
    "step.slower": "take longer for a step",
    "unknown": "arrive last, why is not decided",
}
"""The same of several suspects."""

UNPRICED = "stands out, what that costs is not seen"
UNPRICED_OF_MANY = "stand out, what that costs is not seen"
"""What a suspect does of an unknown cause that nobody was seen to wait for."""

UNHEARD = "is not heard of: it is gone, or only its processor or network is"
UNHEARD_OF_MANY = "are not heard of: they are gone, or only their processors or network are"
"""What a lost suspect does, what several do, while nothing else is heard of the job either."""

LEFT = "left before the rest of the group, which failed or waits"
"""What suspects did that ended in order while their peers still made calls."""

DIFFERS = "made another call than the rest of the group: the job waits"
"""What suspects of a hang did whose call is not the one most of their group are in."""

ALL_DIFFER = "hangs, its ranks made different calls: the job waits"
"""What a group does whose ranks differ in a call without a side that is most of them."""

_SHOWN_RANKS = 8

COUNTED = frozenset(
    ("allocations", "calls", "kernels", "other runs", "ranks", "saves", "steps", "times", "windows")
)
"""Units that are nouns in the plural: of one of them the last letter goes (api/web/format.js has the same)."""


def phase_name(phase: str) -> str:
    """A canonical phase as a reader would call it."""
    return {"other": "time outside named phases", "data": "data loading", "h2d": "copy to GPU"}.get(
        phase, phase
    )


SECONDS_A = "s a "
"""Begins the units of a series whose values are no times of steps but of what was counted in them."""


def quantity(value: float, unit: str = "") -> str:
    """A number with a unit a person would choose.

    >>> quantity(0.1324, "s"), quantity(71e-6, "s"), quantity(0.142, "share"), quantity(2.21, "x"), quantity(1, "ranks")
    ('132 ms', '71 µs', '14 %', '2.2×', '1 rank')
    >>> quantity(71e-6, "s a token")
    '71 µs a token'
    """
    if not math.isfinite(value):
        return "unknown"
    if unit == "s":
        return duration(value)
    if unit.startswith(SECONDS_A):
        return f"{duration(value)} {per(unit)}"
    if unit in ("share", "%"):
        return f"{_digits(value * 100)} %"
    if unit in ("x", "ratio"):
        return f"{value:.1f}×" if abs(value) < 9.95 else f"{_digits(value)}×"
    return f"{_digits(value)} {unit[:-1] if value == 1 and unit in COUNTED else unit}".strip()


def per(unit: str) -> str:
    """What the seconds of a unit are counted by: of its own work where it says which, else of a step.

    >>> per("s a token"), per("s")
    ('a token', 'a step')
    """
    return unit.removeprefix("s ") if unit.startswith(SECONDS_A) else "a step"


def counted(number: int, noun: str) -> str:
    """A count with its noun, which is given in the plural.

    >>> counted(1, "turns"), counted(12345, "tokens")
    ('1 turn', '12,345 tokens')
    """
    return f"{number:,} {noun[:-1] if number == 1 else noun}"


def duration(seconds: float) -> str:
    """Seconds in the unit that gives one to three digits before the point."""
    size = abs(seconds)
    for limit, scale, unit in (
        (1e-3, 1e6, "µs"),
        (1.0, 1e3, "ms"),
        (120.0, 1.0, "s"),
        (7200.0, 1 / 60, "min"),
    ):
        if size < limit:
            return f"{_digits(seconds * scale)} {unit}"
    return f"{_digits(seconds / 3600)} h"


LEAST_BASELINE_S = 1e-6
"""Times no longer are the rounding of what was recorded: nothing is a multiple of them."""


def versus(got: float, expected: float, *, unit: str = "s", name: str = "vs peers") -> str:
    """Two numbers side by side with their ratio.

    >>> versus(0.132, 0.061)
    '132 ms vs peers 61 ms (2.2×)'
    """
    text = f"{quantity(got, unit)} {name} {quantity(expected, unit)}"
    least = LEAST_BASELINE_S if unit == "s" else 0.0
    return f"{text} ({quantity(got / expected, 'x')})" if expected > least and got > 0 else text


def scope_name(scope: str) -> str:
    """Where a cause lies that accuses no rank, as a reader would call it.

    >>> scope_name("run:llm-7b"), scope_name("stage:3"), scope_name("group:dp/0")
    ('run llm-7b', 'stage 3', 'group dp/0')
    """
    kind, _, name = scope.partition(":")
    return f"{kind} {name}".strip()


def ranks(numbers: Sequence[int]) -> str:
    """Ranks as a phrase, long lists cut.

    >>> ranks([3]), ranks([0, 1, 2, 5])
    ('rank 3', 'ranks 0–2, 5')
    """
    return ranks_as(numbers, str)


def ranks_as(numbers: Sequence[int], shown_as: Callable[[int], str]) -> str:
    """The phrase of `ranks` with each number that it names as `shown_as` has it.

    >>> ranks_as([7, 8, 9], "<{}>".format)
    'ranks <7>–<9>'
    """
    if not numbers:
        return "no rank"
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = []
    for first, last in runs[:_SHOWN_RANKS]:
        ends = [shown_as(first)] if first == last else [shown_as(first), shown_as(last)]
        parts.append((", " if last == first + 1 else "–").join(ends))
    shown = ", ".join(parts) + (", …" if len(runs) > _SHOWN_RANKS else "")
    return f"rank {shown}" if len(set(numbers)) == 1 else f"ranks {shown}"


def does(fault_class: str, *, is_many: bool = False) -> str:
    """What one suspect, or several, does: the end of a sentence that begins with its name.

    >>> does("stop.hang"), does("stop.hang", is_many=True)
    ('hangs: the job waits for it', 'hang: the job waits for them')
    """
    known = CAUSES_OF_MANY if is_many else CAUSES
    return known.get(fault_class, f"{'are' if is_many else 'is'} affected: {fault_class}")


def printable(text: str) -> str:
    """Text of others, safe for a terminal: control characters become question marks.

    >>> printable("rank\x1b[2J 3")
    'rank?[2J 3'
    """
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def ended(text: str) -> str:
    """Text of others as the end of a sentence: with a full stop where nothing ends it.

    >>> ended("the server fails (500)"), ended('it says "too many tokens."')
    ('the server fails (500).', 'it says "too many tokens."')
    """
    return text if text.rstrip("\"')").endswith((".", "!", "?", "…")) else f"{text}."


def clip(text: str, limit: int) -> str:
    """At most `limit` characters, cut at a word."""
    if len(text) <= limit:
        return text
    return text[: limit - 1].rsplit(" ", 1)[0].rstrip(",;: ") + "…"


def _digits(value: float) -> str:
    size = abs(value)
    if size >= 100 or value == 0 or abs(value - round(value)) < 0.005 and size >= 1:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 1 else f"{value:.2g}"
