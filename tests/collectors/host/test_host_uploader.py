"""The upload thread's decisions, driven step by step with a fake clock and a fake service."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from argus.collectors.host import client
from argus.collectors.host.client import Answer, parse_retry_after, parse_server
from argus.collectors.host.counters import Counters
from argus.collectors.host.fake_service import FakeService, Reply, serve
from argus.collectors.host.notices import Notices
from argus.collectors.host.spool import Spool
from argus.collectors.host.uploader import MAX_BEATS_HOLD_S, MAX_DELAY_S, Uploader
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan

LAYOUT = Layout(run="r", attempt=0, rank=0, world_size=1, host="h")
OK = Answer(status=200, body={"accepted": 1})


def beat(state: str = "running") -> Heartbeat:
    return Heartbeat(
        run="r", attempt=0, rank=0, host="h", ts_s=1.0, state=state, status=Status(ts_ns=1, step=1)
    )


class Bench:
    """An uploader with everything around it in hand."""

    def __init__(self, directory: Path) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.sent: list[str] = []
        self.answer: Callable[[str], Answer] = lambda path: OK
        self.counters = Counters()
        self.spool = Spool(directory, max_bytes=1 << 20, lost=lambda *_: None)
        self.uploader = Uploader(
            self._post,
            self.spool,
            host="h",
            counters=self.counters,
            notices=Notices(self.said.append),
            clock=lambda: self.now_s,
            rng=random.Random(3),
        )

    def _post(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        self.sent.append(path.rsplit("/", 1)[1])
        return self.answer(path)

    def steps(self) -> list[str]:
        """Everything that is due now."""
        self.sent.clear()
        while self.uploader.step():
            pass
        return list(self.sent)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    it = Bench(tmp_path / "spool")
    yield it
    it.spool.close()


def test_a_process_is_heard_of_by_its_layout_before_its_first_sign_of_life(bench: Bench) -> None:
    def steps(pid: int, began_ns: int = 0) -> list[str]:
        bench.uploader.submit_beats([beat()], layouts=[replace(LAYOUT, pid=pid, began_ns=began_ns)])
        return bench.steps()

    bench.spool.put("windows", b"{}", num=1)
    assert steps(100) == ["layouts", "heartbeats", "windows"]
    assert steps(100) == ["heartbeats"]
    assert steps(200) == ["layouts", "heartbeats"]
    assert steps(200) == ["heartbeats"]
    assert steps(200, 7) == ["layouts", "heartbeats"]


def test_beats_go_before_what_waits(bench: Bench) -> None:
    bench.spool.put("layouts", b"{}", num=1)
    bench.spool.put("windows", b"w", num=1)
    bench.uploader.submit_beats([beat()], layouts=[LAYOUT])
    assert bench.steps() == ["heartbeats", "layouts", "windows"]
    assert bench.uploader.is_idle


@pytest.mark.parametrize("status", [0, 500, 502, 503, 429, 408, 401, 404, 301, 200])
def test_what_may_pass_is_tried_again_and_kept(bench: Bench, status: int) -> None:
    """200 without a JSON object is a proxy's page, not an acknowledgement."""
    bench.spool.put("windows", b"w", num=1)
    bench.answer = lambda path: Answer(status=status, error="no")
    assert bench.steps() == ["windows"]
    assert bench.steps() == [] and len(bench.spool) == 1
    bench.answer = lambda path: OK
    bench.now_s += MAX_DELAY_S
    assert bench.steps() == ["windows"] and len(bench.spool) == 0
    assert bench.counters.get("argus_collector_uploaded_windows_total") == 1


def test_what_cannot_be_read_for_want_of_descriptors_is_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.spool.put("windows", b"w", num=1)

    def out_of_descriptors(_path: Path) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", out_of_descriptors)
        assert bench.steps() == [] and len(bench.spool) == 1
    assert bench.steps() == []
    bench.now_s += MAX_DELAY_S
    assert bench.steps() == ["windows"] and len(bench.spool) == 0
    assert len(bench.said) == 1 and "Too many open files" in bench.said[0]


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_what_the_service_refuses_is_dropped_counted_and_said_once(bench: Bench, status: int) -> None:
    bench.answer = lambda path: Answer(status=status, error="bad window")
    for _ in range(3):
        bench.spool.put("windows", b"w", num=2)
    assert bench.steps() == ["windows"] * 3
    assert bench.counters.get("argus_collector_dropped_windows_total", "refused") == 6
    assert bench.counters.get("argus_collector_rejected_total", f"upload_{status}") == 3
    assert len(bench.said) == 1 and "bad window" in bench.said[0]


def test_waiting_grows_jitters_and_is_bounded(bench: Bench) -> None:
    bench.spool.put("windows", b"w", num=1)
    bench.answer = lambda path: Answer(status=503)
    waits = []
    for _ in range(12):
        start_s = bench.now_s
        while not bench.steps():
            bench.now_s += 0.05
        waits.append(bench.now_s - start_s)
    assert 0.2 < waits[1] <= 0.55 and waits[3] > waits[1]
    assert max(waits) <= MAX_DELAY_S + 0.05 and min(waits[8:]) >= MAX_DELAY_S / 2
    assert len(bench.said) == 1


