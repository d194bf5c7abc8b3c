"""Groups of all ranks, from records of several sources: the most trusted is used, contradictions are told."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from argus.collectors.records.kernel_names import group_kind
from argus.collectors.records.layout import Layout
from argus.topology.groups import KINDS, Group, kind_of, settle_data_kinds
from argus.topology.identity import Declared, Identity
from argus.topology.infer import coordinates, kinds_by_pattern

MAX_SHOWN = 8
"""Ranks of a group spelt out in a sentence."""

Ranks = tuple[int, ...]
Rows = dict[int, Ranks]  # interned members by identity: comparing and hashing long tuples costs
Claims = dict[str, Rows]  # kind → groups a rank says it is in


@dataclass(frozen=True, kw_only=True)
class Merged:
    """Groups of all ranks and what follows from them."""

    groups: tuple[Group, ...]
    named: Mapping[tuple[int, str], Group]
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dims: tuple[str, ...] = ()
    coords: Mapping[int, Ranks] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    inferred: tuple[str, ...] = ()


def merge_groups(who: Identity, *, declared: Sequence[Declared], conflicts: list[str]) -> Merged:
    """Groups of every rank by the order of trust, their kinds, coordinates and conflicts."""
    interned = _Interned(who.world_size)
    kinds, inferred = _kinds(who, interned)
    claims, names, sources = _claims(who, kinds, interned, conflicts)
    fitting = [item for item in declared if item.parallel.world_size == who.world_size]
    agreed = [item for item in fitting if _declare(item, claims, sources, interned, conflicts)]
    members: dict[tuple[str, int], _Member] = {}
    for rank, said in claims.items():
        for kind, rows in said.items():
            for at, row in rows.items():
                member = members.setdefault((kind, at), (kind, row, []))
                member[2].extend((rank, name) for name in names.get((rank, kind, at), ()))
    found = sorted(members.values(), key=lambda member: member[:2])
    found = found or [("world", tuple(range(who.world_size)), [])]
    _check_overlap(found, conflicts)
    groups, named = _number(found)
    dims, coords = coordinates(groups, who.world_size)
    if agreed:
        dims, rows_of = agreed[0].parallel.coords()
        coords = dict(enumerate(rows_of))
    return Merged(
        groups=groups,
        named=named,
        roles=_roles(kinds),
        dims=dims,
        coords=coords,
        sources=sources,
        inferred=tuple(inferred),
    )


_Member = tuple[str, Ranks, list[tuple[int, str]]]


def _number(members: Sequence[_Member]) -> tuple[tuple[Group, ...], dict[tuple[int, str], Group]]:
    numbers: dict[str, int] = defaultdict(int)
    groups: list[Group] = []
    named: dict[tuple[int, str], Group] = {}
    for kind, ranks, names in members:
        group = Group(id=f"{kind}/{numbers[kind]}", kind=kind, desc=kind, ranks=ranks)
        numbers[kind] += 1
        groups.append(group)
        named.update(dict.fromkeys(names, group))
    return tuple(groups), named


class _Interned:
    """Each distinct list of members once, sorted: records of 10,000 ranks share few of them."""

    def __init__(self, world_size: int) -> None:
        self._every = tuple(range(world_size))
        self._by_id: dict[int, tuple[Ranks, Ranks]] = {}
        self._by_value: dict[Ranks, Ranks] = {}

    def __call__(self, ranks: Ranks) -> Ranks:
        """The one tuple for these members; an empty list, as for the world, is every rank."""
        known = self._by_id.get(id(ranks))
        if known is None:
            value = tuple(sorted(ranks)) or self._every
            known = (ranks, self._by_value.setdefault(value, value))
            self._by_id[id(ranks)] = known  # holds `ranks`, so that its identity stays its own
        return known[1]


Kinds = dict[tuple[str, int], str]  # (description, identity of the interned members) → kind


def _kinds(who: Identity, interned: _Interned) -> tuple[Kinds, list[str]]:
    """Kind of each group any record names, and the kinds that were guessed."""
    found: Kinds = {}
    members: dict[int, Ranks] = {}
    for rows in who.records.values():
        for info in (info for row in rows for info in row.groups):
            ranks = interned(info.ranks)
            key = (info.desc, id(ranks))
            if key not in found:
                members[id(ranks)] = ranks
                found[key] = kind_of(info.desc, size=len(ranks), world_size=who.world_size)
    new = settle_data_kinds(set(found.values()))
    found = {key: new.get(kind, kind) for key, kind in found.items()}
    unnamed = [members[at] for (_, at), kind in found.items() if _is_unnamed(kind)]
    taken = {kind for kind in found.values() if not _is_unnamed(kind)}
    guessed = {
        id(interned(ranks)): kind
        for ranks, kind in kinds_by_pattern(unnamed, who.world_size).items()
        if kind not in taken
    }
    for key, kind in found.items():
        if _is_unnamed(kind):
            found[key] = guessed.get(key[1], kind)
    return found, sorted(set(guessed.values()))


def _roles(kinds: Kinds) -> dict[str, tuple[str, ...]]:
    """Kinds behind what stream roles call a group; `world` stands for every group without a description."""
    found: dict[str, set[str]] = defaultdict(set)
    for (desc, _), kind in kinds.items():
        found[group_kind(desc)].add(kind)
    found.pop("world", None)
    return {role: tuple(sorted(some)) for role, some in found.items()}


def _is_unnamed(kind: str) -> bool:
    return kind == "other" or kind.startswith("dim_")


class _Disputes:
    """Where two sources differ on a kind: the first example and how many ranks, as one sentence each."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], list[str]] = defaultdict(list)

    def add(self, kind: str, *, used: str, other: str, rank: int, ours: Rows, theirs: Rows) -> None:
        """One rank for which the sources differ."""
        text = f"rank {rank} in {_show(ours.values())} and in {_show(theirs.values())}"
        self._found[kind, used, other].append(text)

    def tell(self, conflicts: list[str]) -> bool:
        """Add the sentences; True if there were any."""
        for (kind, used, other), texts in self._found.items():
            conflicts.append(
                f"{kind} groups differ between {used} and {other}: {texts[0]} ({len(texts)} ranks); "
                f"{used} is used"
            )
        return bool(self._found)


