"""Every tool of the agent on a stored run of a large cluster: how long one call takes, how much it says."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from argus.agent.fit import MAX_RESULT_BYTES
from argus.analytics.attempt import AttemptState, advance
from argus.analytics.clocks import align
from argus.analytics.numbers import window_numbers
from argus.analytics.store import incidents, progress, queries
from argus.analytics.store.documents import dump
from argus.analytics.store.engine import Store, insert_new, open_store
from argus.analytics.store.tables import WINDOWS as WINDOW_ROWS
from argus.analytics.window import Window, assemble
from argus.api.cli.serve import product_analyses
from argus.api.migrate import upgrade
from argus.api.service import Service, make_service
from argus.api.settings import Settings
from argus.api.toolbox import Toolbox, toolbox_of
from argus.collectors.host.window import cut
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.stacks import StackDump, Thread, encode_stacks
from argus.collectors.records.summary import RankWindow
from argus.collectors.records.upload import encode_windows
from argus.evals.bench import Size
from argus.evals.simulator.groups import WORLD_NAME
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build

RANKS: Mapping[Size, int] = {"smoke": 256, "default": 10_240, "full": 10_240}
STEPS, WINDOWS = 5, 60
SLOW, TP = 37, 8
REPEATS = 5
UPLOAD = 512
"""Rank windows of one upload: 64 hosts of 8."""

MUST_MS = 200.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """CPU time and wall time of some calls each, after one that builds the graph; `ok` if all are in time.

    The CPU time of the best call counts: a call is one thread, and on a busy machine the rest measures the
    neighbours.
    """
    with tempfile.TemporaryDirectory(prefix="argus-tools-") as name:
        store = open_store(str(Path(name) / "a.sqlite"))
        upgrade(store)
        service = lived_service(store, RANKS[size])
        begun = time.perf_counter()
        toolbox = toolbox_of(service)
        first = toolbox.call("blast_radius", {"node": f"rank:{SLOW}"})
        assert first.status == "ok", first
        first_s = time.perf_counter() - begun
        rows = [_measured(toolbox, tool, args) for tool, args in _calls(toolbox)]
        store.close()
    return {
        "num_ranks": RANKS[size],
        "first_call_s": first_s,
        "tools": rows,
        "ok": size == "smoke" or all(row["cpu_ms"] <= MUST_MS for row in rows),
    }


def table(result: Mapping[str, Any]) -> str:
    """A line a tool."""
    lines = [
        f"| {row['tool']} | {row['status']} | {row['cpu_ms']:.1f} | {row['best_ms']:.1f} | {row['median_ms']:.1f} | {row['max_ms']:.1f} | {row['bytes']:,} |"
        for row in result["tools"]
    ]
    head = "| tool | status | CPU, ms | best, ms | median, ms | slowest, ms | bytes |\n|---|---|---|---|---|---|---|\n"
    tail = (
        f"\n\n{result['num_ranks']:,} ranks. The first call builds the run's graph: {result['first_call_s']:.2f} s. "
        f"No answer has more than {MAX_RESULT_BYTES:,} bytes of data."
    )
    return head + "\n".join(lines) + tail


def lived_service(store: Store, ranks: int) -> Service:
    """A service that saw a job with one slow rank: its last window whole, the windows before it as copies."""
    job = Job(run="bench", ranks=ranks, tp=TP, steps=STEPS, kernels=12, warmup_steps=0)
    fault = Fault(kind="compute", ranks=(SLOW,), severity=1.5)
    done = simulate(job, (fault,), rng=np.random.default_rng(0))
    now_s = done.last_end_s
    service = make_service(
        settings=Settings(window_steps=STEPS), store=store, analyses=product_analyses(), clock=lambda: now_s
    )
    layouts = [_lean(layout) for layout in done.layouts]
    service.receive_layouts(dump({"layouts": [layout.to_json() for layout in layouts]}).encode())
    parts = [_last(part) for records in done.records for part in cut(records, WindowPlan(first=STEPS))]
    for start in range(0, len(parts), UPLOAD):
        service.receive_windows(encode_windows(part.to_bytes() for part in parts[start : start + UPLOAD]))
    observed = {"host": "h-0000", **encode_stacks(_dumps(job, now_s)), "samples": []}
    service.receive_observations(dump(observed).encode())
    _analyse(store, align(assemble(parts, build(layouts))), now_s=now_s)
    return service


def _lean(layout: Layout) -> Layout:
    """The layout without the world but for rank 0's: that every rank repeats it is a cost of the intake."""
    groups = tuple(group for group in layout.groups if layout.rank == 0 or group.name != WORLD_NAME)
    return replace(layout, groups=groups)