def test_retry_after_holds_windows_and_for_a_while_beats(bench: Bench) -> None:
    bench.spool.put("windows", b"w", num=1)
    bench.answer = lambda path: Answer(status=503, retry_after_s=60.0)
    assert bench.steps() == ["windows"]
    bench.answer = lambda path: Answer(status=503)
    bench.uploader.submit_beats([beat()], layouts=[])
    bench.now_s = MAX_BEATS_HOLD_S - 0.1
    assert bench.steps() == []
    bench.now_s = MAX_BEATS_HOLD_S
    assert bench.steps() == ["heartbeats"]


def test_after_an_outage_layouts_go_first_and_success_ends_the_waiting(bench: Bench) -> None:
    bench.spool.put("windows", b"w", num=1)
    bench.answer = lambda path: Answer(status=0, error="refused")
    bench.uploader.submit_beats([beat()], layouts=[LAYOUT])
    bench.steps()
    bench.answer = lambda path: OK
    bench.uploader.submit_beats([beat()], layouts=[LAYOUT])
    assert bench.steps() == ["layouts", "heartbeats", "windows"]
    assert bench.said[-1] == "the service answers again"


def test_a_service_that_forgot_the_run_is_told_again_once(bench: Bench) -> None:
    bench.uploader.submit_beats([beat()], layouts=[LAYOUT])
    bench.steps()
    bench.spool.put("windows", b"w", num=1)
    bench.answer = lambda path: Answer(status=409, error="unknown run") if "windows" in path else OK
    assert bench.steps() == ["windows"]
    bench.now_s += MAX_DELAY_S
    assert bench.steps() == ["layouts", "windows"]
    assert len(bench.spool) == 0
    assert bench.counters.get("argus_collector_dropped_windows_total", "refused") == 1


def test_single_windows_may_be_refused_in_an_accepted_batch(bench: Bench) -> None:
    bench.spool.put("windows", b"w", num=5)
    rejected = [{"index": 1, "reason": "steps outside"}]
    bench.answer = lambda path: Answer(status=200, body={"accepted": 4, "rejected": rejected})
    bench.steps()
    assert bench.counters.get("argus_collector_uploaded_windows_total") == 4
    assert bench.counters.get("argus_collector_dropped_windows_total", "refused") == 1
    assert "steps outside" in bench.said[0]


def test_plans_and_final_heartbeats_are_passed_on(bench: Bench) -> None:
    plans = [
        {"run": "r", "attempt": 0, "first": 10, "switch": 100, "then": 40},
        {"run": "r", "attempt": 1, "first": 0, "switch": 0, "then": 0},
        {"run": "r", "attempt": 1, "first": 10, "switch": 7, "then": 3},
        "nonsense",
    ]
    bench.answer = lambda path: Answer(status=200, body={"accepted": 1, "plans": plans})
    bench.uploader.submit_beats([beat("ended")], layouts=[])
    bench.steps()
    heard = bench.uploader.heard.get_nowait()
    assert heard.plans == {("r", 0): WindowPlan(first=10, switch=100, then=40)}
    assert heard.final == {("r", 0, 0)}
    assert bench.counters.get("argus_collector_rejected_total", "plan") == 3


def test_stopping_sends_once_more_and_gives_up_at_the_first_failure(bench: Bench) -> None:
    bench.spool.put("windows", b"w", num=1)
    bench.answer = lambda path: Answer(status=503)
    bench.steps()
    bench.sent.clear()
    bench.uploader.stop(5.0)
    bench.uploader.run()
    assert bench.sent == ["windows"] and len(bench.spool) == 1


def test_an_address_of_version_6_is_told_as_it_is_written() -> None:
    assert parse_server("http://[::1]:8321/argus").url == "http://[::1]:8321/argus"


