"""One host sample after the other: reads every source, keeps what counters were, reports differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from argus.collectors.host.fabric import INFINIBAND, ports_between, read_ports
from argus.collectors.host.gpus import Gpus
from argus.collectors.host.kernel_log import KernelLog
from argus.collectors.host.pressure import PROC, difference, read_load, read_pressure, read_steal
from argus.collectors.host.process_use import CGROUP, Counts, read_counts, use_between
from argus.collectors.host.rank import Key
from argus.collectors.host.use_track import Read
from argus.collectors.records.host_sample import HostSample, RankUse


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A rank to look at; `step` is the last one known."""

    key: Key
    pid: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Roots:
    """Where the kernel's files are."""

    proc: Path = PROC
    cgroup: Path = CGROUP
    infiniband: Path = INFINIBAND


@dataclass(frozen=True, kw_only=True)
class _Before:
    ts_s: float
    numbers: dict[str, float]
    ports: dict[str, dict[str, float]]
    ranks: dict[tuple[Key, int], tuple[Counts, int]]


class HostSampler:
    """The first call only takes the counters' values and gives None."""

    def __init__(
        self,
        *,
        host: str,
        gpus: Gpus,
        log: KernelLog,
        uptime_clock: Callable[[], float],
        roots: Roots = Roots(),
    ) -> None:
        self._host, self._gpus, self._log = host, gpus, log
        self._uptime_clock, self._roots = uptime_clock, roots
        self._before: _Before | None = None

    @property
    def unseen(self) -> tuple[str, ...]:
        """What this host does not show, and why."""
        texts = [self._gpus.unseen, self._log.unseen]
        if not (self._roots.proc / "pressure").is_dir():
            texts.append("pressure: this kernel keeps no PSI")
        if not self._roots.infiniband.is_dir():
            texts.append("fabric: no InfiniBand or RoCE device")
        return tuple(text for text in texts if text)

    def read(self, ranks: Sequence[Seen], *, now_s: float) -> Read:
        """The kernel's counters now, without those of devices: a few files for the host and each thread."""
        proc, cgroup = self._roots.proc, self._roots.cgroup
        return Read(
            ts_s=now_s,
            numbers={**read_pressure(root=proc), **read_steal(root=proc)},
            ranks={(seen.key, seen.pid): read_counts(seen.pid, proc=proc, cgroup=cgroup) for seen in ranks},
        )

    def sample(self, ranks: Sequence[Seen], *, read: Read) -> HostSample | None:
        """What happened since the last call, at the time of `read`."""
        before, now_s = self._before, read.ts_s
        numbers = dict(read.numbers)
        counts = {
            (seen.key, seen.pid): (read.ranks.get((seen.key, seen.pid), Counts()), seen.step)
            for seen in ranks
        }
        ports = read_ports(root=self._roots.infiniband)
        gpus = self._gpus.read()
        events = self._log.read(boot_s=now_s - self._uptime_clock())
        self._before = _Before(ts_s=now_s, numbers=numbers, ports=ports, ranks=counts)
        if before is None:
            return None
        return HostSample(
            host=self._host,
            start_s=min(before.ts_s, now_s),
            end_s=now_s,
            numbers={**difference(numbers, before.numbers), **read_load(root=self._roots.proc)},
            ranks=tuple(_uses(counts, before)),
            gpus=gpus,
            ports=ports_between(ports, before.ports, root=self._roots.infiniband),
            events=tuple(events),
            unseen=self.unseen,
        )

    def close(self) -> None:
        """Let go of the kernel log."""
        self._log.close()


def _uses(counts: dict[tuple[Key, int], tuple[Counts, int]], before: _Before) -> list[RankUse]:
    """Ranks seen at both ends by the same process."""
    uses = []
    for place, (now, step) in counts.items():
        if place not in before.ranks or not now.whole:
            continue
        old, old_step = before.ranks[place]
        run, attempt, rank = place[0]
        uses.append(
            RankUse(
                run=run,
                attempt=attempt,
                rank=rank,
                first_step=old_step + 1,
                last_step=step,
                numbers=use_between(now, old),
            )
        )
    return uses
