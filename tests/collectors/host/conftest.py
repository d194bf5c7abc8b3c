"""Processors on threads of this process, and the service they report to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from argus.collectors.host.fake_host import FakeHost
from argus.collectors.host.fake_host import start as start_host
from argus.collectors.host.fake_service import FakeService, serve

Start = Callable[..., FakeHost]


@pytest.fixture
def service() -> Iterator[FakeService]:
    with serve(FakeService()) as it:
        yield it


@pytest.fixture
def start(tmp_path: Path, service: FakeService) -> Iterator[Start]:
    """Starts processors that report to `service`, unless told otherwise."""
    hosts: list[FakeHost] = []

    def begin(**options: Any) -> FakeHost:
        hosts.append(start_host(tmp_path, **{"url": service.url, **options}))
        return hosts[-1]

    yield begin
    for host in hosts:
        host.stop()
