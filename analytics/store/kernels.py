"""Packed kernel summaries in the store: written once, read whole or one kernel at a time, kept for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import Connection, delete, func, literal, select, union_all

from argus.analytics.store.engine import insert_new, upsert
from argus.analytics.store.intake import CHUNK, Arrival, AttemptKey, AttemptRow
from argus.analytics.store.kernel_tables import KERNEL_BLOBS, KERNEL_NAMES
from argus.collectors.records.errors import WireError
from argus.collectors.records.events import Rows
from argus.collectors.records.kernel_blob import HEAD, INDEX, RANK
from argus.collectors.records.kernel_read import Blob, Clusters, bundle, open_blob, read

FRONT_BYTES = 8192
"""Head and index of most blobs: 380 kernels; what is longer takes a second look."""

HOSTS_AT_ONCE = 64
"""Blobs cut with one statement: few enough for every database's limit of parameters."""

PRUNED_AT_ONCE = 256
"""Blobs, or names, deleted in one transaction, so that the intake never waits long."""

NAMES_SEEN_EVERY_S = 86400.0
"""How often a name that is used all the time is noted as seen."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """Content hashes that blobs use: those somebody has defined, and those nobody has yet."""

    known: AbstractSet[int]
    unknown: AbstractSet[int]


def add_kernels(
    connection: Connection,
    uploads: Sequence[Sequence[Arrival]],
    *,
    attempts: Mapping[AttemptKey, AttemptRow],
    known: AbstractSet[int] = frozenset(),
    now_s: float,
) -> list[Named]:
    """Store the blobs that came with rank windows of several uploads; the store is not asked for the names in `known`.

    The blobs are checked by the intake before.
    """
    names: dict[int, str] = {}
    used: list[set[int]] = []
    rows = []
    for arrival_blobs in ([(one, open_blob(one.kernels)) for one in upload] for upload in uploads):
        used.append(set())
        for arrival, blob in arrival_blobs:
            names |= blob.texts()
            used[-1] |= {*blob.index["name"].tolist(), *blob.index["role"].tolist()}
            rows.append(
                _row(arrival, blob, attempt_id=attempts[arrival.run, arrival.attempt].id, now_s=now_s)
            )
    if rows:
        connection.execute(insert_new(connection, KERNEL_BLOBS), rows)
    new = {key: name for key, name in names.items() if key not in known}
    found = {**names_of(connection, set().union(*used) - new.keys() - known), **new}
    if found:
        # All at once and in one order, lest two who name the same kernels wait for each other.
        seen = [{"hash": f"{key:x}", "name": name, "seen_s": now_s} for key, name in sorted(found.items())]
        connection.execute(upsert(connection, KERNEL_NAMES, set_=("seen_s",)), seen)
    return [Named(known=found.keys() & mine, unknown=mine - found.keys() - known) for mine in used]


def _row(arrival: Arrival, blob: Blob, *, attempt_id: int, now_s: float) -> dict[str, object]:
    return {
        "attempt_id": attempt_id,
        "window": arrival.window,
        "host": arrival.host,
        "rank": int(blob.ranks["rank"][0]),
        "received_s": now_s,
        "num_bytes": len(arrival.kernels),
        "body": arrival.kernels,
    }


def names_of(connection: Connection, keys: Collection[int]) -> dict[int, str]:
    """Definitions of content hashes, as far as they have come in."""
    wanted = sorted(f"{key:x}" for key in keys)
    found: dict[int, str] = {}
    for start in range(0, len(wanted), CHUNK):
        here = KERNEL_NAMES.c.hash.in_(wanted[start : start + CHUNK])
        for row in connection.execute(select(KERNEL_NAMES).where(here)):
            found[int(row.hash, 16)] = row.name
    return found


def blobs_of(connection: Connection, attempt_id: int, window: int) -> list[bytes]:
    """All blobs of a window, by host."""
    here = (KERNEL_BLOBS.c.attempt_id == attempt_id, KERNEL_BLOBS.c.window == window)
    statement = select(KERNEL_BLOBS.c.body).where(*here).order_by(KERNEL_BLOBS.c.host, KERNEL_BLOBS.c.rank)
    return list(connection.execute(statement).scalars())


def readable(bodies: Iterable[bytes]) -> tuple[tuple[bytes, ...], Mapping[str, int]]:
    """Blobs whose head this side can read, and how many cannot be read by reason: another version wrote them."""
    kept: list[bytes] = []
    refused: Counter[str] = Counter()
    for body in bodies:
        try:
            open_blob(body).texts()
        except WireError as error:
            refused[str(error)] += 1
        else:
            kept.append(body)
    return tuple(kept), refused


def used_names(connection: Connection, blobs: Iterable[bytes]) -> dict[int, str]:
    """Definitions of the names that blobs use and do not bring along."""
    used: set[int] = set()
    for body in blobs:
        blob = open_blob(body)
        used |= {*blob.index["name"].tolist(), *blob.index["role"].tolist()} - blob.texts().keys()
    return names_of(connection, used)


def read_kernel(
    connection: Connection, attempt_id: int, window: int, *, key: tuple[int, int]
) -> Iterator[tuple[str, Blob, Clusters]]:
    """One kernel (name hash, role hash) of a window, host by host, without the others' bytes."""
    here = (KERNEL_BLOBS.c.attempt_id == attempt_id, KERNEL_BLOBS.c.window == window)
    columns = (KERNEL_BLOBS.c.host, KERNEL_BLOBS.c.rank, KERNEL_BLOBS.c.num_bytes)
    front = func.substr(KERNEL_BLOBS.c.body, 1, FRONT_BYTES)
    rows = connection.execute(select(*columns, front).where(*here)).all()

    def parts(wanted: Sequence[_Part]) -> list[bytes]:
        return _parts(connection, wanted, attempt_id=attempt_id, window=window)

    for start in range(0, len(rows), HOSTS_AT_ONCE):
        blobs = [
            _Stored(host=host, rank=rank, num_bytes=num_bytes, front=bytes(begin))
            for host, rank, num_bytes, begin in rows[start : start + HOSTS_AT_ONCE]
        ]
        yield from _alone(_whole_fronts(blobs, parts), key, parts)


