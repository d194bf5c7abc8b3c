"""Read profiles in speedscope's JSON, as py-spy and other samplers of Python write it.

Format: speedscope.app/file-format-schema.json, sampled and evented profiles. The rank is in the file's name.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._files import Inflated
from argus.collectors.readers._profiled_stacks import MAX_STACKS, Stack, reading_of, stack_of

MAX_BYTES = 1 << 30
MAX_DEPTH = 2048
_SCHEMA = b"speedscope.app/file-format-schema.json"
_QUOTED = re.compile(r'"([^"]{1,64})"\s*$')


def sniff(head: bytes, name: str) -> bool:
    """A JSON object that names speedscope's schema."""
    return head.lstrip()[:1] == b"{" and _SCHEMA in head


def read(path: Path) -> Iterator[Reading]:
    """The one rank of the profile, its threads apart. Raises ReaderError."""
    raw = _load(path)
    shared = raw.get("shared")
    frames = _frames(shared.get("frames") if isinstance(shared, dict) else None)
    profiles = raw.get("profiles")
    counts: dict[Stack, float] = defaultdict(float)
    num_bad = 0
    for profile in profiles if isinstance(profiles, list) else ():
        if isinstance(profile, dict):
            num_bad += _add(profile, frames, counts)
    if not counts:
        raise ReaderError(f"{path.name} is a speedscope profile without a sample")
    told = f"{path.name}: {num_bad} samples name frames that are not there and are left out"
    yield reading_of(counts, path, warnings=(told,) if num_bad else ())


def _load(path: Path) -> Mapping[str, Any]:
    parts, size = [], 0
    with Inflated(path) as source:
        try:
            while chunk := source.read():
                parts.append(chunk)
                size += len(chunk)
                if size > MAX_BYTES:
                    raise ReaderError(f"is larger than {MAX_BYTES >> 20} MiB, which is refused")
        except ReaderError as error:
            raise ReaderError(f"{path.name} {error}") from None
    try:
        raw = json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise ReaderError(f"{path.name} is damaged JSON ({source.cut or str(error)[:80]})") from None
    if not isinstance(raw, dict):
        raise ReaderError(f"{path.name} is no speedscope profile: it holds a {type(raw).__name__}")
    return raw


def _frames(raw: object) -> list[str]:
    """Frames as py-spy writes them: name (file:line)."""
    frames = []
    for one in raw if isinstance(raw, list) else ():
        item = one if isinstance(one, dict) else {}
        line = f":{item['line']}" if isinstance(item.get("line"), int) else ""
        place = f" ({str(item['file'])[:200]}{line})" if item.get("file") else ""
        frames.append(f"{str(item.get('name', '?'))[:200]}{place}".replace(";", ","))
    return frames


def _add(profile: Mapping[str, Any], frames: Sequence[str], counts: dict[Stack, float]) -> int:
    """Count the profile's stacks; how many samples were unusable."""
    named = str(profile.get("name", ""))[:200]
    match = _QUOTED.search(named)
    thread = match[1] if match else named.removesuffix('""').strip()
    num_bad = 0
    for stack, weight in _evented(profile) if profile.get("type") == "evented" else _sampled(profile):
        if not all(type(index) is int and 0 <= index < len(frames) for index in stack):
            num_bad += 1
        elif weight > 0 and stack and len(counts) < MAX_STACKS:
            counts[stack_of([frames[index] for index in stack], thread=thread)] += weight
    return num_bad


def _sampled(profile: Mapping[str, Any]) -> Iterator[tuple[Sequence[Any], float]]:
    samples, weights = profile.get("samples"), profile.get("weights")
    samples = samples if isinstance(samples, list) else []
    weights = weights if isinstance(weights, list) and len(weights) == len(samples) else [1] * len(samples)
    for sample, weight in zip(samples, weights, strict=True):
        if isinstance(sample, list) and len(sample) <= MAX_DEPTH:
            yield sample, _weight(weight)


def _evented(profile: Mapping[str, Any]) -> Iterator[tuple[Sequence[Any], float]]:
    """Stacks with the time they were open for."""
    stack: list[Any] = []
    since = 0.0
    events = profile.get("events")
    for event in events if isinstance(events, list) else ():
        if not isinstance(event, dict) or len(stack) > MAX_DEPTH:
            continue
        at = _weight(event.get("at"))
        if stack and at > since:
            yield tuple(stack), at - since
        since = at
        if event.get("type") == "O":
            stack.append(event.get("frame"))
        elif stack:
            stack.pop()


def _weight(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e18:
        return 0.0  # also what is not finite
    return float(value)
