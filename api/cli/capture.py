"""`argus capture`: the raw records of some ranks as one clock-aligned Perfetto file."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from argus.api.cli.errors import CliError
from argus.api.cli.numbers import add_ranks, seconds, whole
from argus.api.cli.over_http import add_server, ask, ask_bytes, quoted, server_of
from argus.api.cli.paths import word, write_whole
from argus.collectors.records.events import RankRecords

PAPER_BYTES = 443_000
"""Bytes of Perfetto a rank-step took in the ARGUS paper."""

POLL_S = 0.5
MAX_WAIT_S = 86400.0
MAX_WINDOWS = 100  # the service gives no more at once


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to capture, and where it goes."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--incident", metavar="ID", help="suspects and two healthy peers around its onset")
    what.add_argument("--run", metavar="NAME", help="a run's ranks over its last windows")
    add_ranks(parser)
    parser.add_argument(
        "--last", type=whole(1, MAX_WINDOWS), default=3, metavar="N", help="windows (default 3)"
    )
    parser.add_argument(
        "--to", type=word, default=".", metavar="DIR", help="folder or fsspec URL such as s3://bucket/x"
    )
    parser.add_argument(
        "--timeout-s", type=seconds(MAX_WAIT_S), default=60.0, metavar="S", help="wait for the hosts so long"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Order, wait, fetch, align, write."""
    if args.run and not args.rank:
        raise CliError("name the ranks of the run with --rank")
    server = server_of(args, os.environ)
    body = (
        {"incident": args.incident}
        if args.incident
        else {"run": args.run, "ranks": args.rank, "last": args.last}
    )
    order = ask(f"{server}/v1/captures", method="POST", body=body)
    capture = wait_for(server, order, timeout_s=args.timeout_s)
    ranks = fetch(server, capture)
    missing = sorted(set(capture["ranks"]) - {records.layout.rank for records in ranks})
    if not ranks:
        raise CliError("nothing of these ranks and steps is left on their hosts", code=1)
    text = write(server, args, capture=capture, ranks=ranks)
    result = {**summary(ranks, text), "missing": missing, "capture": capture["id"]}
    print(json.dumps(result) if args.json else _told(result))
    return 1 if missing else 0


def wait_for(server: str, order: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
    """The capture with all its ranks in, or as it is when the time is up."""
    end_s = time.monotonic() + timeout_s
    print(f"waiting for {', '.join(order['hosts'])}", file=sys.stderr)
    while True:
        capture = ask(f"{server}/v1/captures/{quoted(order['id'])}")
        if set(map(int, capture["bytes"])) >= set(capture["ranks"]) or time.monotonic() > end_s:
            return capture
        time.sleep(POLL_S)


def fetch(server: str, capture: dict[str, Any]) -> list[RankRecords]:
    """The records of the ranks that are in."""
    from argus.api.captured import Unreadable, records_in

    found = []
    for rank, num_bytes in capture["bytes"].items():
        if not num_bytes:
            continue
        try:
            found += records_in(ask_bytes(f"{server}/v1/captures/{quoted(capture['id'])}/ranks/{rank}"))
        except Unreadable as error:
            print(f"rank {rank} is left out: {error}", file=sys.stderr)
    return found


def write(
    server: str, args: argparse.Namespace, *, capture: dict[str, Any], ranks: Sequence[RankRecords]
) -> dict[str, Any]:
    """Write the Perfetto file; where it lies and its size."""
    from argus.api.captured import trace_name, trace_of

    raw = trace_of(capture, ranks, stacks=_stacks(server, capture, ranks))
    return {"file": store(args.to, trace_name(capture), raw), "file_bytes": len(raw)}


def store(where: str, name: str, raw: bytes) -> str:
    """Put a file into a folder or under an fsspec URL; returns where it lies."""
    if "://" not in where:
        path = Path(where) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, raw)
        except OSError as error:
            raise CliError(f"cannot write {path}: {error.strerror}", code=1) from None
        return str(path)
    fsspec = import_module("fsspec")
    url = f"{where.rstrip('/')}/{name}"
    try:
        with fsspec.open(url, "wb", auto_mkdir=True) as file:
            file.write(raw)
    except (OSError, ValueError, ImportError) as error:
        raise CliError(f"cannot write {url}: {error}", code=1) from None
    return url


def summary(ranks: Sequence[RankRecords], written: dict[str, Any]) -> dict[str, Any]:
    """Sizes of a rank-step, as Perfetto beside the paper's and as packed records."""
    kinds = ("steps", "phases", "collectives", "kernels", "events")
    num_bytes = sum(getattr(records, kind).nbytes for records in ranks for kind in kinds)
    num_steps = sum(len(records.steps) for records in ranks)
    return {
        **written,
        "ranks": sorted(records.layout.rank for records in ranks),
        "rank_steps": num_steps,
        "bytes_per_rank_step": written["file_bytes"] / max(num_steps, 1),
        "raw_bytes_per_rank_step": num_bytes / max(num_steps, 1),
        "paper_bytes_per_rank_step": PAPER_BYTES,
    }


def _told(result: dict[str, Any]) -> str:
    per, paper = result["bytes_per_rank_step"], result["paper_bytes_per_rank_step"]
    raw = result["raw_bytes_per_rank_step"]
    sizes = (
        f"{per / 1e3:.1f} kB each (the ARGUS paper: {paper / 1e3:.0f} kB), {raw / 1e3:.1f} kB as raw records"
    )
    lines = [
        f"{result['file']} ({result['file_bytes']} bytes): open it at ui.perfetto.dev",
        f"{result['rank_steps']} rank-steps of ranks {result['ranks']}, {sizes}",
    ]
    if result["missing"]:
        lines.append(f"nothing came of ranks {result['missing']}")
    return "\n".join(lines)


def _stacks(server: str, capture: dict[str, Any], ranks: Sequence[RankRecords]) -> list[dict[str, Any]]:
    """Stack dumps of the ranks."""
    query = "&".join(f"rank={records.layout.rank}" for records in ranks[:64])
    where = (
        f"{server}/v1/runs/{quoted(capture['run'])}/stacks?attempt={capture['attempt']}&limit=1000&{query}"
    )
    items: list[dict[str, Any]] = ask(where)["items"]
    return items