Names = dict[tuple[int, str, int], list[str]]


def _claims(
    who: Identity, kinds: Kinds, interned: _Interned, conflicts: list[str]
) -> tuple[dict[int, Claims], Names, dict[str, str]]:
    """Per rank and kind the groups its most trusted source names; where others differ, a conflict."""
    claims: dict[int, Claims] = {}
    names: Names = defaultdict(list)
    sources: dict[str, str] = {}
    disputes = _Disputes()
    for rank, records in who.records.items():
        mine: Claims = {}
        used: dict[str, str] = {}
        for record in records:
            said = _said(record, kinds, interned, names, conflicts)
            for kind, rows in said.items():
                if kind not in mine:
                    mine[kind], used[kind] = rows, record.source
                    sources.setdefault(f"group:{kind}", record.source)
                elif mine[kind].keys() != rows.keys() and kind in KINDS:
                    disputes.add(
                        kind, used=used[kind], other=record.source, rank=rank, ours=mine[kind], theirs=rows
                    )
        claims[rank] = mine
    disputes.tell(conflicts)
    return claims, names, sources


def _said(record: Layout, kinds: Kinds, interned: _Interned, names: Names, conflicts: list[str]) -> Claims:
    said: Claims = {}
    for info in record.groups:
        members = interned(info.ranks)
        kind = kinds[info.desc, id(members)]
        if not _holds(members, record.rank):
            conflicts.append(f"rank {record.rank} reports group {info.name!r} of ranks it is not part of")
            continue
        said.setdefault(kind, {})[id(members)] = members
        names[record.rank, kind, id(members)].append(info.name)
    return said


def _holds(members: Ranks, rank: int) -> bool:
    at = bisect_left(members, rank)
    return at < len(members) and members[at] == rank


def _declare(
    item: Declared,
    claims: dict[int, Claims],
    sources: dict[str, str],
    interned: _Interned,
    conflicts: list[str],
) -> bool:
    """Fill in what no record says; False, and a conflict per kind, where records say otherwise."""
    disputes = _Disputes()
    for group in item.parallel.groups():
        row = interned(group.ranks)
        for rank in row:
            said = claims.setdefault(rank, {})
            if group.kind not in said:
                said[group.kind] = {id(row): row}
                sources.setdefault(f"group:{group.kind}", item.source)
            elif id(row) not in said[group.kind]:
                used = sources.get(f"group:{group.kind}", "a record")
                disputes.add(
                    group.kind,
                    used=used,
                    other=item.label,
                    rank=rank,
                    ours=said[group.kind],
                    theirs={id(row): row},
                )
    return not disputes.tell(conflicts)


def _check_overlap(members: Sequence[_Member], conflicts: list[str]) -> None:
    """Members of a group must name the same group: a rank in two of one kind is a contradiction."""
    seen: dict[str, dict[int, Ranks]] = defaultdict(dict)
    told: set[str] = set()
    for kind, row, _ in members:
        if kind not in KINDS or kind in told:
            continue
        for member in row:
            other = seen[kind].setdefault(member, row)
            if other is not row:
                told.add(kind)
                conflicts.append(
                    f"rank {member} is in {kind} group {_show([other])} and in {_show([row])}; both are kept"
                )
                break


def _show(groups: Iterable[Ranks]) -> str:
    texts = []
    for row in sorted(groups):
        shown = ", ".join(map(str, row[:MAX_SHOWN]))
        texts.append(f"[{shown}{', …' if len(row) > MAX_SHOWN else ''}]")
    return " ".join(texts[:3])
