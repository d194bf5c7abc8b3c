"""The laws of the plug-in folders, run on every file found in them."""

from __future__ import annotations

import gzip
import inspect
import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import numpy as np
import pytest

from argus.analytics.classes import cause_classes
from argus.collectors.readers import ReaderError, Reading, readers
from argus.collectors.records.frames import Kind, encode_json
from argus.collectors.records.plan import WindowPlan
from argus.evals.scenarios import scenarios
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.groups import layouts
from argus.evals.simulator.job import Job
from argus.evals.simulator.names import names_of
from argus.evals.simulator.simulate import Simulation, simulate
from argus.evals.truth import Scenario
from argus.topology.layout import build

FOLDERS = (
    "collectors.readers",
    "collectors.hooks",
    "topology.loaders",
    "analytics.detectors",
    "agent.tools",
    "api.notifiers",
    "evals.scenarios",
)
ENTRY = {"analytics.detectors": "detect", "evals.scenarios": "scenario", "api.notifiers": "notifier"}
"""The function of a plug-in whose keyword-only parameters are its settings."""


def plugins() -> list[str]:
    """Dotted names of every plug-in module."""
    packages = [import_module(f"argus.{folder}") for folder in FOLDERS]
    return [
        f"{package.__name__}.{item.name}"
        for package in packages
        for item in iter_modules(package.__path__)
        if not item.name.startswith("_")
    ]


def modules_of(folder: str) -> list[str]:
    """Dotted names of one folder's plug-ins."""
    return [name for name in plugins() if name.rpartition(".")[0] == f"argus.{folder}"]


def module(name: str) -> ModuleType:
    return import_module(name)


@pytest.mark.parametrize("name", plugins())
def test_the_docstring_of_a_plugin_is_its_documentation(name: str) -> None:
    first = (module(name).__doc__ or "").strip().split("\n")[0]
    assert len(first) > 20, f"{name} needs a sentence that says what it is for"


@pytest.mark.parametrize("name", [name for folder in ENTRY for name in modules_of(folder)])
def test_the_settings_of_a_plugin_are_keyword_only_with_defaults(name: str) -> None:
    folder = name.removeprefix("argus.").rpartition(".")[0]
    parameters = list(inspect.signature(getattr(module(name), ENTRY[folder])).parameters.values())
    settings = parameters if folder == "evals.scenarios" else parameters[1:]
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in settings), name


# --- scenarios ---------------------------------------------------------------------------------


SEEDS = (0, 1, 2)