_Part = tuple[str, int, int, int]
"""Host, rank, first byte and number of bytes of a stored blob."""


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """A stored blob of which the first bytes were read."""

    host: str
    rank: int
    num_bytes: int
    front: bytes

    @property
    def start(self) -> int:
        """Where the chunks begin."""
        ranks, kernels = HEAD.unpack_from(self.front)[3:5]
        return int(HEAD.size + ranks * RANK.itemsize + kernels * INDEX.itemsize)

    @property
    def index(self) -> Rows:
        """Its entries."""
        ranks, kernels = HEAD.unpack_from(self.front)[3:5]
        return np.frombuffer(self.front, INDEX, kernels, HEAD.size + ranks * RANK.itemsize)


def _parts(connection: Connection, wanted: Sequence[_Part], *, attempt_id: int, window: int) -> list[bytes]:
    """Stretches of stored blobs, in the order they were asked for."""
    if not wanted:
        return []
    rows = [
        select(
            literal(n).label("n"),
            literal(host).label("host"),
            literal(rank).label("rank"),
            literal(first).label("first"),
            literal(size).label("size"),
        )
        for n, (host, rank, first, size) in enumerate(wanted)
    ]
    asked = union_all(*rows).cte("asked")
    cut = func.substr(KERNEL_BLOBS.c.body, asked.c.first + 1, asked.c.size)
    statement = select(asked.c.n, cut).where(
        KERNEL_BLOBS.c.attempt_id == attempt_id,
        KERNEL_BLOBS.c.window == window,
        KERNEL_BLOBS.c.host == asked.c.host,
        KERNEL_BLOBS.c.rank == asked.c.rank,
    )
    found = connection.execute(statement.order_by(asked.c.n)).all()
    return [bytes(body) for _, body in found]


