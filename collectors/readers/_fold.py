"""One sentence for what many files have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable

FOLD_FROM = 4
"""So many files that say the same are told as one: three sentences can still be read."""

_NUMBER = re.compile(r"\d+")


def folded(warnings: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Sentences of files, (file name, sentence), in order; alike but for names and numbers, they become one.

    >>> folded((f"rank{n}.json", f"rank{n}.json: rank {n} is inferred") for n in range(64))
    ('in 64 files: rank 0 is inferred, e.g. rank0.json',)
    """
    alike: dict[str, dict[str, str]] = {}
    for file, sentence in warnings:
        shape = _NUMBER.sub("#", _rest(file, sentence))
        alike.setdefault(shape, {}).setdefault(sentence, file)
    out: list[str] = []
    for sentences in alike.values():
        out += sentences if len(sentences) < FOLD_FROM else [_one(sentences)]
    return tuple(out)


def _one(sentences: dict[str, str]) -> str:
    """Many sentences that are alike, with the files they are about, as one."""
    first, file = next(iter(sentences.items()))
    num_files = len(set(sentences.values()))
    if num_files == 1:
        return f"{first} (and {len(sentences) - 1} times more like this)"
    return f"in {num_files} files: {_rest(file, first)}, e.g. {file}"


def _rest(file: str, sentence: str) -> str:
    """What is said of the file, without its name or path where that comes first."""
    folder, found, rest = sentence.partition(file)
    return rest.lstrip(": ") if found and " " not in folder else sentence
