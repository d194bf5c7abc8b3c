"""Slurm variables of a task (`env | grep SLURM`): its place in the switch tree, hosts and their ranks."""

from __future__ import annotations

import re

from argus.topology.collect import Collector, decode
from argus.topology.facts import MAX_RANKS, Facts
from argus.topology.hostlist import expand, expand_counts

_LINE = re.compile(r"^(?:export\s+|declare -x\s+)?(SLURMD?_\w+)=(.*)$")


def sniff(head: bytes, name: str) -> bool:
    """True if a line sets a Slurm variable."""
    return bool(re.search(rb"^(export |declare -x )?SLURMD?_\w+=", head, re.MULTILINE))


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """Switches above the host from SLURM_TOPOLOGY_ADDR, ranks per host from the job's node list."""
    found = Collector("slurm_env", origin=origin, host=host)
    values: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(decode(raw, origin=origin).splitlines(), start=1):
        if match := _LINE.match(line.strip()):
            values[match.group(1)] = (match.group(2).strip("\"'"), number)
    _address(found, values)
    ranks_on = _ranks(found, values)
    if found.is_empty and not ranks_on:
        raise found.fail("sets neither SLURM_TOPOLOGY_ADDR nor SLURM_JOB_NODELIST")
    return found.facts(ranks_on=ranks_on)


def _address(found: Collector, values: dict[str, tuple[str, int]]) -> None:
    address, line = values.get("SLURM_TOPOLOGY_ADDR", ("", 0))
    pattern, _ = values.get("SLURM_TOPOLOGY_ADDR_PATTERN", ("", 0))
    if address:
        emit_address(found, address, pattern=pattern, line=line)


def emit_address(found: Collector, address: str, *, pattern: str = "", line: int = 0) -> None:
    """Edges of `spine1.leaf3.node12` with pattern `switch.switch.node`; a warning where they disagree.

    A switch the address leaves empty, as for a host under several roots, is skipped.
    """
    words = address.split(".")
    kinds = pattern.split(".") if pattern else ["switch"] * (len(words) - 1) + ["node"]
    if len(words) != len(kinds) or kinds[-1] != "node" or not words[-1]:
        found.warn(f"{address!r} does not fit pattern {pattern!r}", line=line, field="SLURM_TOPOLOGY_ADDR")
        return
    below = f"host:{words[-1]}"
    found.note(below, slurm_address=address)
    tier = 0
    for word, kind in list(zip(words, kinds, strict=True))[-2::-1]:
        if kind == "block":
            found.edge(f"host:{words[-1]}", f"nvlink_domain:{word}", kind="part_of", line=line)
            continue
        if not word:
            continue
        above = f"{('leaf', 'spine', 'pod', 'zone')[min(tier, 3)]}:{word}"
        found.edge(below, above, kind="attached", line=line)
        below, tier = above, tier + 1


def _ranks(found: Collector, values: dict[str, tuple[str, int]]) -> dict[int, str]:
    """Ranks in blocks per host, Slurm's default; another distribution is not guessed."""
    name = next(
        (key for key in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST") if key in values), ""
    )
    if not name:
        return {}
    text, line = values[name]
    try:
        hosts = expand(text)
    except ValueError as error:
        found.warn(str(error), line=line, field=name)
        return {}
    for host in hosts:
        found.note(f"host:{host}")
    key = "SLURM_STEP_TASKS_PER_NODE" if "SLURM_STEP_TASKS_PER_NODE" in values else "SLURM_TASKS_PER_NODE"
    tasks, line = values.get(key, ("", 0))
    cyclic = "cyclic" in values.get("SLURM_DISTRIBUTION", ("", 0))[0]
    try:
        counts = expand_counts(tasks) if tasks and not cyclic else ()
    except ValueError as error:
        found.warn(str(error), line=line, field=key)
        return {}
    if counts and len(counts) != len(hosts):
        found.warn(
            f"{len(counts)} task counts for {len(hosts)} hosts; ranks are left out", line=line, field=key
        )
        return {}
    if sum(counts) > MAX_RANKS:
        found.warn(f"makes more than {MAX_RANKS} ranks", line=line, field=key)
        return {}
    # One task per host is a launcher that starts the ranks itself: they are not Slurm's to number.
    if not counts or max(counts) == 1:
        return {}
    return dict(
        enumerate(host for host, count in zip(hosts, counts, strict=True) for _ in range(min(count, 1024)))
    )
