"""The laws of the plug-in folders, run on every file found in them."""

from __future__ import annotations

import gzip
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import numpy as np
import pytest

from argus.analytics.classes import cause_classes
from argus.analytics.detectors import detectors
from argus.analytics.finding import Finding
from argus.analytics.view import View
from argus.analytics.window import Floats
from argus.collectors.readers import ReaderError, Reading, readers
from argus.collectors.records.frames import Kind, encode_json
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.evals.moments import Moment, moments
from argus.evals.scenarios import scenarios
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.groups import layouts
from argus.evals.simulator.job import Job
from argus.evals.simulator.names import names_of
from argus.evals.simulator.simulate import Simulation, simulate
from argus.evals.truth import Scenario
from argus.evals.views import views
from argus.topology.layout import Topology, build
from tests.analytics.kernel_kit import renamed
from tests.damage import DAMAGE

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

MAX_LONE_WINDOWS = 5
"""Of the 20 windows of a healthy job so many may hold a hiccup worth a finding."""


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


# --- detectors ---------------------------------------------------------------------------------


def needs(name: str) -> str:
    """The scenario a detector is there for."""
    wanted = getattr(module(f"argus.analytics.detectors.{name}"), "NEEDS", None)
    assert wanted in scenarios(), (
        f'{name} must name the scenario it is there for: NEEDS = "slow_rank" (got {wanted!r})'
    )
    return str(wanted)


NEEDED = tuple(sorted({needs(name) for name in detectors()}))
HEALTHY = ((4, 0), (4, 1), (8, 2), (32, 0), (64, 1))
"""Ranks and seeds of the healthy jobs."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A scenario's job as it arrives, what detectors are shown of it, and the detectors that are there for it."""

    scenario: Scenario
    layouts: tuple[Layout, ...]
    topology: Topology
    moments: tuple[Moment, ...]
    views: tuple[View, ...]
    detectors: tuple[str, ...]


def shown(name: str, *, seed: int = 0, ranks: int = 8) -> Shown:
    """Played anew."""
    scenario, done = made(name, seed=seed, ranks=ranks)
    topology, arrived = build(done.layouts), tuple(moments(done))
    return Shown(
        scenario=scenario,
        layouts=done.layouts,
        topology=topology,
        moments=arrived,
        views=tuple(views(arrived, topology)),
        detectors=tuple(one for one in detectors() if needs(one) == name),
    )


@pytest.fixture(scope="module", params=NEEDED)
def needed(request: pytest.FixtureRequest) -> Shown:
    """Each scenario that a detector needs; the tests of one come one after the other."""
    return shown(request.param)


def findings(name: str, seen: tuple[View, ...]) -> list[Finding]:
    return [finding for view in seen for finding in detectors()[name](view)]


def arrays(value: object) -> Iterator[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Every array inside frozen values and tuples of them."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from arrays(item)
    elif is_dataclass(value):
        for item in fields(value):
            yield from arrays(getattr(value, item.name))


@pytest.mark.slow
def test_a_detector_fires_on_the_scenario_that_needs_it(needed: Shown) -> None:
    for name in needed.detectors:
        suspects = [f for f in findings(name, needed.views) if f.role in ("culprit", "link", "notice")]
        assert suspects, name
        if needed.scenario.truth.ranks:
            culprits = {rank for f in suspects if f.role == "culprit" for rank in f.ranks}
            assert culprits <= set(needed.scenario.truth.ranks), name


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "seed"), HEALTHY)
def test_a_detector_blames_nobody_for_long_in_a_healthy_job(ranks: int, seed: int) -> None:
    """A lone hiccup that delays everybody is really there once; the same suspect again would be a false alarm."""
    seen = shown("healthy", seed=seed, ranks=ranks).views
    for name in detectors():
        named = {(f.ranks, f.group, f.window) for f in findings(name, seen) if f.role in ("culprit", "link")}
        again = [key for key in named for gap in (1, 2) if (key[0], key[1], key[2] + gap) in named]
        assert not again, name
        assert len({window for _, _, window in named}) <= MAX_LONE_WINDOWS, name


