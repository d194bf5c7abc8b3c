"""The CUPTI calls that are made, through cupti-python; everything else here only sees `Api`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol, cast

from argus.collectors.rank.cupti.kinds import DRIVER_LAUNCHES, ENABLED, RUNTIME_LAUNCHES

FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
MANY_SUBSCRIBERS = 39  # CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED

Requested = Callable[[], tuple[int, int]]
Completed = Callable[[Sequence[object]], None]


class Unavailable(Exception):
    """CUPTI cannot be used in this process; the message says why."""


class Refused(Exception):
    """CUPTI answered a call with an error; the message is CUPTI's."""


class Api(Protocol):
    """What the channel asks of CUPTI; `fake.FakeCupti` has it too. Each call may raise Refused."""

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self, *, is_forced: bool) -> None: ...

    def now_ns(self) -> int: ...

    def num_dropped(self) -> int: ...

    def has_rival(self) -> bool: ...

    def register(self, requested: Requested, completed: Completed) -> None: ...


class _Cupti(Protocol):
    """The part of the module `cupti.cupti` that is used."""

    cuptiError: type[Exception]

    def activity_enable(self, kind: int) -> None: ...

    def activity_disable(self, kind: int) -> None: ...

    def activity_enable_runtime_api(self, cbid: int, enable: int) -> None: ...

    def activity_enable_driver_api(self, cbid: int, enable: int) -> None: ...

    def activity_flush_all(self, flag: int) -> None: ...

    def activity_get_num_dropped_records(self, context: int, stream: int, dropped: int) -> None: ...

    def activity_register_callbacks(self, requested: Requested, completed: Completed) -> None: ...

    def get_timestamp(self) -> int: ...

    def subscribe(self, callback: Callable[..., None], userdata: object) -> int: ...

    def unsubscribe(self, subscriber: int) -> None: ...


class Cupti:
    """cupti-python in this process. Raises Unavailable without the package or a driver."""

    def __init__(self) -> None:
        try:
            self.module = import_module("cupti.cupti")
            self._cupti = cast(_Cupti, self.module)
            self._cupti.get_timestamp()
        except ImportError as error:
            raise Unavailable(
                f"cupti-python is not installed (pip install 'cupti-python<14'): {error}"
            ) from None
        except RuntimeError as error:  # NotSupportedError: no driver
            raise Unavailable(str(error)) from None
        self._errors = (self._cupti.cuptiError, RuntimeError)
        self._launches = [
            *self._cbids("runtime_api_trace_cbid", RUNTIME_LAUNCHES, self._cupti.activity_enable_runtime_api),
            *self._cbids("driver_api_trace_cbid", DRIVER_LAUNCHES, self._cupti.activity_enable_driver_api),
        ]

    def _cbids(
        self, enum: str, names: Sequence[str], switch: Callable[[int, int], None]
    ) -> list[tuple[Callable[[int, int], None], int]]:
        """The calls of `names` that this version knows."""
        members = getattr(self.module, enum).__members__
        return [(switch, int(members[name])) for name in names if name in members]

    def enable(self) -> None:
        """Switch on everything that is collected, or nothing."""
        try:
            for kind in ENABLED:
                self._cupti.activity_enable(kind)
            for switch, cbid in self._launches:
                switch(cbid, 1)
        except self._errors as error:
            self.disable()
            raise Refused(str(error)) from None

    def disable(self) -> None:
        """Switch off everything; what is off already stays so."""
        first: Exception | None = None
        for call, args in self._off():
            try:
                call(*args)
            except self._errors as error:
                first = first or error
        if first is not None:
            raise Refused(str(first))

    def _off(self) -> list[tuple[Callable[..., None], tuple[int, ...]]]:
        kinds: list[tuple[Callable[..., None], tuple[int, ...]]] = [
            (self._cupti.activity_disable, (kind,)) for kind in ENABLED
        ]
        return kinds + [(switch, (cbid, 0)) for switch, cbid in self._launches]

    def flush(self, *, is_forced: bool) -> None:
        """Hand over the buffers whose records are complete; forced, all of them."""
        self._ask(lambda: self._cupti.activity_flush_all(FORCED if is_forced else 0))

    def now_ns(self) -> int:
        """CUPTI's clock."""
        return int(self._ask(self._cupti.get_timestamp))

    def num_dropped(self) -> int:
        """Records CUPTI had no buffer for since the last call."""
        from ctypes import addressof, c_size_t

        count = c_size_t(0)
        self._ask(lambda: self._cupti.activity_get_num_dropped_records(0, 0, addressof(count)))
        return int(count.value)

    def has_rival(self) -> bool:
        """Whether somebody else is subscribed to CUPTI's callbacks now; nothing of ours stays behind."""
        try:
            subscriber = self._cupti.subscribe(_ignore, None)
        except self._errors as error:
            if getattr(error, "status", None) == MANY_SUBSCRIBERS:
                return True
            raise Refused(str(error)) from None
        self._ask(lambda: self._cupti.unsubscribe(subscriber))
        return False

    def register(self, requested: Requested, completed: Completed) -> None:
        """cupti-python's own callbacks: a list of record objects a buffer."""
        self._ask(lambda: self._cupti.activity_register_callbacks(requested, completed))

    def _ask(self, call: Callable[[], int | None]) -> int:
        try:
            return call() or 0
        except self._errors as error:
            raise Refused(str(error)) from None


def _ignore(*_args: object) -> None:
    """A subscriber with no callback enabled is never called."""
