"""`argus stacks`: what the threads of a run's ranks do, now or lately."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from argus.agent.wording import counted
from argus.api.cli.errors import CliError
from argus.api.cli.numbers import add_ranks, seconds, whole
from argus.api.cli.over_http import add_server, ask, quoted, server_of
from argus.collectors.records.stacks import StackDump, Thread
from argus.collectors.records.text import tame

SETTLE_S = 12.0
"""From a host's last dump to the store: its upload period and the waits on the way."""

MAX_BURST_S = 60.0  # the service orders no longer one
MAX_FRAMES = 12
MAX_COMPARED = 1000
"""Dumps compared, the latest: what the service tells at once."""

MAX_LINE = 160


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run and ranks; whether to look closer first."""
    parser.add_argument("--run", required=True, metavar="NAME", help="the run")
    add_ranks(parser)
    parser.add_argument(
        "--burst", type=seconds(MAX_BURST_S), metavar="S", help="first dump them each second for S seconds"
    )
    parser.add_argument("--native", action="store_true", help="native frames too, in the burst only")
    parser.add_argument(
        "--against-peers", action="store_true", help="which stacks the ranks show more often than all others"
    )
    parser.add_argument(
        "--limit", type=whole(1, MAX_COMPARED), default=8, metavar="N", help="dumps to show (default 8)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Ask for a burst if wanted, then show the latest dumps."""
    if args.native and not args.burst:
        raise CliError("native frames are dumped in a burst only: add --burst S to --native")
    where = f"{server_of(args, os.environ)}/v1/runs/{quoted(args.run)}"
    if args.burst:
        body = {"ranks": args.rank, "seconds": args.burst, "native": args.native}
        hosts = ask(f"{where}/burst", method="POST", body=body)["hosts"]
        print(f"{', '.join(hosts)} dump for {args.burst:.0f} s", file=sys.stderr)
        time.sleep(args.burst + SETTLE_S)
    if args.against_peers:
        return _compare(where, args)
    query = "".join(f"&rank={rank}" for rank in args.rank)
    answer = ask(f"{where}/stacks?limit={args.limit}{query}")
    print(json.dumps(answer) if args.json else "\n".join(render(answer["items"])))
    return 0


def _compare(where: str, args: argparse.Namespace) -> int:
    """Print the stacks that set the ranks apart."""
    from argus.analytics.host_frames import against_peers

    if not args.rank:
        raise CliError("say with --rank which ranks are compared with the others")
    dumps = [dump_of(item, run=args.run) for item in ask(f"{where}/stacks?limit={MAX_COMPARED}")["items"]]
    mine = [dump for dump in dumps if dump.rank in args.rank]
    rows = against_peers(mine, [dump for dump in dumps if dump.rank not in args.rank], limit=args.limit)
    if args.json:
        told = [{"stack": stack, "share": share, "peers_share": peers} for stack, share, peers in rows]
        print(json.dumps({"dumps": len(mine), "items": told}))
        return 0
    print(f"{counted(len(mine), 'dumps')} of the ranks, {len(dumps) - len(mine)} of others")
    for stack, share, peers in rows:
        print(f"{share:.0%} of theirs, {peers:.0%} of the others'")
        for frame in stack.split(";")[::-1][:MAX_FRAMES]:
            print(tame(f"    {frame}", MAX_LINE))
    return 0


def dump_of(item: dict[str, Any], *, run: str) -> StackDump:
    """A dump as the service tells it."""
    threads = tuple(Thread(**thread) for thread in item["threads"])
    names = ("rank", "host", "ts_s", "step", "open_s", "reason", "is_native", "error", "detail")
    return StackDump(run=run, attempt=0, threads=threads, **{name: item[name] for name in names})


def render(items: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of text, the innermost frame first; everything foreign in them is tamed."""
    if not items:
        yield "no stacks yet"
    for item in items:
        open_s = f" open for {item['open_s']:.2f} s" if item["open_s"] else ""
        why = item["reason"].replace("_", " ")
        yield tame(f"rank {item['rank']} on {item['host']}, step {item['step']}{open_s}, {why}", MAX_LINE)
        if item["error"]:
            yield tame(f"  no answer: {item['error']} {item['detail']}", MAX_LINE)
        for thread in item["threads"]:
            yield from _thread(thread)


def _thread(thread: dict[str, Any]) -> Iterator[str]:
    gil = ", has the GIL" if thread["has_gil"] else ""
    wchan = f" in {thread['wchan']}" if thread["wchan"] else ""
    yield tame(f"  {thread['kind']} {thread['name']}: {thread['state']}{wchan}{gil}", MAX_LINE)
    frames = thread["stack"].split(";")[::-1] if thread["stack"] else []
    yield from (tame(f"    {frame}", MAX_LINE) for frame in frames[:MAX_FRAMES])
