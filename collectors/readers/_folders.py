"""Ranks of files that count them within their host's folder: `node0/rank0.json`, `node1/rank0.json`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath, PurePosixPath

from argus.collectors.readers import Reading

_HOST = re.compile(r"^(.*(?:node|host|machine|server)[-_.]?)(\d{1,6})$", re.IGNORECASE)

File = tuple[str, Sequence[Reading]]


def counted_over_folders(files: Sequence[File]) -> tuple[list[File], tuple[str, ...]]:
    """The files of named hosts' folders with ranks of the job, and a sentence about that; else as they are.

    Only where nothing but names says the ranks, each host's folder has the same ones from 0 on, folders are numbered
    one after the other, and their groups name exactly as many ranks as there are files.
    """
    found = [(PurePosixPath(name).parent, one) for name, readings in files for one in readings]
    folders = sorted({folder for folder, _ in found}, key=_number)
    if not are_hosts(folders) or not _count_within(folders, found):
        return list(files), ()
    size = len(found) // len(folders)
    moved: list[File] = []
    for name, readings in files:
        folder = PurePosixPath(name).parent
        base = folders.index(folder) * size if folder in folders else 0
        moved.append((name, [_moved(one, base, folder.name) for one in readings]))
    span = f"{folders[0].name} to {folders[-1].name}"
    taken = f"they are taken as ranks 0 to {len(found) - 1} in the folders' order"
    return moved, (f"the ranks in the files' names count within the folders {span}: {taken}",)


def are_hosts(folders: Sequence[PurePath]) -> bool:
    """Whether they are several of one name but for their numbers, which follow on one another."""
    names = {(folder.parent, _HOST.sub(r"\1", folder.name)) for folder in folders}
    numbers = [_number(folder) for folder in folders]
    is_named = len(folders) > 1 and numbers[0] >= 0 and len(names) == 1
    return is_named and numbers == list(range(numbers[0], numbers[0] + len(folders)))


def _count_within(folders: Sequence[PurePosixPath], found: Sequence[tuple[PurePosixPath, Reading]]) -> bool:
    """Whether every folder's ranks are told by names alone and begin at 0, as many as in the others, and all of them
    are the job."""
    each = [sorted(one.records.layout.rank for at, one in found if at == folder) for folder in folders]
    return (
        all(one.is_rank_named for _, one in found)
        and all(ranks == list(range(len(each[0]))) for ranks in each)
        and {one.records.layout.world_size for _, one in found} == {len(found)}
    )


def _number(folder: PurePath) -> int:
    match = _HOST.fullmatch(folder.name)
    return int(match[2]) if match else -1


def _moved(reading: Reading, base: int, host: str) -> Reading:
    layout = reading.records.layout
    layout = replace(layout, rank=layout.rank + base, host=layout.host or host)
    return replace(reading, records=replace(reading.records, layout=layout))
