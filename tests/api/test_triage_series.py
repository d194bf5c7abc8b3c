"""`argus triage` on bare step times: findings by step and by value, a table for many series."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from argus.api.cli import main
from argus.collectors.readers._fake import fake_trace


def series(factor: float) -> list[float]:
    values = np.random.default_rng(0).normal(2.0, 0.02, 300)
    values[200:260] *= factor
    values[90] *= 5
    return [float(value) for value in values]


def test_the_findings_of_a_series_carry_step_and_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"job": {"interval": 10, "values": series(1.3)}}))
    assert main(["triage", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    spike, *_ = said["findings"]
    assert (spike["level"], spike["kind"], spike["start_step"], spike["start_index"]) == (
        "L1",
        "spike",
        900,
        90,
    )
    assert spike["series"] == "job"
    (incident,) = said["incidents"]
    assert incident["class"] == "step.slower" and incident["verdict"] == "INCONCLUSIVE"
    assert abs(incident["onset_step"] - 2000) <= 20 and abs(incident["end_step"] - 2590) <= 20
    assert said["diagnosis"]["root_causes"][0]["fault_class"] == "step.slower"


def test_an_isolated_spike_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.csv"
    path.write_text("\n".join(map(str, series(1.0))))
    assert main(["triage", str(path), "--fail-on-fault"]) == 0
    out = capsys.readouterr().out
    assert "NO_FAULT" in out and "spike" in out and "step 90" in out


@pytest.mark.parametrize(("last", "is_told"), [(1.5, True), (1.05, False), (0.7, False)])
def test_step_times_that_grow_are_said_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], last: float, is_told: bool
) -> None:
    """Slow growth is no fault, but nobody is told that there is no rise."""
    values = np.random.default_rng(0).normal(1.0, 0.02, 800) * np.linspace(1.0, last, 800)
    path = tmp_path / "s.csv"
    path.write_text("\n".join(f"{value:.6f}" for value in values))
    assert main(["triage", str(path), "--json"]) == 0
    diagnosis = json.loads(capsys.readouterr().out)["diagnosis"]
    assert diagnosis["verdict"] == "NO_FAULT"
    assert ("grow, to 1.3" in diagnosis["headline"]) == is_told
    assert ("no lasting rise" in diagnosis["headline"]) != is_told


@pytest.mark.parametrize(("start", "ranks"), [(1000, 1), (500, 4)])
def test_of_step_times_that_grow_it_is_said_since_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], start: int, ranks: int
) -> None:
    steps = np.arange(2000)
    job = np.random.default_rng(1).normal(1.0, 0.02, 2000) * (1 + 0.4 * np.maximum(steps - start, 0) / 2000)
    rows = [f"{rank},{step + 7000},{job[step]}" for step in steps for rank in range(ranks)]
    path = tmp_path / "s.csv"
    path.write_text("\n".join(["rank,step,step_time", *rows]))
    assert main(["triage", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = re.search(
        r"since about step ([\d,]+): by the end a step takes ([\d.]+)×", said["diagnosis"]["headline"]
    )
    assert said["incidents"] == [] and found is not None
    assert int(found[1].replace(",", "")) == pytest.approx(7000 + start, abs=150)
    assert float(found[2]) == pytest.approx(1.4 - 0.4 * start / 2000, abs=0.03)


def test_many_series_are_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.json"
    path.write_text(
        json.dumps({f"run {i}": {"interval": 1, "values": series(1 + 0.2 * i)} for i in range(3)})
    )
    assert main(["triage", str(path)]) == 0
    out = capsys.readouterr().out
    assert "3 series" in out and out.count("incident:") == 2


def test_series_beside_traces_are_told_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(fake_trace(rank=rank, world_size=2)))
    (tmp_path / "s.csv").write_text("\n".join(map(str, series(1.0))))
    assert main(["triage", str(tmp_path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["world_size"] == 2 and said["warnings"] == []
    assert [(one["name"], one["num_values"]) for one in said["series"]] == [("s", 300)]


def test_a_timeline_needs_a_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(series(1.0)))
    assert main(["triage", str(path), "--ideal-timeline", str(tmp_path / "out.json")]) == 1
    told = capsys.readouterr()
    assert "No fault found" in told.out and "micro-batch" in told.err


def test_too_few_step_times_are_no_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.csv"
    for count, verdict in ((3, "INCONCLUSIVE"), (49, "INCONCLUSIVE"), (50, "NO_FAULT")):
        path.write_text("\n".join(map(str, series(1.0)[:count])))
        assert main(["triage", str(path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["diagnosis"]["verdict"] == verdict


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "NO_FAULT"), (1.4, "INCONCLUSIVE")])
def test_a_rank_that_was_always_slower_is_no_proof_of_health(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: float, verdict: str
) -> None:
    values = np.random.default_rng(0).normal(2.0, 0.02, (100, 4)) * [1.0, 1.0, factor, 1.0]
    rows = [f"{rank},{step},{value}" for step, row in enumerate(values) for rank, value in enumerate(row)]
    path = tmp_path / "s.csv"
    path.write_text("\n".join(["rank,step,step_time", *rows]))
    assert main(["triage", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["diagnosis"]
    assert said["verdict"] == verdict and ("rank 2" in said["headline"]) == (factor > 1)


@pytest.mark.parametrize(
    ("head", "who"),
    [
        ("step,rank{} - step_time", "rank 2"),
        ("step,rank_{}_step_time", "rank 2"),
        ("step,worker{}", "rank 2"),
        ("step,run-{}/step_time", ""),
        ("step,lora_rank{}/step_time", ""),
    ],
)
def test_columns_named_after_ranks_are_held_against_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str, who: str
) -> None:
    values = np.random.default_rng(0).normal(2.0, 0.02, (100, 4)) * [1.0, 1.0, 1.4, 1.0]
    first, _, column = head.partition(",")
    lines = [",".join([first, *(column.format(rank) for rank in range(4))])]
    lines += [",".join(map(str, (step, *row))) for step, row in enumerate(values)]
    (tmp_path / "s.csv").write_text("\n".join(lines))
    assert said_of(tmp_path / "s.csv", capsys) == (("INCONCLUSIVE", True) if who else ("NO_FAULT", False))


@pytest.mark.parametrize("factor", [1.0, 1.4])
@pytest.mark.parametrize("kind", ["files", "hosts"])
def test_files_of_ranks_and_rows_of_hosts_are_held_against_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: float, kind: str
) -> None:
    values = np.random.default_rng(0).normal(2.0, 0.02, (100, 4)) * [1.0, 1.0, factor, 1.0]
    (tmp_path / "in").mkdir()
    for place in range(4):
        rows = [f"node{place},{step},{row[place]}" for step, row in enumerate(values)]
        head = "host,step,step_time"
        if kind == "files":
            head, rows = "step,step_time", [row.partition(",")[2] for row in rows]
        name = f"metrics_rank{place}.csv" if kind == "files" else "metrics.csv"
        with (tmp_path / "in" / name).open("a") as out:
            out.write("\n".join([head, *rows] if kind == "files" or not place else rows) + "\n")
    assert said_of(tmp_path / "in", capsys, who="rank 2" if kind == "files" else "host node2") == (
        ("INCONCLUSIVE", True) if factor > 1 else ("NO_FAULT", False)
    )


def said_of(path: Path, capsys: pytest.CaptureFixture[str], who: str = "rank 2") -> tuple[str, bool]:
    """The verdict, and whether its headline names who is slower."""
    main(["triage", str(path), "--json"])
    said = json.loads(capsys.readouterr().out)["diagnosis"]
    return said["verdict"], f"of {who} are" in said["headline"]


def slowed(factors: list[float], *, ranks_slower: int) -> str:
    """A table in which the steps of the first ranks take longer from step 150 on, each by its factor."""
    values = np.random.default_rng(0).normal(2.0, 0.01, (300, len(factors)))
    values[150:, :ranks_slower] *= factors[:ranks_slower]
    rows = [f"{rank},{step},{value}" for step, row in enumerate(values) for rank, value in enumerate(row)]
    return "\n".join(["rank,step,step_time", *rows])


@pytest.mark.parametrize("ranks_slower", [8, 7])
def test_ranks_that_slow_down_alike_are_one_incident_of_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ranks_slower: int
) -> None:
    path = tmp_path / "s.csv"
    path.write_text(slowed([1.2] * 8, ranks_slower=ranks_slower))
    assert main(["triage", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (incident,) = said["incidents"]
    assert "rank" not in incident["scope"] and incident["scope"].startswith("run:")
    assert said["diagnosis"]["root_causes"][0]["node"] == incident["scope"]
    own = [one["incidents"][0]["cost"]["gpu_hours_per_day"] for one in said["series"][:ranks_slower]]
    assert incident["cost"]["gpu_hours_per_day"] == pytest.approx(sum(own))


@pytest.mark.parametrize(("factors", "ranks_slower"), [([1.6] + [1.2] * 7, 8), ([1.2] * 8, 1)])
def test_a_rank_that_slows_down_alone_or_much_more_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factors: list[float], ranks_slower: int
) -> None:
    path = tmp_path / "s.csv"
    path.write_text(slowed(factors, ranks_slower=ranks_slower))
    assert main(["triage", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["diagnosis"]["root_causes"][0]["node"].endswith("rank 0")
    assert len(said["incidents"]) == ranks_slower


def in_blocks(starts: list[int], *, ranks: int, slow_ranks: int) -> str:
    """A table in which steps of the first ranks take half longer in blocks of 30."""
    values = np.random.default_rng(0).normal(2.0, 0.02, (2400, ranks))
    for start in starts:
        values[start : start + 30, :slow_ranks] *= 1.5
    rows = [f"{rank},{step},{value}" for step, row in enumerate(values) for rank, value in enumerate(row)]
    return "\n".join(["rank,step,step_time", *rows])


EVERY_400 = [300, 700, 1100, 1500, 1900, 2300]
EVERY_100 = list(range(150, 2400, 100))
IRREGULAR = [300, 640, 1130, 1480, 1960, 2300]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("starts", "ranks", "slow_ranks", "told"),
    [
        (EVERY_400, 1, 1, 0),
        (EVERY_400, 4, 4, 0),
        (EVERY_400, 4, 1, 6),
        (EVERY_100, 4, 1, 3),
        (EVERY_100, 4, 4, 0),
        (IRREGULAR, 4, 4, 6),
        (EVERY_400[:3], 4, 4, 3),
        ([*EVERY_400[:5], 2050], 4, 4, 1),
    ],
    ids=[
        "lone",
        "of all",
        "of one rank",
        "often of one rank",
        "often of all",
        "irregular",
        "too few",
        "one more",
    ],
)
def test_slow_blocks_at_equal_distances_on_all_ranks_are_the_jobs_own(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    starts: list[int],
    ranks: int,
    slow_ranks: int,
    told: int,
) -> None:
    path = tmp_path / "s.csv"
    path.write_text(in_blocks(starts, ranks=ranks, slow_ranks=slow_ranks))
    assert main(["triage", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["incidents"]) == told
    every = [
        item["value"]
        for finding in said["findings"]
        if finding["kind"] == "periodic"
        for item in finding["evidence"]
        if item["name"] == "period"
    ]
    length = starts[3] - starts[2] if len(starts) > 3 and starts != IRREGULAR else 0
    assert every == [pytest.approx(length, abs=2)] * (slow_ranks if length else 0)
    assert (f"every {length} steps" in said["diagnosis"]["headline"]) == (told == 0)
    if slow_ranks == 1 < ranks:
        assert all(one["scope"].endswith("rank 0") for one in said["incidents"])


@pytest.mark.slow
@pytest.mark.parametrize(("late", "seed"), [(0, 0), (0, 1), (300, 0)])
def test_a_slowdown_of_all_ranks_is_the_jobs_wherever_noise_puts_it_in_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], late: int, seed: int
) -> None:
    """Also where one rank has no steps before `late`."""
    values = np.exp(np.random.default_rng(seed).normal(0.0, 0.05, (800, 8)))
    values[500:] *= 1.1
    rows = [
        f"{rank},{step},{value}"
        for step, row in enumerate(values)
        for rank, value in enumerate(row)
        if rank != 3 or step >= late
    ]
    path = tmp_path / "s.csv"
    path.write_text("\n".join(["rank,step,step_time", *rows]))
    assert main(["triage", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (incident,) = said["incidents"]
    assert "rank" not in incident["scope"]
    assert "the ranks: 8 of 8 slow down alike" in said["diagnosis"]["missing_evidence"]


@pytest.mark.parametrize(("factor", "num_incidents"), [(0.7, 1), (1.3, 0)])
def test_throughput_that_falls_is_a_slowdown_and_one_that_rises_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: float, num_incidents: int
) -> None:
    values = np.random.default_rng(0).normal(1000.0, 10.0, 300)
    values[150:] *= factor
    path = tmp_path / "s.csv"
    path.write_text("\n".join(["tokens_per_sec", *map(str, values)]))
    assert main(["triage", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["incidents"]) == num_incidents and said["series"][0]["unit"] == "s a token"
    assert any("s a token" in missing for missing in said["diagnosis"]["missing_evidence"])
    assert all(incident["diagnosis"]["evidence"][0]["unit"] == "s a token" for incident in said["incidents"])
    assert main(["triage", str(path)]) == 0
    card = capsys.readouterr().out
    assert ("1.4 ms a token after" in card and " a token (30 %)" in card) == bool(num_incidents)
    assert "ms a step" not in card


def test_a_table_without_times_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "losses.csv"
    path.write_text("\n".join(["step,loss", *(f"{step},{2 - step / 400}" for step in range(200))]))
    assert main(["triage", str(path)]) == 2
    assert "'step', 'loss'" in capsys.readouterr().err


def test_steps_that_go_back_are_told_and_named_as_they_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.csv"
    steps = [*range(1, 121), *range(101, 281)]
    rows = "".join(f"{step},{value}\n" for step, value in zip(steps, series(1.3), strict=True))
    path.write_text("step,step_time\n" + rows)
    assert main(["triage", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert abs(said["incidents"][0]["onset_step"] - 181) <= 2
    assert "steps go back from 120 to 101" in json.dumps(said["diagnosis"])
