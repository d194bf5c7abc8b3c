"""Read what NCCL prints under NCCL_DEBUG=INFO, and the watchdog's lines of a job that hung.

Who hangs where becomes a dump per rank, as the flight recorder would have made it; which transport was taken, how
long initialisation took and which port failed is kept as what an observer saw of the host.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from argus.collectors.readers import NothingFound, Reading
from argus.collectors.readers._lines import Line, Lines
from argus.collectors.readers._profile import named_rank
from argus.collectors.readers._watchdog import COUNTERS, Watchdog
from argus.collectors.records.events import RankRecords
from argus.collectors.records.layout import MAX_WORLD, Layout
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.text import tame

IS_LOG = True

SOURCE = "NCCL log"
SLOW_INIT_S = 20.0
"""A communicator that needs longer is worth a look: large jobs with warm caches take about ten seconds."""

MAX_TEXT = 4096
"""Characters of a line that are looked at: NCCL's own are far shorter."""

MAX_HOSTS = 20_000
MAX_WARNS = 20

_LINE = re.compile(
    r"(?P<host>[\w.-]{1,255}):(?P<pid>\d{1,10}):\d{1,10} (?:\[(?P<dev>\d{1,3})\] )?NCCL (?P<level>INFO|WARN) (?P<text>.*)"
)
_WARN = re.compile(
    r"(?P<host>[\w.-]{1,255}):(?P<pid>\d{1,10}):\d{1,10} (?:\[(?P<dev>\d{1,3})\] )?(?:\S+:\d+ )?NCCL (?P<level>WARN) (?P<text>.*)"
)
_COMM = re.compile(
    r"comm 0x[0-9a-f]+ rank (?P<rank>\d{1,7}) nranks (?P<nranks>\d{1,7}) .*?Init (?:START|COMPLETE)"
)
_NETWORK = re.compile(r"Using network (?P<name>[\w ]{1,40})")
_VIA = re.compile(r"Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\](?: \[\w+\])? via (?P<path>[\w/]{1,60})")
_INIT = re.compile(
    r"Init timings - \w+: rank (?P<rank>\d{1,7}) nranks \d{1,7} total (?P<total>\d{1,9}(?:\.\d{1,9})?) \((?P<parts>[^)]{0,300})\)"
)
_VERSION = re.compile(r"NCCL version (?P<version>[\w.+-]{1,40})")
_PORT = re.compile(
    r"async event ?: (?:[\w ]*port|[\w ]*link)|completion .*with (?:error|status)|local ?qp operation err",
    re.IGNORECASE,
)


def sniff(head: bytes, name: str) -> bool:
    """Text with NCCL's own lines or the watchdog's."""
    if b"\0" in head or head.lstrip()[:1] == b"{":
        return False
    is_of_nccl = b" NCCL INFO " in head or b" NCCL WARN " in head
    return is_of_nccl or b"Watchdog caught collective" in head or COUNTERS.search(head) is not None


def read(path: Path) -> Iterator[Reading]:
    """A reading for each rank the watchdog told of, else one with what was seen. Raises ReaderError."""
    rank, _ = named_rank(path)
    watchdog, seen = Watchdog(file_rank=-1 if rank is None else rank), _Seen()
    lines = Lines(path)
    for line in lines:
        if not watchdog.take(line):
            seen.take(line)
    events = seen.events()
    if not watchdog.said and not seen.num_lines:
        raise NothingFound(f"{path.name} holds no line of NCCL or of its watchdog")
    world = max(seen.world, max(watchdog.said, default=0) + 1)
    for index, rank in enumerate(sorted(watchdog.said)):
        dump = watchdog.dump(rank)
        layout = Layout(
            run="dump",
            attempt=0,
            rank=rank,
            world_size=world,
            host=seen.host_of(rank),
            groups=watchdog.groups_of(rank, world=world),
            versions={"nccl": seen.version} if seen.version else {},
            source="nccl_log",
        )
        yield Reading(
            records=RankRecords(layout=layout),
            source=path.name,
            warnings=lines.warnings if index == 0 else (),
            is_world_known=bool(seen.world),
            dump=dump,
            events=events if index == 0 else (),
            are_members_known=False,
        )
    if not watchdog.said:
        layout = Layout(run="log", attempt=0, rank=0, world_size=world, source="nccl_log")
        records = RankRecords(layout=layout)
        yield Reading(records=records, source=path.name, events=events, warnings=lines.warnings)


