"""What torch's NCCL watchdog prints when a call times out: per rank and group, how far it got and in which call it is.

`[rank4]:[E… ProcessGroupNCCL.cpp:616] [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, …)`
and `[PG ID 1 PG GUID 0(default_pg) Rank 4] … last enqueued NCCL work: 9, last completed NCCL work: 6` (torch 2.x;
2.4 writes `[PG 0 (default_pg) Rank 4]`, and some versions `last started work: 8` between the two). The rank in the
brackets counts within its group; the global one is what the launcher or c10d put before the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from argus.collectors.readers._comms import operation
from argus.collectors.readers._lines import Line
from argus.collectors.records.flight import FlightDump, PendingCall
from argus.collectors.records.layout import MAX_WORLD, GroupInfo

MAX_SEQ = 1 << 53
"""Counters beyond it are memory that was never set, as some versions print."""

MAX_TEXT = 4096
"""Characters of a line that are looked at: the watchdog's own are far shorter."""

MADE_NS = 1
"""When every call was made: lines tell how long a rank waited, not since when."""

DEFAULT = "default_pg"

COUNTERS = re.compile(rb"ast enqueued (?:NCCL )?work: -?\d.{0,200}?ast completed (?:NCCL )?work: -?\d")
"""A line of counters, by which a log of such lines alone is known."""

_LABEL = re.compile(r"\[rank(\d{1,7})\]:")
_TIMEOUT = re.compile(
    r"\[Rank (?P<rank>\d{1,7})\].*?Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<seq>\d{1,18}), "
    r"OpType=(?P<op>\w{1,64}), (?P<shape>[^)]*?)(?:, )?Timeout\(ms\)=(?P<timeout>\d{1,15})\)"
)
_COUNTERS = (
    r".*?[Ll]ast enqueued (?:NCCL )?work: (?P<entered>-?\d{1,20}), "
    r"(?:last started (?:NCCL )?work: -?\d{1,20}, )?last completed (?:NCCL )?work: (?P<done>-?\d{1,20})"
)
_WORK = re.compile(
    r"\[PG (?:ID )?(?P<id>\w{1,64})(?: PG GUID (?P<guid>\w{1,64}))?(?: ?\((?P<desc>[^)\s]{0,128})\))? "
    r"Rank (?P<rank>\d{1,7})\]" + _COUNTERS
)
_OLD_WORK = re.compile(r"\[Rank (?P<rank>\d{1,7})\]" + _COUNTERS)


@dataclass(kw_only=True)
class RankSaid:
    """What one rank's lines told: (entered, completed) by group name, and the call it gave up on."""

    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    descs: dict[str, str] = field(default_factory=dict)
    last: PendingCall | None = None
    calls: dict[str, PendingCall] = field(default_factory=dict)


@dataclass(kw_only=True)
class Watchdog:
    """All watchdog lines of a log by global rank; `file_rank` is that of a log of one rank, -1 if it is of several."""

    file_rank: int = -1
    said: dict[int, RankSaid] = field(default_factory=dict)

    def take(self, line: Line) -> bool:
        """Whether the line was one."""
        text = line.text[:MAX_TEXT]
        if "Watchdog caught" in text and (found := _TIMEOUT.search(text)):
            if (said := self._of(line, found)) is not None:
                said.last = PendingCall(
                    group="",
                    op=operation(found["op"].replace("_BASE", "")) or found["op"].lower(),
                    seq=_counter(found["seq"]),
                    shape=found["shape"][:200],
                    timeout_ns=int(found["timeout"]) * 1_000_000,
                )
            return True
        if "ast enqueued" not in text or "ast completed" not in text:
            return False
        work = _WORK.search(text) or _OLD_WORK.search(text)
        if work is not None and (said := self._of(line, work)) is not None:
            self._work(said, work.groupdict())
        return work is not None

    def _of(self, line: Line, found: re.Match[str]) -> RankSaid | None:
        """Whose line it is: c10d's own label is the global rank, a launcher's or the file's may count something else.

        None where only a number within a group other than the default one is told, or one that no job has.
        """
        before = _LABEL.findall(line.text[: found.start()])
        told = int(before[-1]) if before else line.rank if line.rank >= 0 else self.file_rank
        if told < 0 and _is_of_some(found.groupdict()):
            return None
        rank = told if told >= 0 else int(found["rank"])
        return self.said.setdefault(rank, RankSaid()) if rank < MAX_WORLD else None

    def _work(self, said: RankSaid, found: dict[str, str | None]) -> None:
        """Counters of a group; the call that timed out is of the group whose counters hold its number."""
        name = found.get("guid") or found.get("id") or "0"
        entered, done = _counter(found["entered"]), _counter(found["done"])
        done = done if done <= entered else 0
        said.counts[name] = (entered, done)
        said.descs[name] = found.get("desc") or (DEFAULT if name == "0" else "")
        if said.last is not None and done < said.last.seq <= entered:
            said.calls[name] = replace(said.last, group=name)
            said.last = None

    def _counters_at(self, name: str, seq: int) -> tuple[int, int]:
        """Counters of a rank that told none and waits in call `seq`: it entered that one at least, and is no more
        behind than those that wait in it too."""
        others = [said.counts[name] for said in self.said.values() if name in said.counts]
        return min((entered for entered, done in others if done < seq <= entered), default=seq), seq - 1

    def groups_of(self, rank: int, *, world: int) -> tuple[GroupInfo, ...]:
        """The rank's groups with the members this log tells of; the default group holds everybody."""
        groups = []
        for name, desc in self.said[rank].descs.items():
            known = tuple(sorted(other for other, said in self.said.items() if name in said.counts))
            ranks = tuple(range(world)) if desc == DEFAULT else known
            groups.append(GroupInfo(name=name, desc=desc, ranks=ranks))
        return tuple(groups)

    def dump(self, rank: int) -> FlightDump:
        """The rank's lines as what a flight recorder would have held."""
        said = self.said[rank]
        counts: dict[str, tuple[int, int] | None] = dict(said.counts)
        calls = tuple(said.calls.values())
        if said.last is not None:  # no line told its group: it is of the only one there is
            name = next(iter(counts), "0")
            counts.setdefault(name, self._counters_at(name, said.last.seq))
            calls += (replace(said.last, group=name),)
            said.descs.setdefault(name, DEFAULT)
        calls = tuple(replace(call, created_ns=MADE_NS) for call in calls)
        return FlightDump(rank=rank, groups=counts, pending=calls, last_created_ns=MADE_NS)


def _is_of_some(found: dict[str, str | None]) -> bool:
    """Whether counters are of a group other than the default one."""
    name, desc = found.get("guid") or found.get("id") or "0", found.get("desc")
    return desc != DEFAULT if desc else name != "0"


def _counter(text: str | None) -> int:
    value = int(text or 0)
    return value if 0 <= value < MAX_SEQ else 0
