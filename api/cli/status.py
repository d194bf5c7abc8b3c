"""`argus status`: what every host, rank and part sees, what was lost, what it costs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from argus.agent.wording import counted
from argus.api.cli.over_http import add_server, ask, quoted, server_of
from argus.collectors.records.text import tame

MAX_LINE = 160
MAX_SENTENCE = 640


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, which service, which form."""
    parser.add_argument("--run", metavar="NAME", help="the run (default: all the service knows, in short)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    server = server_of(args, os.environ)
    if args.run is None:
        answer = ask(f"{server}/v1/runs")
        lines = [_run_line(item) for item in answer["items"]] or ["no run yet"]
        if (more := answer["total"] - len(answer["items"])) > 0:
            print(f"and {counted(more, 'runs')} heard of before those, see --run", file=sys.stderr)
    else:
        answer = ask(f"{server}/v1/runs/{quoted(args.run)}/status")
        lines = list(render(answer))
    print(json.dumps(answer) if args.json else "\n".join(lines))
    return 0


def _run_line(item: dict[str, Any]) -> str:
    ranks = ", ".join(f"{count} {state}" for state, count in item["ranks"].items()) or "no rank heard of"
    incidents = counted(item["open_incidents"], "open incidents")
    return tame(f"{item['run']} attempt {item['attempt']}: {item['status']}, {ranks}, {incidents}", MAX_LINE)


def render(status: dict[str, Any]) -> Iterator[str]:
    """Lines of text; everything foreign in them is tamed."""
    off = ", switched OFF (argus on --run NAME switches it on)" if status["is_off"] else ""
    yield tame(f"run {status['run']}, attempt {status['attempt']}{off}", MAX_LINE)
    if mixed := status.get("mixed"):
        yield tame(f"  {mixed}", MAX_SENTENCE)
    yield from _window_lines(status["window"])
    yield from _overhead_lines([rank for host in status["hosts"] for rank in host["ranks"]])
    for change in status["governor"]["changes"]:
        yield tame(f"  {change['text']}", MAX_LINE)
    for host in status["hosts"]:
        yield from _host_lines(host, service=status["service"])


def _window_lines(window: dict[str, Any] | None) -> Iterator[str]:
    if window is None:
        yield "  no window analysed yet"
        return
    coverage = window["coverage"] or {}
    ratio = coverage.get("ratio")
    seen = f", {ratio:.0%} of its rank-steps came in" if isinstance(ratio, float) else ""
    yield f"  last window {window['window']}: steps from {window['first_step']} on{seen}"
    dropped = coverage.get("dropped") or {}
    if dropped:
        told = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
        yield tame(f"    lost in it: {told}", MAX_LINE)
    for text in coverage.get("unseen") or ():
        yield tame(f"    not seen: {text}", MAX_LINE)


def _overhead_lines(ranks: list[dict[str, Any]]) -> Iterator[str]:
    """What the ranks measured of our own cost, and what is off because of it: one rank of a host speaks for it."""
    seen = next((rank for rank in ranks if rank["overhead"]), None)
    if seen is None:
        return
    for channel, (ratio, low, high, n) in seen["overhead"].items():
        percents = [f"{(value - 1) * 100:+.1f} %" for value in (ratio, low, high)]
        text = f"{percents[0]} of step time (95 %: {percents[1]} to {percents[2]}, n = {n:.0f})"
        yield tame(f"  cost of {channel}: {text}", MAX_LINE)
    for channel in seen["channels_off"]:
        yield tame(f"  {channel}: off, stepped down", MAX_LINE)


def skew_of(processor: dict[str, Any], service: dict[str, Any]) -> str:
    """How a host's processor and the service differ in their versions, and what to do; "" if they do not."""
    wire, speaks = processor["wire"], service["wire"]
    if wire < speaks:
        return f"sends wire {wire}, the service speaks {speaks} and still reads it: upgrade this host"
    if wire > speaks:
        return f"sends wire {wire}, the service speaks {speaks} and cannot read it: upgrade the service"
    if processor["version"] != service["version"]:
        return f"version {processor['version']}, the service has {service['version']}; both speak wire {wire}"
    return ""


def _host_lines(host: dict[str, Any], *, service: dict[str, Any]) -> Iterator[str]:
    processor = host["processor"]
    yield tame(f"  host {host['host']}: {_processor(processor)}", MAX_LINE)
    if processor is not None:
        if skew := skew_of(processor, service):
            yield tame(f"    skew: {skew}", MAX_LINE)
        for part, text in processor["parts"].items():
            yield tame(f"    {part}: {text}", MAX_LINE)
        for reason, count in processor["dropped"].items():
            yield tame(f"    lost: {count:.0f} {reason}", MAX_LINE)
    if host["sample"] is not None:
        yield tame(f"    kernel: {_pressure(host['sample'])}", MAX_LINE)
    for rank in host["ranks"]:
        phase = f" in {rank['phase']}" if rank["phase"] else ""
        mark = f", {rank['in_mark']}" if rank["in_mark"] else ""
        step = f"step {rank['step']}{phase}{mark}, median {rank['step_p50_s']:.3f} s"
        yield tame(
            f"    rank {rank['rank']}: {rank['state']}, {step}, heard {rank['age_s']:.0f} s ago", MAX_LINE
        )


def _processor(report: dict[str, Any] | None) -> str:
    if report is None:
        return "its processor has not reported"
    running_s = max(report["received_s"] - report["started_s"], 1.0)
    size = f", ring {report['ring_bytes'] / 1e6:.1f} MB" if report["ring_bytes"] else ""
    per = report["bytes_per_rank_step"]
    raw = f" ({per / 1e3:.1f} kB a rank-step)" if per else ""
    return (
        f"processor uses {report['cpu_s'] / running_s:.1%} of a core for {counted(report['num_ranks'], 'ranks')}"
        f"{size}{raw}, heard {report['age_s']:.0f} s ago"
    )


def _pressure(sample: dict[str, Any]) -> str:
    span_s = max(sample["end_s"] - sample["start_s"], 1e-3)
    names = ("cpu_some_s", "memory_full_s", "io_full_s", "cpu_steal_s")
    shares = [
        f"{name.removesuffix('_s').replace('_', ' ')} {sample['numbers'][name] / span_s:.0%}"
        for name in names
        if name in sample["numbers"]
    ]
    events = [f"{event['kind']} {event['code']} {event['device']}" for event in sample["events"]]
    return ", ".join([*shares, *events]) or "nothing measured"
