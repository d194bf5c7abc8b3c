"""Slurm's compact lists: host names with ranges and task counts with repeats."""

from __future__ import annotations

import re
from itertools import product

MAX_HOSTS = 1 << 17
_RANGE = re.compile(r"^([0-9]{1,9})(?:-([0-9]{1,9}))?$")
_COUNT = re.compile(r"^([0-9]{1,4})(?:\(x([0-9]{1,6})\))?$")


def expand(text: str) -> tuple[str, ...]:
    """Host names of a list, in its order. ValueError naming the part that is wrong.

    >>> expand("node[001-003,007],gpu-a[1-2]n[1-2],login1")[3:6]
    ('node007', 'gpu-a1n1', 'gpu-a1n2')
    """
    hosts: list[str] = []
    for word in _split(text):
        pieces = [_choices(piece) for piece in re.findall(r"\[[^\[\]]*\]|[^\[\]]+", word)]
        count = 1
        for choices in pieces:
            count *= len(choices)
        if len(hosts) + count > MAX_HOSTS:
            raise ValueError(f"{word!r} makes more than {MAX_HOSTS} hosts")
        hosts += ["".join(parts) for parts in product(*pieces)]
    return tuple(hosts)


def _split(text: str) -> list[str]:
    """Words between commas that are not inside brackets."""
    words, depth, start = [], 0, 0
    text = text.strip()
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError(f"brackets do not match in {text!r:.80}")
        if char == "," and not depth:
            words.append(text[start:at].strip())
            start = at + 1
    if depth:
        raise ValueError(f"brackets do not match in {text!r:.80}")
    words.append(text[start:].strip())
    if not all(words) and text:
        raise ValueError(f"an empty name in {text!r:.80}")
    for word in words:
        if re.search(r"\s", word):
            raise ValueError(f"host name {word!r:.80} holds a space")
    return [word for word in words if word]


def _choices(piece: str) -> tuple[str, ...]:
    if not piece.startswith("["):
        return (piece,)
    names: list[str] = []
    for part in piece[1:-1].split(","):
        match = _RANGE.match(part.strip())
        if not match:
            raise ValueError(f"{part!r} in {piece!r:.80} is not a number or a range")
        first, last = match.group(1), match.group(2) or match.group(1)
        # Before they are written out: a thousand ranges would be gigabytes of names by the time they are counted.
        if int(last) < int(first) or int(last) - int(first) >= MAX_HOSTS - len(names):
            raise ValueError(f"range {part!r} in {piece!r:.80} runs backwards or is too long")
        names += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return tuple(names)


def expand_counts(text: str) -> tuple[int, ...]:
    """Tasks per host of SLURM_TASKS_PER_NODE.

    >>> expand_counts("8(x3),4")
    (8, 8, 8, 4)
    """
    counts: list[int] = []
    for word in text.split(","):
        match = _COUNT.match(word.strip())
        if not match or int(match.group(2) or 1) > MAX_HOSTS:
            raise ValueError(f"{word!r} is not a task count such as 8(x4)")
        counts += [int(match.group(1))] * int(match.group(2) or 1)
    return tuple(counts)


def compress(hosts: tuple[str, ...] | list[str]) -> str:
    """The short form of host names: numbers at the end become ranges.

    >>> compress(["n01", "n02", "n03", "n07", "login"])
    'login,n[01-03,07]'
    """
    plain: list[str] = []
    numbered: dict[tuple[str, int], list[int]] = {}
    for host in sorted(set(hosts)):
        match = re.match(r"^(.*?)([0-9]{1,18})$", host)
        if match:
            numbered.setdefault((match.group(1), len(match.group(2))), []).append(int(match.group(2)))
        else:
            plain.append(host)
    words = []
    for (stem, width), values in numbered.items():
        ranges = _ranges(sorted(values), width)
        words.append(f"{stem}{ranges[0]}" if len(values) == 1 else f"{stem}[{','.join(ranges)}]")
    return ",".join(sorted([*plain, *words]))


def _ranges(values: list[int], width: int) -> list[str]:
    spans: list[list[int]] = []
    for value in values:
        if spans and value == spans[-1][1] + 1:
            spans[-1][1] = value
        else:
            spans.append([value, value])
    return [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in spans]