def _whole_fronts(blobs: Sequence[_Stored], parts: Callable[[Sequence[_Part]], list[bytes]]) -> list[_Stored]:
    """The blobs with all of their heads and indices."""
    short = [one for one in blobs if len(one.front) < one.start]
    rest = parts([(one.host, one.rank, len(one.front), one.start - len(one.front)) for one in short])
    longer = {id(one): one.front + more for one, more in zip(short, rest, strict=True)}
    return [replace(one, front=longer.get(id(one), one.front)[: one.start]) for one in blobs]


def _alone(
    blobs: Sequence[_Stored], key: tuple[int, int], parts: Callable[[Sequence[_Part]], list[bytes]]
) -> Iterator[tuple[str, Blob, Clusters]]:
    """The blobs that have the kernel, with its clusters."""
    places: list[tuple[_Stored, int, int, int]] = []
    for one in blobs:
        index, size = one.index, int(HEAD.unpack_from(one.front)[5])
        found = np.flatnonzero((index["name"] == np.uint64(key[0])) & (index["role"] == np.uint64(key[1])))
        if len(found):
            entry = int(found[0])
            last = int(index["offset"][entry + 1]) if entry + 1 < len(index) else size
            places.append((one, entry, int(index["offset"][entry]), last))
    chunks = parts([(one.host, one.rank, one.start + first, last - first) for one, _, first, last in places])
    opened, entries, before = [], [], 0
    for (one, entry, first, last), chunk in zip(places, chunks, strict=True):
        # Zeros stand where the others' bytes would be: only this entry is read.
        opened.append(open_blob(one.front + bytes(first) + chunk + bytes(one.num_bytes - one.start - last)))
        entries.append(before + entry)
        before += len(opened[-1].index)
    rows = read(bundle(opened), entries=np.array(entries, np.int64))
    for n, ((one, *_), blob) in enumerate(zip(places, opened, strict=True)):
        yield one.host, blob, rows.of(n)


def prune_kernels(connection: Connection, *, before_s: float, max_bytes: int) -> int:
    """Delete what came in before `before_s`, then the oldest until no more than `max_bytes` are kept.

    Returns how many blobs went; call again while it is `PRUNED_AT_ONCE`.
    """
    key = (
        KERNEL_BLOBS.c.attempt_id,
        KERNEL_BLOBS.c.window,
        KERNEL_BLOBS.c.host,
        KERNEL_BLOBS.c.rank,
    )
    total = connection.execute(select(func.coalesce(func.sum(KERNEL_BLOBS.c.num_bytes), 0))).scalar_one()
    statement = select(*key, KERNEL_BLOBS.c.received_s, KERNEL_BLOBS.c.num_bytes)
    oldest = connection.execute(statement.order_by(KERNEL_BLOBS.c.received_s).limit(PRUNED_AT_ONCE)).all()
    gone = 0
    for row in oldest:
        if row.received_s >= before_s and total <= max_bytes:
            break
        connection.execute(
            delete(KERNEL_BLOBS).where(*(column == row._mapping[column.name] for column in key))
        )
        total -= row.num_bytes
        gone += 1
    return gone


def prune_names(connection: Connection, *, before_s: float) -> int:
    """Delete names that no summary from `before_s` on uses; as many at once, and the same way, as blobs."""
    last_s = before_s - 2 * NAMES_SEEN_EVERY_S
    # Locked in the order in which they are written, see add_kernels.
    old = select(KERNEL_NAMES.c.hash).where(KERNEL_NAMES.c.seen_s < last_s).order_by(KERNEL_NAMES.c.hash)
    hashes = connection.execute(old.limit(PRUNED_AT_ONCE).with_for_update()).scalars().all()
    connection.execute(delete(KERNEL_NAMES).where(KERNEL_NAMES.c.hash.in_(hashes)))
    return len(hashes)
