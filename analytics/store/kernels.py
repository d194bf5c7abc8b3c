"""Packed kernel summaries in the store: written once, read whole or one kernel at a time, kept for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from sqlalchemy import Connection, bindparam, delete, func, select

from argus.analytics.store.engine import insert_new
from argus.analytics.store.intake import CHUNK, Arrival, AttemptKey, AttemptRow
from argus.analytics.store.kernel_tables import KERNEL_BLOBS, KERNEL_NAMES
from argus.collectors.records.errors import WireError
from argus.collectors.records.kernel_blob import HEAD, INDEX, RANK
from argus.collectors.records.kernel_read import Blob, Clusters, bundle, open_blob, read

FRONT_BYTES = 8192
"""Head and index of most blobs: 380 kernels; what is longer takes a second look."""

PRUNED_AT_ONCE = 2000
"""Blobs deleted in one transaction, so that the intake never waits long."""


def add_kernels(
    connection: Connection,
    arrivals: Sequence[Arrival],
    *,
    attempts: Mapping[AttemptKey, AttemptRow],
    now_s: float,
) -> set[int]:
    """Store the blobs that came with rank windows; returns the names nobody has defined yet.

    The blobs are checked by the intake before.
    """
    names: dict[int, str] = {}
    rows, used = [], set()
    for arrival in arrivals:
        blob = open_blob(arrival.kernels)
        names |= blob.texts()
        used |= {*blob.index["name"].tolist(), *blob.index["role"].tolist()}
        rows.append(
            {
                "attempt_id": attempts[arrival.run, arrival.attempt].id,
                "window": arrival.window,
                "host": arrival.host,
                "rank": int(blob.ranks["rank"][0]),
                "received_s": now_s,
                "num_bytes": len(arrival.kernels),
                "body": arrival.kernels,
            }
        )
    if not rows:
        return set()
    connection.execute(insert_new(connection, KERNEL_BLOBS), rows)
    if names:
        texts = [{"hash": f"{key:x}", "name": name} for key, name in sorted(names.items())]
        connection.execute(insert_new(connection, KERNEL_NAMES), texts)
    known = names_of(connection, used - names.keys())
    return used - names.keys() - known.keys()


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
    mine = (KERNEL_BLOBS.c.host == bindparam("h"), KERNEL_BLOBS.c.rank == bindparam("r"))
    cut = select(func.substr(KERNEL_BLOBS.c.body, bindparam("b"), bindparam("n"))).where(*here, *mine)
    for host, rank, num_bytes, begin in connection.execute(select(*columns, front).where(*here)).all():

        def part(first: int, last: int, host: str = host, rank: int = rank) -> bytes:
            where = {"b": first + 1, "n": last - first, "h": host, "r": rank}
            return bytes(connection.execute(cut, where).scalar_one())

        alone = _one_entry(bytes(begin), num_bytes, key=key, part=part)
        if alone is not None:
            blob, entry = alone
            yield host, blob, read(bundle([blob]), entries=np.array([entry]))


def _one_entry(
    front: bytes, num_bytes: int, *, key: tuple[int, int], part: Callable[[int, int], bytes]
) -> tuple[Blob, int] | None:
    """A blob of which only the front and the chunk of `key` are there; None if it has no such kernel."""
    ranks, kernels, size = HEAD.unpack_from(front)[3:6]
    start = HEAD.size + ranks * RANK.itemsize + kernels * INDEX.itemsize
    front = front[:start] if len(front) >= start else front + part(len(front), start)
    index = np.frombuffer(front, INDEX, kernels, HEAD.size + ranks * RANK.itemsize)
    found = np.flatnonzero((index["name"] == np.uint64(key[0])) & (index["role"] == np.uint64(key[1])))
    if not len(found):
        return None
    entry = int(found[0])
    first = int(index["offset"][entry])
    last = int(index["offset"][entry + 1]) if entry + 1 < kernels else size
    chunk = bytes(first) + part(start + first, start + last)
    # Zeros stand where the others' bytes would be: only this entry is read.
    return open_blob(front + chunk + bytes(num_bytes - start - len(chunk))), entry


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
