"""The jobs of `argus serve --demo`: made by a module of evals, in a folder that goes with the service."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from argus.api.cli import DEMO_DATA
from argus.api.settings import Settings


class Demo(Protocol):
    """A database with jobs, the file of their cluster, a line to show, the time they stand at."""

    @property
    def db(self) -> str:
        """Path of the database."""

    @property
    def topology(self) -> str:
        """Path of the cluster's file."""

    @property
    def notice(self) -> str:
        """What the page says on top."""

    @property
    def clock(self) -> Callable[[], float]:
        """The time."""


class DemoData(Protocol):
    """The module that makes them."""

    def make_demo(self, folder: Path, *, now_s: float, say: Callable[[str], None]) -> Demo:
        """Fill a new database in a folder."""


@dataclass(frozen=True, kw_only=True)
class DemoJobs:
    """What the service is started with."""

    settings: Settings
    clock: Callable[[], float]


@contextmanager
def demo_jobs(settings: Settings) -> Iterator[DemoJobs]:
    """Settings that lead to freshly made jobs; the user's own database is not touched."""

    def say(text: str) -> None:
        print(f"argus serve: {text}", file=sys.stderr, flush=True)

    module = cast(DemoData, import_module(DEMO_DATA))
    with tempfile.TemporaryDirectory(prefix="argus-demo-") as folder:
        made = module.make_demo(Path(folder), now_s=time.time(), say=say)
        notice = settings.notice or made.notice
        own = replace(
            settings, db=made.db, topology=made.topology, notice=notice, remote_write_url="", otlp_url=""
        )
        yield DemoJobs(settings=own, clock=made.clock)
