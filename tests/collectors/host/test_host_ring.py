"""The raw ring: bounded by size and age, pins hold, parts read back alone; orders are followed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from argus.collectors.host import raw_ring
from argus.collectors.host.client import Answer
from argus.collectors.host.counters import Counters
from argus.collectors.host.fake_rank import NAMES, frames, steps
from argus.collectors.host.notices import Notices
from argus.collectors.host.orders import Lines, Orders
from argus.collectors.host.rank import Key
from argus.collectors.host.raw_ring import RawRing
from argus.collectors.readers.recording import read
from argus.collectors.records.errors import WireError
from argus.collectors.records.events import RankRecords
from argus.collectors.records.frames import Frame, FrameReader, Kind
from argus.collectors.records.layout import Layout
from argus.collectors.records.order import Order

LAYOUT = Layout(run="run", attempt=0, rank=0, world_size=8)
KEY: Key = ("run", 0, 0)


class Bench:
    """A ring with a clock the test moves."""

    def __init__(self, directory: Path, *, max_bytes: int = 1 << 20, max_age_s: float = 1e9) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.counters = Counters()
        self.directory = directory / "ring"
        self.ring = RawRing(
            self.directory,
            max_bytes=max_bytes,
            max_age_s=max_age_s,
            counters=self.counters,
            notices=Notices(self.said.append),
            clock=lambda: self.now_s,
        )
        self.ring.begin(KEY, layout=LAYOUT, names=("",))
        self.ring.write(KEY, Frame(kind=Kind.STRINGS, body={"first": 0, "names": list(NAMES)}))
        self.ring.write(KEY, Frame(kind=Kind.NOTE, body={"unseen": "no kernels"}))

    def play(self, first: int, end: int, *, apart_s: float = 40.0) -> None:
        """One segment for each ten steps."""
        for start in range(first, end, 10):
            self.now_s += apart_s
            for frame in FrameReader().feed(frames(steps(LAYOUT, start, start + 10))):
                self.ring.write(KEY, frame)
            self.ring.flush()

    def back(self, first: int, end: int) -> RankRecords | None:
        """What the ring still has of some steps."""
        raw = self.ring.extract(KEY, first_step=first, end_step=end)
        if not raw:
            return None
        path = self.directory.parent / "back.argus"
        path.write_bytes(raw)
        (reading,) = read(path)
        assert [text.partition(": ")[2][:24] for text in reading.warnings] == ["the rank said no goodbye"]
        return reading.records

    def files(self) -> int:
        return len(list(self.directory.iterdir()))


Make = Callable[..., Bench]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Benches whose rings are closed afterwards."""
    made: list[Bench] = []

    def bench(**limits: float) -> Bench:
        made.append(Bench(tmp_path, **limits))  # type: ignore[arg-type]
        return made[-1]

    yield bench
    for one in made:
        one.ring.close()


def test_chosen_steps_come_back_whole_over_segments(make: Make) -> None:
    bench = make()
    bench.play(0, 60)
    records = bench.back(17, 42)
    assert records is not None and records.layout == LAYOUT
    assert records.steps["step"].tolist() == list(range(17, 42))
    assert len(records.phases) == 50 and len(records.collectives) == 25
    assert {records.name(int(i)) for i in records.phases["name"]} == {"forward", "backward"}
    assert bench.back(60, 99) is None and records.unseen == ("no kernels",)
    assert bench.counters.get("argus_collector_ring_bytes_per_rank_step") > 24


