"""Where a command's tools work: a running service, a database of this machine, or a recording."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from argus.agent.wording import printable
from argus.api.cli.errors import CliError, cannot_open
from argus.api.cli.over_http import add_server, ask, quoted, server_of
from argus.api.cli.paths import path, word
from argus.api.masking import mask

if TYPE_CHECKING:
    from argus.agent.evidence import Json, ToolResult
    from argus.agent.registry import Registry
    from argus.api.toolbox import Face, Toolbox


def add_face(parser: argparse.ArgumentParser) -> None:
    """Declare where the facts are."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--db", type=word, metavar="DB", help="a service's database instead: SQLite file or postgresql:// URL"
    )
    where.add_argument(
        "--recording",
        nargs="+",
        type=path,
        metavar="PATH",
        help="traces or recordings instead, as for argus triage",
    )
    add_server(parser)


def face_of(args: argparse.Namespace) -> Face:
    """What the arguments point at. Raises CliError."""
    if args.recording:
        return recorded(args.recording)
    return stored(args.db) if args.db else _remote(server_of(args, os.environ))


def recorded(paths: Sequence[Path]) -> Toolbox:
    """The tools over files that are triaged first. Raises CliError."""
    from argus.agent.held_facts import HeldFacts, HeldRun
    from argus.analytics.recorded_steps import Numbers
    from argus.api.facts import job_facts
    from argus.api.offline.files import samples_of, stacks_of, triage_files
    from argus.api.report import NothingUsable, Report
    from argus.api.toolbox import Toolbox
    from argus.collectors.readers import ReaderError

    try:
        report = triage_files(paths, now_s=time.time())
    except (ReaderError, NothingUsable) as error:
        raise CliError(f"nothing usable: {str(error).splitlines()[0]}") from None
    if not isinstance(report, Report):
        raise CliError("a bare series of step times has no ranks to ask about; see argus triage")
    for warning in report.warnings[:5]:
        print(f"argus: {printable(warning)}", file=sys.stderr)
    held = HeldRun(
        topology=report.topology,
        windows_held=report.windows,
        steps=Numbers(steps=report.job.steps),
        findings_held=report.findings,
        incidents=report.incidents,
        dumps=(*stacks_of(report.job), *report.witnesses.stacks) or None,
        host_samples=samples_of(report.job) or None,
        told=report.witnesses.events or None,
        replay=report.replayer,
        profile=job_facts(report.job, report.topology, report.windows),
    )
    return Toolbox(facts=HeldFacts(held=(held,)))


def stored(where: str) -> Toolbox:
    """The tools over a service's database; they read it and keep evidence in it. Raises CliError."""
    from sqlalchemy.exc import SQLAlchemyError

    from argus.analytics.store.engine import StoreError, open_store
    from argus.api.cli.serve import product_analyses
    from argus.api.evidence_book import StoreBook
    from argus.api.look_again import look_again_on
    from argus.api.migrate import is_newest
    from argus.api.settings import Settings
    from argus.api.store_facts import StoreFacts
    from argus.api.toolbox import Toolbox

    if "://" not in where and not os.path.exists(where):
        raise CliError(f"there is no database {where}")
    try:
        store = open_store(where)
        if not is_newest(store):
            raise CliError(f"the database {mask(where)} is of another version: start argus serve on it once")
    except (StoreError, SQLAlchemyError) as error:
        raise cannot_open(error) from None
    book = StoreBook(store=store, clock=time.time, keep_s=Settings().keep_evidence_s)
    again = look_again_on(store, product_analyses())
    return Toolbox(facts=StoreFacts.of(store), book=book, look_again=again)


def _remote(server: str) -> Remote:
    from argus.agent.registry import registry

    return Remote(server=server, registry=registry())


@dataclass(frozen=True, kw_only=True)
class Remote:
    """The tools of a running service, over HTTP. Every method raises CliError."""

    server: str
    registry: Registry

    def call(self, name: str, args: object) -> ToolResult:
        """One call."""
        from argus.agent.evidence import ToolResult

        path = f"/v1/tools/{quoted(name)}:call"
        return ToolResult.from_json(ask(f"{self.server}{path}", method="POST", body={"arguments": args}))

    def evidence(self, evidence_id: str) -> Json | None:
        """What a tool answered, by id."""
        return ask(f"{self.server}/v1/evidence/{quoted(evidence_id)}")

    def incident(self, incident_id: str) -> Json | None:
        """An incident by id."""
        return ask(f"{self.server}/v1/incidents/{quoted(incident_id)}")

    def incidents(self, *, limit: int) -> Sequence[Json]:
        """Incidents, open ones first, then the latest."""
        return list(ask(f"{self.server}/v1/incidents?limit={limit}")["items"])
