"""A session with one hook on a clock the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field

from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.session import Hook, Session
from argus.collectors.records.events import EVENT, PHASE, STEP

DTYPES = {"phases": PHASE, "steps": STEP, "events": EVENT}


@dataclass
class Bench:
    """`tick` lets wall and CPU time pass."""

    now_ns: int = 1_000
    recorder: Recorder = field(init=False)
    session: Session = field(init=False)

    def __post_init__(self) -> None:
        self.recorder = Recorder(ring=Ring(), now_ns=lambda: self.now_ns, cpu_ns=lambda: self.now_ns)
        self.session = Session(self.recorder)
        self.recorder.begin_steps()

    def add(self, name: str, hook: Hook) -> None:
        """Install a hook; its module must look imported."""
        self.session.add(name, hook)
        assert [part.name for part in self.session.parts] == [name]

    def tick(self, ns: int) -> None:
        """Time passes."""
        self.now_ns += ns

    def rows(self, kind: str) -> list[dict[str, int | float | str]]:
        """Rows since last asked, string columns as text."""
        found = []
        for row in self.recorder.ring.take(kind):
            values: dict[str, int | float | str] = dict(zip(DTYPES[kind].names or (), row, strict=True))
            for column in ("name", "native", "kind"):
                if column in values:
                    values[column] = self.recorder.ring.names[int(values[column])]
            found.append(values)
        return found

    def timed(self) -> list[tuple[str, str, int, int]]:
        """(phase, native name, duration, depth) of the phases since last asked, but for the gaps."""
        keys = ("name", "native", "dur_ns", "depth")
        rows = [row for row in self.rows("phases") if row["native"] != "between phases"]
        return [(str(a), str(b), int(c), int(d)) for a, b, c, d in ([row[k] for k in keys] for row in rows)]

    def ok(self) -> None:
        """Nothing failed inside the hooks."""
        assert self.recorder.ring.dropped() == {}
        assert all(part.is_on for part in self.session.parts)