@pytest.mark.parametrize("url", ["ftp://h", "http://", "http://h:notaport", "https://:1"])
def test_a_server_must_be_a_url(url: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_server(url)


def test_a_request_carries_key_and_prefix_and_the_answer_its_reason() -> None:
    reply = Reply(status=429, headers={"Retry-After": "7"}, body=b'{"detail": "slow down"}')
    with serve(FakeService(fail=lambda path: reply)) as service:
        answer = parse_server(f"{service.url}/argus/", key="s3cret")("/v1/x", b"{}", headers={"A": "b"})
    assert answer == Answer(status=429, error="slow down", body={"detail": "slow down"}, retry_after_s=7.0)
    path, headers = service.requests[0]
    assert path == "/argus/v1/x" and headers["Authorization"] == "Bearer s3cret" and headers["A"] == "b"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("Sun, 29 Nov 2026 10:00:30 GMT", 30.0),
        ("-5", 0.0),
        ("1e9", 300.0),
        ("nan", None),
        ("soon", None),
        ("Sun, 29 Nov 99999999999 10:00:30 GMT", None),
        ("Sun, 29 Nov 2026 10:00:30 +99999999999999", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert parse_retry_after(value, "Sun, 29 Nov 2026 10:00:00 GMT") == seconds
    assert parse_retry_after(None, None) is None


def test_a_connection_that_breaks_is_an_answer_without_status() -> None:
    with serve(FakeService(fail=lambda path: Reply(status=0))) as service:
        cut = parse_server(service.url)("/", b"", headers={})
    refused = parse_server(service.url)("/", b"", headers={})
    assert cut.status == refused.status == 0
    assert cut.error and "refused" in refused.error.lower()


def test_requests_share_a_connection_until_it_ends() -> None:
    last = {"/last": Reply(status=200, headers={"Connection": "close"}, body=b"{}")}
    with serve(FakeService(fail=last.get)) as service:
        post = parse_server(service.url)
        statuses = [
            post(path, b'{"heartbeats": []}', headers={}).status for path in ("/a", "/b", "/last", "/c")
        ]
        assert statuses == [200] * 4 and service.num_connections == 2
        port = int(service.url.rpartition(":")[2])
    assert post("/", b'{"heartbeats": []}', headers={}).status == 0  # nobody is there
    with serve(FakeService(), port=port):
        assert post("/", b'{"heartbeats": []}', headers={}).status == 200


def test_a_connection_idle_or_old_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(FakeService()) as service:
        post = parse_server(service.url)
        for name in ("IDLE_S", "MAX_AGE_S"):
            before = service.num_connections
            assert post("/", b'{"heartbeats": []}', headers={}).status == 200
            monkeypatch.setattr(client, name, -1.0)
            assert post("/", b'{"heartbeats": []}', headers={}).status == 200
            assert service.num_connections == before + (2 if name == "IDLE_S" else 1)
            monkeypatch.undo()


def test_threads_have_a_connection_each_and_few_stay() -> None:
    together = threading.Barrier(8)

    def wait(path: str) -> None:
        together.wait(20)

    with serve(FakeService(fail=wait)) as service:
        post = parse_server(service.url)
        with ThreadPoolExecutor(8) as pool:
            ask = partial(post, "/", b'{"heartbeats": []}', headers={})
            first = [one.result().status for one in [pool.submit(ask) for _ in range(8)]]
            again = [one.result().status for one in [pool.submit(ask) for _ in range(8)]]
        assert first == again == [200] * 8
        assert service.num_connections == 8 + 8 - client.MAX_IDLE


def test_the_key_does_not_show() -> None:
    assert "s3cret" not in repr(parse_server("http://h:1", key="s3cret"))


def test_what_is_of_now_goes_before_what_waited_through_an_outage(tmp_path: Path) -> None:
    wall_s = [1000.0]
    spool = Spool(tmp_path / "s", max_bytes=1 << 20, lost=lambda *_: None, clock=lambda: wall_s[0])
    sent: list[tuple[bytes, float]] = []
    answers = {b"old-1": [Answer(status=429, retry_after_s=7.0)]}

    def post(path: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        sent.append((body, float(headers["Argus-Age"])))
        assert headers["Argus-Wire"] == "3"
        return answers[body].pop() if answers.get(body) else OK

    now_s = [0.0]
    uploader = Uploader(
        post,
        spool,
        host="h",
        counters=Counters(),
        notices=Notices(lambda text: None),
        clock=lambda: now_s[0],
        rng=random.Random(3),
    )
    for body in (b"old-1", b"old-2"):
        spool.put("windows", body, num=1)
    wall_s[0] += 1000.0
    for body in (b"new-1", b"new-2"):
        spool.put("windows", body, num=1)
    while uploader.step():
        pass
    assert sent == [(b"new-1", 0.0), (b"new-2", 0.0), (b"old-1", 1000.0)]
    spool.put("windows", b"new-3", num=1)  # what is of now is not held up
    uploader.submit_beats([], layouts=[])
    assert uploader.step() and sent[-1][0] == b"new-3" and not uploader.step()
    assert uploader._wait_s() > 0
    now_s[0] += 6.9
    assert not uploader.step()
    now_s[0] += 7.0 * 0.25 + 0.1
    while uploader.step():
        pass
    assert [body for body, _ in sent[-2:]] == [b"old-1", b"old-2"] and not len(spool)
    spool.close()


def test_hosts_told_the_same_come_back_at_different_times(tmp_path: Path) -> None:
    waits = set()
    for seed in range(5):
        bench = Bench(tmp_path / str(seed))
        bench.uploader._rng = random.Random(seed)
        bench.spool.put("windows", b"w", num=1)
        bench.answer = lambda path: Answer(status=503, retry_after_s=60.0)
        bench.steps()
        assert 60.0 <= bench.uploader._next_try_s <= 75.0
        waits.add(bench.uploader._next_try_s)
        bench.spool.close()
    assert len(waits) == 5