@dataclass(kw_only=True)
class _Seen:
    """NCCL's own lines."""

    world: int = 0
    version: str = ""
    num_lines: int = 0
    ranks: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    networks: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    paths: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    ports: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    slow: dict[int, tuple[float, str]] = field(default_factory=dict)

    def take(self, line: Line) -> None:
        if "NCCL " not in line.text:
            return
        found = _LINE.search(line.text[:MAX_TEXT]) or _WARN.search(line.text[:MAX_TEXT])
        if found is None or (len(self.networks) > MAX_HOSTS and found["host"] not in self.networks):
            return
        self.num_lines += 1
        host, text = found["host"], found["text"]
        if comm := _COMM.search(text):
            self._comm(host, found["pid"], rank=int(comm["rank"]), size=int(comm["nranks"]))
        elif network := _NETWORK.search(text):
            self.networks[host][network["name"].strip()] += 1
        elif via := _VIA.search(text):
            self.paths[host][_kind(via["path"])] += 1
        elif init := _INIT.search(text):
            self.slow[int(init["rank"])] = (float(init["total"]), init["parts"])
        elif version := _VERSION.search(text):
            self.version = version["version"]
        if found["level"] == "WARN" and _PORT.search(text) and len(self.ports[host]) < MAX_WARNS:
            self.ports[host].append(tame(text, 200))

    def _comm(self, host: str, pid: str, *, rank: int, size: int) -> None:
        """The largest communicator of a process tells its rank in the job."""
        known = self.ranks.get((host, pid), (0, 0))
        if size >= known[1] and rank < size <= MAX_WORLD:
            self.ranks[host, pid] = (rank, size)
            self.world = max(self.world, size)

    def host_of(self, rank: int) -> str:
        hosts = {host for (host, _), (own, size) in self.ranks.items() if own == rank and size == self.world}
        return hosts.pop() if len(hosts) == 1 else ""

    def events(self) -> tuple[OutsideEvent, ...]:
        return (*self._of_ports(), *self._of_networks(), *self._of_starts())

    def _of_ports(self) -> Iterator[OutsideEvent]:
        for host, texts in sorted(self.ports.items()):
            yield OutsideEvent(
                time_s=0.0,
                node=f"host:{host}",
                source=SOURCE,
                kind="port_errors",
                text=f"{len(texts)} warnings of a network port, the first: {texts[0]}",
            )

    def _of_networks(self) -> Iterator[OutsideEvent]:
        """Hosts that talk over another network than most, or over sockets all of them; paths without GPUDirect."""
        usual = Counter(name for names in self.networks.values() for name in names).most_common(1)
        for host, names in sorted(self.networks.items()):
            name = names.most_common(1)[0][0]
            if name == "Socket" or name != usual[0][0]:
                text = f"NCCL uses the network {name}" + (
                    f", most hosts use {usual[0][0]}" if name != usual[0][0] else ""
                )
                yield OutsideEvent(time_s=0.0, node=f"host:{host}", source=SOURCE, text=text)
        for host, paths in sorted(self.paths.items()):
            if paths["NET without GPUDirect"] and any(
                other["NET with GPUDirect"] for other in self.paths.values()
            ):
                text = f"{paths['NET without GPUDirect']} channels go over the network without GPUDirect, others with it"
                yield OutsideEvent(time_s=0.0, node=f"host:{host}", source=SOURCE, text=text)

    def _of_starts(self) -> Iterator[OutsideEvent]:
        late = {rank: item for rank, item in self.slow.items() if item[0] >= SLOW_INIT_S}
        if late:
            rank, (total, parts) = max(late.items(), key=lambda item: (item[1][0], -item[0]))
            text = (
                f"initialisation took {total:g} s ({tame(parts, 200)}), the longest of {len(self.slow)} told"
            )
            yield OutsideEvent(time_s=0.0, node=f"rank:{rank}", source=SOURCE, text=text)


def _kind(path: str) -> str:
    if path.startswith("NET"):
        return "NET with GPUDirect" if "GDRDMA" in path else "NET without GPUDirect"
    return path.split("/")[0]