@pytest.mark.slow
def test_a_detector_is_pure(needed: Shown) -> None:
    seen = needed.views[-12:]
    before = [array.copy() for view in seen for array in arrays(view)]
    for name in needed.detectors:
        assert findings(name, seen) == findings(name, seen), name
    after = [array for view in seen for array in arrays(view)]
    assert all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(before, after, strict=True)
    )


RENAMED = tuple(int(rank) for rank in np.random.default_rng(3).permutation(8))
"""Rank r becomes RENAMED[r]."""

SWAPPED = (1, 0, 3, 2, 5, 4, 7, 6)
"""Of pipelines: the order of ranks is that of the stages, so only ranks of one stage change names."""


@pytest.mark.slow
@pytest.mark.parametrize("scenario", NEEDED)
def test_renaming_ranks_renames_the_findings(scenario: str) -> None:
    plain = shown(scenario, seed=1)
    names = SWAPPED if plain.scenario.job.pp > 1 else RENAMED
    topology = build(_renamed_layout(layout, names) for layout in plain.layouts)
    other = tuple(views((_renamed(moment, names) for moment in plain.moments), topology))
    for name in plain.detectors:
        told = _facts(findings(name, plain.views), names)
        assert _facts(findings(name, other), range(8)) == told, name


def _facts(found: list[Finding], new_name: Sequence[int]) -> list[tuple[object, ...]]:
    """Findings without names of groups and nodes, which are numbered by rank, and without rounding."""
    rows = [
        (f.window, f.level, f.kind, f.role, tuple(sorted(new_name[rank] for rank in f.ranks)), f.phase or "", f.start_step,
         None if f.ratio is None else f"{f.ratio:.4g}")
        for f in found
    ]  # fmt: skip
    return sorted(rows, key=repr)


def _renamed_layout(layout: Layout, names: Sequence[int]) -> Layout:
    groups = tuple(
        replace(group, ranks=tuple(sorted(names[rank] for rank in group.ranks))) for group in layout.groups
    )
    return replace(layout, rank=names[layout.rank], groups=groups)


def _renamed(moment: Moment, names: Sequence[int]) -> Moment:
    return replace(
        moment,
        parts=tuple(
            replace(part, rank=names[part.rank], kernels=renamed(part.kernels, names))
            for part in moment.parts
        ),
        beats=tuple(replace(beat, rank=names[beat.rank]) for beat in moment.beats),
    )


@pytest.mark.slow
@pytest.mark.parametrize("damage", list(DAMAGE))
def test_missing_records_never_raise(needed: Shown, damage: str) -> None:
    """Of the first half of the job: what is missing is so from the first window on."""
    half = needed.moments[: len(needed.moments) // 2]
    damaged = (replace(moment, parts=DAMAGE[damage](moment.parts)) for moment in half)
    seen = tuple(views(damaged, needed.topology))
    for name in needed.detectors:
        found = findings(name, seen)
        assert {rank for finding in found for rank in finding.ranks} <= set(needed.topology.ranks), name


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_nan_never_raises(needed: Shown, share: float) -> None:
    rng = np.random.default_rng(4)
    for view in needed.views:
        holed = _with_nan(view, rng, share=share)
        for name in needed.detectors:
            found = detectors()[name](holed)
            assert all(np.isfinite(f.ratio) for f in found if f.ratio is not None), name


def _with_nan(view: View, rng: np.random.Generator, *, share: float) -> View:
    if view.window is None:
        return view

    def holes(values: Floats) -> Floats:
        return np.where(rng.random(values.shape) < share, np.nan, values)

    whole = view.window
    window = replace(
        whole,
        step_s=holes(whole.step_s),
        step_cpu_s=holes(whole.step_cpu_s),
        dur_s=holes(whole.dur_s),
        wait_s=holes(whole.wait_s),
        max_s=holes(whole.max_s),
        cpu_s=holes(whole.cpu_s),
    )
    return replace(view, window=window)


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
