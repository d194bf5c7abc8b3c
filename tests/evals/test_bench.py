"""The bench command: sizes, sections in the document, the statistics of paired blocks."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argus.api.cli.errors import CliError
from argus.evals import bench
from argus.evals.arms import PROFILERS, SINGLE
from argus.evals.bench import overhead
from argus.evals.dumper import Dumper


def rows(ratio: float, *, n: int, noise: float, seed: int) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    off = rng.lognormal(0.0, 0.3, n)  # slow drift of the machine, common to both arms of a pair
    return [{"off": float(o), "on": float(o * ratio * np.exp(rng.normal(0, noise)))} for o in off]


@pytest.mark.parametrize("ratio", [1.0, 1.01, 1.05])
def test_the_interval_holds_the_true_ratio(ratio: float) -> None:
    hits = 0
    for seed in range(20):
        arm = overhead.compare(rows(ratio, n=100, noise=0.03, seed=seed), "on")
        hits += arm.ci95[0] <= ratio <= arm.ci95[1]
        assert arm.n == 100
        assert abs(arm.ratio - ratio) < 0.02
    assert hits >= 16


def test_pairs_of_one_turn_that_err_together_widen_the_interval() -> None:
    hits = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        drift = np.repeat(np.exp(rng.normal(0, 0.03, 40)), 5)  # between an arm's turn and the other's
        shaken = [
            {**row, "on": row["on"] * d}
            for row, d in zip(rows(1.01, n=200, noise=0.01, seed=seed), drift, strict=True)
        ]
        low, high = overhead.compare(shaken, "on", turns=[i // 5 for i in range(200)]).ci95
        hits += low <= 1.01 <= high
    assert hits >= 16


def test_bursts_on_single_blocks_do_not_move_the_ratio() -> None:
    clean = rows(1.01, n=100, noise=0.01, seed=1)
    burst = [{**row, "on": row["on"] * (8 if i % 10 == 0 else 1)} for i, row in enumerate(clean)]
    assert abs(overhead.compare(burst, "on").ratio - overhead.compare(clean, "on").ratio) < 0.005


def test_rounds_with_a_sampled_step_count_for_their_share_and_are_not_trimmed_away() -> None:
    plain = rows(1.0, n=100, noise=0.001, seed=1)
    mixed = [{**row, "on": row["on"] * (1.5 if i % 25 == 1 else 1)} for i, row in enumerate(plain)]
    sampled = [i for i in range(100) if i % 25 == 1]
    told = overhead.compare(mixed, "on", sampled=sampled, share=0.04)
    assert told.n == 100 and abs(told.ratio - 1.02) < 0.001 and told.ci95[0] < 1.02 < told.ci95[1]
    assert overhead.compare(mixed, "on").ratio < 1.001  # as if they were bursts
    alone = overhead.compare(mixed, "on", sampled=range(100), share=0.04)
    assert alone == overhead.compare(mixed, "on")  # nothing to weigh against


def robbed(ratio: float, *, n: int, seed: int) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Blocks a second of which loses half of what a hypervisor gave to others, counted in whole ticks."""
    rng = np.random.default_rng(seed)
    made, stolen = [], []
    for row in rows(ratio, n=n, noise=0.02, seed=seed):
        gone = {arm: float(rng.exponential(0.1)) for arm in row}
        made.append({arm: seconds * float(np.exp(0.5 * gone[arm])) for arm, seconds in row.items()})
        stolen.append({arm: round(share / 0.05) * 0.05 for arm, share in gone.items()})
    return made, stolen


def test_what_the_hypervisor_took_is_taken_out_and_the_interval_holds_all_the_same() -> None:
    hits, narrower = 0, []
    for seed in range(20):
        timed, stolen = robbed(1.01, n=150, seed=seed)
        calm, slope = overhead.calmed(timed, stolen)
        arm, before = overhead.compare(calm, "on"), overhead.compare(timed, "on")
        assert 0.35 < slope < 0.65
        hits += arm.ci95[0] <= 1.01 <= arm.ci95[1]
        narrower.append((arm.ci95[1] - arm.ci95[0]) / (before.ci95[1] - before.ci95[0]))
    assert hits >= 16 and np.median(narrower) < 0.8


def test_an_arm_that_only_looks_slow_because_it_was_robbed_is_not() -> None:
    timed, stolen = robbed(1.0, n=150, seed=3)
    timed = [{**row, "on": row["on"] * float(np.exp(0.05))} for row in timed]
    stolen = [{**gone, "on": gone["on"] + 0.1} for gone in stolen]
    assert overhead.compare(timed, "on").ratio > 1.04
    assert abs(overhead.compare(overhead.calmed(timed, stolen)[0], "on").ratio - 1.0) < 0.01


