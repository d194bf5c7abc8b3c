"""Who meets whom: rounds of disjoint pairs in which everybody meets another partner each time."""

from __future__ import annotations

Round = tuple[tuple[int, int], ...]


def rounds_of(world: int, rounds: int) -> tuple[Round, ...]:
    """Up to `rounds` rounds of pairs of `world` members, by the circle method of tournaments.

    With an odd number one member rests in each round. A pair never meets twice.

    >>> rounds_of(4, 3)
    (((0, 3), (1, 2)), ((0, 2), (1, 3)), ((0, 1), (2, 3)))
    """
    if world < 2:
        return ()
    members: list[int | None] = [*range(world), *([None] if world % 2 else [])]
    found = []
    for _ in range(min(rounds, len(members) - 1)):
        half = len(members) // 2
        met = zip(members[:half], reversed(members[half:]), strict=True)
        pairs = [(min(a, b), max(a, b)) for a, b in met if a is not None and b is not None]
        found.append(tuple(sorted(pairs)))
        members = [members[0], members[-1], *members[1:-1]]
    return tuple(found)