def test_of_too_much_the_beginning_comes_back_and_says_so(make: Make, tmp_path: Path) -> None:
    """The ring of a job may hold gigabytes of one rank, the memory of its host and the service take megabytes."""
    bench = make()
    bench.play(0, 300)
    whole = bench.ring.extract(KEY, first_step=0, end_step=300)
    part = bench.ring.extract(KEY, first_step=0, end_step=300, max_bytes=len(whole) // 2)
    assert len(part) < len(whole) // 2 + 200
    path = tmp_path / "part.argus"
    path.write_bytes(part)
    (reading,) = read(path)
    seen = reading.records.steps["step"].tolist()
    assert seen == list(range(len(seen))) and 100 < len(seen) < 200
    assert reading.records.unseen == ("no kernels", raw_ring.CUT_NOTE)


def test_the_oldest_go_when_there_is_too_much_but_pinned_ones_stay(make: Make) -> None:
    bench = make(max_bytes=20_000)
    bench.play(0, 40)
    bench.ring.pin([KEY], first_step=10, end_step=20)
    bench.play(40, 300)
    assert bench.back(0, 5) is None and bench.back(25, 30) is None
    pinned = bench.back(10, 20)
    assert pinned is not None and pinned.steps["step"].tolist() == list(range(10, 20))
    last = bench.back(290, 300)
    assert last is not None and len(last.steps) == 10
    assert sum(path.stat().st_size for path in bench.directory.iterdir()) < 24_000


def test_pins_never_take_the_whole_ring_and_end(make: Make) -> None:
    bench = make(max_bytes=20_000)
    bench.ring.pin([KEY], first_step=0, end_step=1 << 40)
    bench.play(0, 300)
    assert bench.back(0, 10) is not None and bench.back(290, 300) is not None
    assert sum(path.stat().st_size for path in bench.directory.iterdir()) < 24_000
    bench.now_s += raw_ring.PIN_S + 1
    bench.play(300, 500)
    assert bench.back(0, 10) is None


def test_what_is_old_goes(make: Make) -> None:
    bench = make(max_age_s=100.0)
    bench.play(0, 100)
    assert bench.back(0, 50) is None and bench.back(90, 100) is not None


def test_nothing_is_left_behind(make: Make) -> None:
    bench = make()
    bench.play(0, 30)
    assert bench.files() == 3
    bench.ring.close()
    assert bench.files() == 0
    (bench.directory / "000.argus").write_bytes(b"of a processor that was killed")
    assert make().files() == 0


def test_a_disk_that_refuses_is_counted_and_said_once(make: Make) -> None:
    bench = make()
    bench.play(0, 10)
    for path in bench.directory.iterdir():
        path.unlink()
    bench.directory.rmdir()
    bench.play(10, 40)
    assert bench.counters.get("argus_collector_dropped_events_total", "ring") > 0
    assert len(bench.said) == 1 and bench.back(0, 40) is None


class Service:
    """Answers polls with what is queued; keeps what was sent."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.polled: list[str] = []
        self.sent: list[tuple[str, bytes, str]] = []
        self.send_status = 200

    def get(self, path: str) -> Answer:
        self.polled.append(path)
        return self.answers.pop(0) if self.answers else Answer(status=200, body={"orders": []})

    def send(self, path: str, body: bytes, content_type: str) -> Answer:
        self.sent.append((path, body, content_type))
        return Answer(status=self.send_status, body={"bytes": 1})


def order(number: int, kind: str, **more: object) -> dict[str, object]:
    base: dict[str, object] = {"id": number, "kind": kind, "run": "run", "attempt": 0, "ranks": [0, 5]}
    return {**base, **more}


def orders_for(service: Service, bench: Bench) -> Orders:
    return Orders(
        Lines(get=service.get, send=service.send),
        bench.ring,
        host="h/1",
        counters=bench.counters,
        notices=Notices(bench.said.append),
        rng=random.Random(1),
    )


def test_an_order_of_a_newer_service_is_not_asked_for_again(make: Make) -> None:
    service = Service(Answer(status=200, body={"orders": [order(7, "burst"), {"id": 9, "kind": "reboot"}]}))
    orders = orders_for(service, make())
    orders.poll()
    orders.poll()
    assert [path.partition("after=")[2].partition("&")[0] for path in service.polled] == ["0", "9"]


def test_orders_are_followed_once(tmp_path: Path, make: Make) -> None:
    bench = make()
    bench.play(0, 30)
    service = Service(
        Answer(
            status=200,
            body={
                "orders": [
                    order(4, "burst", seconds=5.0),
                    {"id": 5, "kind": "reboot"},
                    order(6, "capture", first_step=10, end_step=20, capture="c-1"),
                ]
            },
        )
    )
    orders = orders_for(service, bench)
    orders.poll()
    orders.poll()
    assert "hosts/h%2F1/orders?after=0" in service.polled[0] and "after=6" in service.polled[1]
    assert orders.bursts.get_nowait().seconds == 5.0 and orders.bursts.empty()
    (first, body, media), (second, empty, _) = service.sent
    assert (first, second) == ("/v1/captures/c-1/ranks/0", "/v1/captures/c-1/ranks/5") and not empty
    path = tmp_path / "got.argus"
    path.write_bytes(zstandard.ZstdDecompressor().decompress(body, max_output_size=1 << 20))
    (reading,) = read(path)
    assert len(reading.records.steps) == 10 and media == "application/x-argus-recording"
    assert bench.counters.get("argus_collector_rejected_total", "order") == 1


def test_a_service_that_is_gone_is_asked_less_and_less(make: Make) -> None:
    service = Service(
        *[Answer(status=status) for status in (0, 500, 404, 0)], Answer(status=200, body={"orders": []})
    )
    orders = orders_for(service, make())
    pauses = [orders.poll() for _ in range(5)]
    assert pauses[3] > 2 * pauses[0] and pauses[4] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "reboot"},
        {"ranks": "all"},
        {"ranks": list(range(5000))},
        {"first_step": 9, "end_step": 3},
        {"capture": "../../x"},
        {"id": "x"},
    ],
)
def test_orders_that_make_no_sense_are_refused(change: dict[str, object]) -> None:
    assert Order.from_json(order(1, "capture", capture="c-1")).capture == "c-1"
    with pytest.raises(WireError):
        Order.from_json({**order(1, "pin"), **change})


def test_of_a_rank_launched_anew_the_last_process_is_read_back(make: Make) -> None:
    bench = make()
    bench.play(0, 30)
    bench.ring.end(KEY)
    again = replace(LAYOUT, pid=7, began_ns=1)
    bench.ring.begin(KEY, layout=again, names=NAMES)
    bench.play(0, 20)
    bench.ring.begin(KEY, layout=again, names=NAMES)  # it only connected again
    bench.play(20, 30)
    back = bench.back(10, 30)
    assert back is not None and back.layout.pid == 7
    assert back.phases["step"].tolist() == [step for step in range(10, 30) for _ in range(2)]
    bench.ring.begin(KEY, layout=replace(again, began_ns=2), names=NAMES)
    bench.play(0, 10)
    assert bench.back(10, 30) is None
