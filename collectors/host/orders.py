"""The thread that waits for the service's orders by long poll: the host listens on nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from urllib.parse import quote

from argus.collectors.host.client import Answer
from argus.collectors.host.counters import Counters
from argus.collectors.host.notices import Notices
from argus.collectors.host.rank import Key
from argus.collectors.host.raw_ring import RawRing
from argus.collectors.records.errors import WireError
from argus.collectors.records.order import RECORDING_TYPE, Order

WAIT_S = 20.0
"""How long one poll may hang at the service."""

MIN_PAUSE_S = 0.5
MAX_PAUSE_S = 30.0
SEND_TRIES = 3
MAX_ORDERS = 64

Get = Callable[[str], Answer]
Send = Callable[[str, bytes, str], Answer]
"""Path, body, content type."""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """How the service is reached."""

    get: Get
    send: Send


class Orders:
    """Pins and captures are done here; bursts go to the loop, which owns the stack plan."""

    def __init__(
        self,
        lines: Lines,
        ring: RawRing | None,
        *,
        host: str,
        counters: Counters,
        notices: Notices,
        rng: random.Random,
    ) -> None:
        self._lines, self._ring, self._host = lines, ring, host
        self._counters, self._notices, self._rng = counters, notices, rng
        self._after = 0
        self._num_fails = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="argus-orders", daemon=True)
        self.bursts: SimpleQueue[Order] = SimpleQueue()

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def close(self) -> None:
        """End; a poll that hangs is left to its daemon thread."""
        self._stopping.set()

    def poll(self) -> float:
        """One round: wait for orders, do them. Returns how long to pause before the next."""
        path = f"/v1/hosts/{quote(self._host, safe='')}/orders?after={self._after}&wait_s={WAIT_S:.0f}"
        answer = self._lines.get(path)
        orders = answer.body.get("orders")
        if answer.status != 200 or not isinstance(orders, list):
            self._num_fails = min(self._num_fails + 1, 8)
            return float(min(MAX_PAUSE_S, MIN_PAUSE_S * 2.0**self._num_fails) * self._rng.uniform(0.5, 1.0))
        self._num_fails = 0
        for raw in orders[:MAX_ORDERS]:
            try:
                self._take(raw)
            except (OSError, MemoryError) as error:
                self._notices.once("order", f"an order could not be followed: {error!r:.200}")
        return MIN_PAUSE_S

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(self.poll())

    def _take(self, raw: object) -> None:
        number = raw.get("id") if isinstance(raw, dict) else None
        if isinstance(number, int):  # one that makes no sense too: a newer service would send it for ever
            self._after = max(self._after, number)
        try:
            order = Order.from_json(raw)
        except WireError as error:
            self._counters.add("argus_collector_rejected_total", "order")
            self._notices.once("order", f"the service sent an order that makes no sense: {error}")
            return
        self._counters.add("argus_collector_orders_total", order.kind)
        keys = [(order.run, order.attempt, rank) for rank in order.ranks]
        if order.kind == "burst":
            self.bursts.put(order)
        elif order.kind == "pin" and self._ring is not None:
            self._ring.pin(keys, first_step=order.first_step, end_step=order.end_step)
        elif order.kind == "capture":
            for key in keys:
                self._capture(order, key)

    def _capture(self, order: Order, key: Key) -> None:
        """Send what is left of a rank; an empty body says that nothing is."""
        import zstandard

        raw = b""
        if self._ring is not None:
            raw = self._ring.extract(key, first_step=order.first_step, end_step=order.end_step)
        body = zstandard.ZstdCompressor(level=3).compress(raw) if raw else b""
        for _ in range(SEND_TRIES):
            answer = self._lines.send(f"/v1/captures/{order.capture}/ranks/{key[2]}", body, RECORDING_TYPE)
            if answer.status == 200:
                return
            if 400 <= answer.status < 500 or self._stopping.wait(MIN_PAUSE_S):
                break
        self._notices.once(
            "capture", f"capture {order.capture} was not taken: {answer.error or answer.status}"
        )