def test_without_a_hypervisor_blocks_stay_as_timed() -> None:
    timed = rows(1.02, n=30, noise=0.03, seed=5)
    assert overhead.calmed(timed, [dict.fromkeys(row, 0.0) for row in timed]) == (timed, 0.0)


@pytest.mark.parametrize("size", ["smoke", "default", "full"])
def test_each_arm_has_the_pairs_that_are_promised(size: bench.Size) -> None:
    least = {"default": 40, "full": 300, "smoke": 1}[size]
    for name in overhead.BLOCK_STEPS:
        pairs: dict[str, int] = {}
        for part in overhead.plan_of(name, size=size):
            assert part.arms[0] == "off"
            for arm in part.arms[1:]:
                pairs[arm] = pairs.get(arm, 0) + part.rounds * part.turn
        assert min(pairs.values()) >= least
        if name in overhead.PROMISED:
            assert size == "smoke" or pairs["all"] >= 300
        if name == "transformer":
            assert set(pairs) >= {"all", "stopped", "null", *SINGLE, *PROFILERS}


def test_dumps_are_taken_in_the_blocks_that_are_to_have_them(tmp_path: Path) -> None:
    (tmp_path / "pid-0").write_text(str(2**22 + 1))  # nobody
    dumper = Dumper(tmp_path, num_ranks=1)
    now_s = 0.0
    for number, arm, seconds in (
        (1, "stacks", 9),
        (2, "", 9),
        (3, "stacks", 9),
        (4, "off", 99),
        (5, "all", 95),
    ):
        for _ in range(seconds):
            now_s += 1.0
            dumper.look(f"{number} {arm}".ljust(64), now_s=now_s)
    assert dumper.done.dumps == {"stacks": 2, "all": 2} and dumper.done.all_s == 94.0
    assert sum(dumper.done.errors.values()) == 4


def test_every_benchmark_has_a_sentence_a_table_and_the_three_sizes() -> None:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    for name, measures in bench.benches().items():
        assert measures and measures == (bench.bench_called(name).__doc__ or "").split("\n")[0]
        for words, size in (([], "default"), (["--smoke"], "smoke"), (["--full"], "full")):
            args = parser.parse_args([name, *words])
            assert (args.bench, args.size) == (name, size)


def test_a_section_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.md"
    path.write_text("# Benchmarks\n\nprose\n")
    bench._write(path, "a", "| old |", command="argus bench a")
    bench._write(path, "b", "| other |", command="argus bench b --full")
    bench._write(path, "a", "| new \\1 |", command="argus bench a")
    text = path.read_text()
    assert "prose" in text and "| old |" not in text
    assert text.count("## a") == 1 and "| new \\1 |" in text
    assert "`argus bench b --full`" in text and "| other |" in text


def test_writing_needs_the_document_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_run_one", lambda *_, **__: pytest.fail("hours for nothing"))
    with pytest.raises(CliError, match="does not exist"):
        bench.run(argparse.Namespace(bench="blame", size="smoke", json=False, write=tmp_path / "none.md"))


def test_the_machine_is_told_with_its_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "NVIDIA_GPUS", tmp_path)
    assert bench.machine_class().endswith("GiB, no GPU")
    (tmp_path / "0000:1b:00.0").mkdir()
    assert bench.machine_class().endswith("GiB, 1 GPU")


def test_a_benchmark_that_is_told_to_end_ends_what_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    class Told:
        """Is told in the middle of its work."""

        def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

        def bench(self, args: argparse.Namespace, *, size: bench.Size) -> dict[str, Any]:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(30)
            finally:
                ended.append(args.bench)
            return {}

        def table(self, result: Mapping[str, Any]) -> str:
            return ""

    monkeypatch.setattr(bench, "bench_called", lambda name: Told())
    with pytest.raises(SystemExit) as end:
        bench.run(argparse.Namespace(bench="told", size="smoke", json=False, write=None))
    assert end.value.code == 128 + signal.SIGTERM and ended == ["told"]


def test_skipping_what_is_not_there_or_all_is_said() -> None:
    for skipped, words in (
        (["nothing"], "no such benchmark"),
        (list(bench.benches()), "no benchmark is left"),
    ):
        with pytest.raises(CliError, match=words):
            bench.run(argparse.Namespace(bench="all", size="smoke", skip=skipped, json=False, write=None))
