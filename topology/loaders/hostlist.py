"""A host list: Slurm's compact form, `scontrol show hostnames`, or a DeepSpeed/MPI hostfile."""

from __future__ import annotations

import re

from argus.topology.collect import Collector, decode
from argus.topology.facts import MAX_RANKS, Facts, whole_number
from argus.topology.hostlist import expand

_SLOTS = re.compile(r"^(\S+)\s+slots\s*=\s*(\S+)(?:\s+max_slots\s*=\s*\d+)?$")
_WORD = re.compile(r"^[A-Za-z0-9][\w.\-]*(\[[\d,\- ]+\][\w.\-]*)*$")


def sniff(head: bytes, name: str) -> bool:
    """True if every line is a host name, a compact list or `host slots=N`."""
    text = head.decode("utf-8", "replace")
    whole = text if len(head) < 1024 else text.rsplit("\n", 1)[0]
    lines = [line.split("#", 1)[0].strip() for line in whole.splitlines()]
    lines = [line for line in lines if line]
    likely = any("[" in line or "slots" in line for line in lines) or "host" in name.lower()
    return bool(lines) and likely and all(_is_host_line(line) for line in lines[:1000])


def _is_host_line(line: str) -> bool:
    if " slots" in line or "\tslots" in line:
        return True
    words = re.split(r",(?![^\[]*\])", line)
    return all(_WORD.match(word.strip()) for word in words if word.strip())


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """Hosts in rank order; with slots, the ranks on each."""
    found = Collector("hostlist", origin=origin, host=host)
    ranks_on: dict[int, str] = {}
    for number, line in enumerate(decode(raw, origin=origin).splitlines(), start=1):
        line = line.split("#", 1)[0].strip()
        match = _SLOTS.match(line)
        slots = whole_number(match.group(2)) if match else 0
        if match and slots is None:
            found.warn(
                f"must be a number, got {match.group(2)!r}; the ranks are left out",
                line=number,
                field="slots",
            )
        try:
            names = expand(match.group(1) if match else line)
        except ValueError as error:
            found.warn(f"{error}; the line is left out", line=number)
            continue
        for name in names:
            found.note(f"host:{name}", position=str(number))
            for _ in range(min(slots or 0, 1024, MAX_RANKS - len(ranks_on))):
                ranks_on[len(ranks_on)] = name
    if found.is_empty:
        raise found.fail("names no host")
    return found.facts(ranks_on=ranks_on)