def made(name: str, *, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> tuple[Scenario, Simulation]:
    scenario = scenarios()[name](seed=seed, ranks=ranks, severity=severity)
    return scenario, simulate(scenario.job, scenario.faults, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("name", list(scenarios()))
def test_a_scenario_is_the_same_for_the_same_seed(name: str) -> None:
    make = scenarios()[name]
    assert make(seed=5, ranks=16, severity=1.3) == make(seed=5, ranks=16, severity=1.3)
    assert len({repr(make(seed=seed, ranks=16, severity=1.3)) for seed in range(8)}) > 4


@pytest.mark.parametrize("name", list(scenarios()))
@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
def test_the_truth_of_a_scenario_fits_its_faults(name: str, ranks: int) -> None:
    for seed in SEEDS if ranks <= 8 else SEEDS[:1]:
        scenario = scenarios()[name](seed=seed, ranks=ranks, severity=1.5)
        truth = scenario.truth
        assert scenario.job.ranks == ranks
        assert truth.fault_class is None or scenario.faults
        if truth.fault_class is None:
            continue
        assert truth.fault_class in cause_classes()
        assert min(fault.start_step for fault in scenario.faults) == truth.onset_step < scenario.job.steps
        accused = {rank for one in scenario.truths for rank in one.ranks}
        touched = {rank for fault in scenario.faults if fault.kind != "gap" for rank in fault.ranks}
        assert accused <= set(range(ranks)) and (not truth.ranks or touched <= accused)
        topology = build(layouts(scenario.job))
        nodes = {f"rank:{rank}" for rank in truth.ranks} | {f"run:{topology.run}"}
        nodes |= {f"group:{group.id}" for group in topology.groups}
        nodes |= {f"host:{host}" for host in topology.hosts.values()}
        nodes |= {f"stage:{stage}" for stage in range(scenario.job.pp)}
        assert truth.scope in nodes


@pytest.mark.parametrize("name", list(scenarios()))
def test_nothing_a_detector_sees_names_the_scenario(name: str) -> None:
    scenario, done = made(name, seed=987_654)
    told = scenario.truth
    seen = json.dumps(
        [
            [layout.to_json() for layout in done.layouts],
            names_of(scenario.job).of_rank(0),
            done.beats(done.last_end_s)[0].to_json(),
            [look.to_json() for look in done.host_use.looks(0, done.clocks)[:2]],
            [event.to_json() for event in scenario.events],
            [part.host for part in next(done.windows(WindowPlan())).parts],
        ]
    )
    assert not re.search(rf"\b{name}\b", seen) and "987654" not in seen
    assert told.fault_class is None or told.fault_class not in seen


# --- readers -----------------------------------------------------------------------------------


def _recording() -> bytes:
    return b"".join(rank_frames(simulate(Job(ranks=2, steps=12), rng=np.random.default_rng(0)).records[0]))


def hostile_files() -> Mapping[str, bytes]:
    """Contents that are no trace, or not a whole one."""
    rng = np.random.default_rng(5)
    recording = _recording()
    trace = json.dumps(
        {"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [{"ph": "X"}] * 50}
    ).encode()
    layout = encode_json(Kind.LAYOUT, {"run": 7, "world_size": -1})
    return {
        "empty": b"",
        "noise": rng.bytes(4096),
        "recording-cut": recording[: len(recording) // 2 + 3],
        "recording-noise": recording[:200] + rng.bytes(400),
        "recording-wrong": layout + encode_json(Kind.STRINGS, {"first": "x"}),
        "trace-cut": trace[: len(trace) // 2],
        "trace-wrong-types": b'{"traceEvents": [1, null, {"ph": 3, "ts": "x", "dur": []}], "distributedInfo": []}',
        "trace-list": b"[1, 2, {}]",
        "deep": b'{"traceEvents": ' + b"[" * 50_000,
        "gzip-cut": gzip.compress(trace)[:60],
        "gzip-noise": gzip.compress(rng.bytes(2000)),
        "text": "Überraschung, keine Spur\n".encode("latin-1") * 20,
    }


@pytest.mark.parametrize("name", list(readers()))
@pytest.mark.parametrize("content", list(hostile_files()))
def test_a_reader_raises_only_its_own_error(name: str, content: str, tmp_path: Path) -> None:
    reader = readers()[name]
    for suffix in (".json", ".json.gz", ".argus", ".bin"):
        path = tmp_path / f"rank-0{suffix}"
        path.write_bytes(hostile_files()[content])
        try:
            assert all(isinstance(reading, Reading) for reading in reader.read(path))
        except ReaderError as error:
            assert path.name in str(error)


@pytest.mark.parametrize("name", list(readers()))
def test_a_reader_does_not_take_what_is_not_its_own(name: str) -> None:
    for content in ("empty", "noise", "text"):
        assert readers()[name].sniff(hostile_files()[content], "file.bin") is False


# --- loaders and hooks -------------------------------------------------------------------------


@pytest.mark.parametrize("name", modules_of("topology.loaders"))
@pytest.mark.parametrize("content", [name for name in hostile_files() if name != "deep"])
def test_a_loader_raises_only_its_own_error(name: str, content: str) -> None:
    facts = import_module("argus.topology.facts")
    loader, raw = module(name), hostile_files()[content]
    assert isinstance(loader.sniff(raw, "file.bin"), bool)
    try:
        assert isinstance(loader.load(raw, origin="file.bin", host="h"), facts.Facts)
    except facts.LoaderError as error:
        assert "file.bin" in str(error)


@pytest.mark.parametrize("name", modules_of("collectors.hooks"))
def test_a_hook_says_what_it_needs_and_can_be_installed(name: str) -> None:
    hook = module(name)
    assert isinstance(hook.NEEDS, str) and hook.NEEDS
    assert list(inspect.signature(hook.install).parameters) == ["session", "part"]