def _last(part: RankWindow) -> RankWindow:
    """The window under the number of the last one; steps inside it keep theirs relative to its beginning."""
    shift = (WINDOWS - 1) * STEPS
    columns = {}
    for name in ("steps", "cells", "collectives", "events", "details"):
        rows = getattr(part, name).copy()
        rows["step"] += shift
        columns[name] = rows
    return replace(part, window=WINDOWS - 1, first_step=shift, **columns)


def _analyse(store: Store, window: Window, *, now_s: float) -> None:
    """What the analysis says of the window, for it and for all before it."""
    state = AttemptState.start(window.run, window.attempt)
    step = advance(state, topology=window.topology, now_s=now_s, window=window, votes=1, min_past=0)
    body = window_numbers(window).to_bytes()
    with store.write() as connection:
        which = queries.attempt_of(connection, window.run, attempt=None)
        assert which is not None
        for index in range(WINDOWS):
            row = {"attempt_id": which.id, "window": index, "first_step": index * STEPS, "num_steps": STEPS}
            told = {**row, "status": "closed", "ranks_in": len(window.ranks), "opened_s": now_s}
            connection.execute(insert_new(connection, WINDOW_ROWS), [told])
            progress.mark_analysed(
                connection, which.id, index, now_s=now_s, coverage=window.coverage, numbers=body
            )
            found = [replace(one, window=index) for one in step.findings]
            progress.add_findings(connection, which.id, found, now_s=now_s)
        for incident in step.incidents:
            incidents.save_incident(connection, which.id, incident, now_s=now_s)


def _dumps(job: Job, now_s: float) -> list[StackDump]:
    thread = Thread(kind="main", state="S", stack="train (t.py:1);step (t.py:9);all_reduce (c.py:3)")
    return [
        StackDump(
            run=job.run,
            attempt=0,
            rank=rank,
            host=job.host(rank),
            ts_s=now_s,
            step=STEPS - 1,
            threads=(thread,),
        )
        for rank in range(min(job.ranks, 4096))
    ]


def _calls(toolbox: Toolbox) -> list[tuple[str, dict[str, Any]]]:
    listed = toolbox.call("list_findings", {})
    incident = toolbox.incidents(limit=1)[0]["id"]
    value = {"name": "n", "evidence": listed.evidence_id, "path": "/num_matching"}
    return [
        ("list_findings", {}),
        ("list_findings", {"incident": incident}),
        ("get_finding", {"finding": listed.data["findings"][0]["id"]}),
        ("compare_phase", {}),
        ("compare_phase", {"ranks": [SLOW, SLOW + TP]}),
        ("compare_kernels", {"ranks": [SLOW]}),
        ("step_series", {"ranks": [SLOW]}),
        ("collective_skew", {"group": f"tp/{SLOW // TP}"}),
        ("topology_query", {"what": "about", "node": f"rank:{SLOW}"}),
        ("topology_query", {"what": "waiters", "node": f"rank:{SLOW}", "phase": "grad_sync"}),
        ("shared_elements", {"ranks": [SLOW, SLOW + 1, SLOW + 2], "nature": "self_time"}),
        ("blast_radius", {"node": f"rank:{SLOW}"}),
        ("stacks", {}),
        ("events_oob", {"node": f"rank:{SLOW}"}),
        ("history", {"incident": incident}),
        ("compare_runs", {"other": "another"}),
        ("what_if", {"ranks": [SLOW]}),
        ("compute", {"expression": "n / 2", "values": [value], "unit": "count"}),
    ]


def _measured(toolbox: Toolbox, tool: str, args: dict[str, Any]) -> dict[str, Any]:
    took, cpu = [], []
    for _ in range(REPEATS):
        begun, begun_cpu = time.perf_counter(), time.process_time()
        result = toolbox.call(tool, args)
        took.append((time.perf_counter() - begun) * 1e3)
        cpu.append((time.process_time() - begun_cpu) * 1e3)
    return {
        "tool": f"{tool} {json.dumps(args)[:40]}" if args else tool,
        "status": result.status,
        "cpu_ms": min(cpu),
        "best_ms": min(took),
        "median_ms": float(np.median(took)),
        "max_ms": max(took),
        "bytes": len(json.dumps(result.data, separators=(",", ":"))),
    }
