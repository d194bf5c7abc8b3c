"""Tables in which each rank tells its phases beside its step times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from argus.api.offline.files import triage_files
from argus.api.offline.series import SeriesReport
from argus.api.report import Report
from argus.collectors.readers import Reading
from argus.collectors.readers.step_series import read

RANKS = 8
Cells = dict[str, float]


def rows(
    *, steps: int = 60, slow: Callable[[int, int], float] = lambda rank, step: 1.0
) -> Iterator[tuple[int, int, Cells]]:
    """Seconds by step, rank and phase of a synchronous job; all wait for the one that is last."""
    rng = np.random.default_rng(3)
    for step in range(steps):
        own = [
            {
                "data": 0.005 * rng.lognormal(0, 0.2),
                "forward": 0.1 * rng.lognormal(0, 0.01) * slow(rank, step),
                "backward": 0.2 * rng.lognormal(0, 0.01) * slow(rank, step),
                "optimizer": 0.02 * rng.lognormal(0, 0.01),
            }
            for rank in range(RANKS)
        ]
        last = max(sum(cells.values()) for cells in own)
        for rank, cells in enumerate(own):
            wait = last - sum(cells.values()) + 0.01
            yield step, rank, {**cells, "allreduce": wait, "step": last + 0.01}


def table(path: Path, names: dict[str, str], **job: object) -> Path:
    """A table of these columns by phase; a name with `ms` in it has milliseconds."""
    lines = [",".join(["global_step", "rank", *names.values()])]
    for step, rank, cells in rows(**job):  # type: ignore[arg-type]
        scale = {phase: 1e3 if "ms" in name else 1.0 for phase, name in names.items()}
        lines.append(",".join(map(str, (step, rank, *(cells[one] * scale[one] for one in names)))))
    path.write_text("\n".join(lines) + "\n")
    return path


PLAIN = {
    "step": "step_time",
    "data": "data_time",
    "forward": "forward_time",
    "backward": "backward_time",
    "optimizer": "optimizer_time",
    "allreduce": "allreduce_time",
}
IN_MS = {
    "data": "time/dataloader_ms",
    "forward": "time/fwd_ms",
    "backward": "time/bwd_ms",
    "allreduce": "time/comm_ms",
}


def of_ranks(path: Path) -> dict[int, Reading]:
    return {reading.records.layout.rank: reading for reading in read(path) if reading.series is None}


@pytest.mark.parametrize("names", [PLAIN, IN_MS])
@pytest.mark.parametrize("factor", [1.1, 2.0])
def test_the_rank_whose_phases_are_long_is_named(
    tmp_path: Path, names: dict[str, str], factor: float
) -> None:
    path = table(tmp_path / "log.csv", names, slow=lambda rank, step: factor if rank == 5 else 1.0)
    report = triage_files([path], now_s=0.0)
    assert isinstance(report, Report) and {one.cause.suspects for one in report.incidents} == {(5,)}


@pytest.mark.parametrize("names", [PLAIN, IN_MS])
def test_among_healthy_ranks_nobody_is(tmp_path: Path, names: dict[str, str]) -> None:
    report = triage_files([table(tmp_path / "log.csv", names)], now_s=0.0)
    assert isinstance(report, Report) and not report.incidents
    assert report.series is None or not report.series.incidents


def file_of_each_rank(folder: Path, *, header: str, row: str, slow: int) -> list[Path]:
    """A file for each rank; that of rank 2 begins four steps later."""
    folder.mkdir()
    files: dict[int, list[str]] = {rank: [header] for rank in range(RANKS)}
    for step, rank, cells in rows(slow=lambda rank, step: 1.3 if rank == slow else 1.0):
        if rank != 2 or step >= 4:
            files[rank].append(
                row.format(**{**cells, "step": 10 * step + 9, "step_s": cells["step"], "rank": rank})
            )
    paths = []
    for rank, text in files.items():
        paths.append(folder / (f"metrics_rank{rank}.csv" if header else f"part-{rank}.jsonl"))
        paths[-1].write_text("\n".join(line for line in text if line) + "\n")
    return paths


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("step,step_time,forward_time,backward_time", "{step},{step_s},{forward},{backward}"),
        (
            "",
            '{{"step": {step}, "rank": {rank}, "step_time": {step_s}, "timers": {{"fwd_s": {forward}, "bwd_s": {backward}}}}}',
        ),
    ],
)
def test_files_of_one_rank_each_are_compared(tmp_path: Path, header: str, row: str) -> None:
    paths = file_of_each_rank(tmp_path / "logs", header=header, row=row, slow=6)
    report = triage_files([tmp_path / "logs"], now_s=0.0)
    assert isinstance(report, Report) and {one.cause.suspects for one in report.incidents} == {(6,)}
    firsts = {
        rank: int(one.records.steps["step"][0]) for path in paths for rank, one in of_ranks(path).items()
    }
    assert firsts == {rank: 4 if rank == 2 else 0 for rank in range(RANKS)}
    alone = triage_files(paths[:1], now_s=0.0)
    assert isinstance(alone, SeriesReport), "with nobody to compare it with it is a series of step times"


def test_phases_keep_their_own_names_and_times(tmp_path: Path) -> None:
    path = table(tmp_path / "log.csv", IN_MS, steps=3)
    records = of_ranks(path)[2].records
    told = {records.name(int(row["native"])): records.name(int(row["name"])) for row in records.phases}
    assert told == {
        "time/dataloader_ms": "data",
        "time/fwd_ms": "forward",
        "time/bwd_ms": "backward",
        "time/comm_ms": "grad_sync",
        "other": "other",
    }
    forward = [row["dur_ns"] / 1e9 for row in records.phases if records.name(int(row["name"])) == "forward"]
    assert forward == pytest.approx([0.1] * 3, rel=0.1)
    assert records.layout.world_size == RANKS and len(records.steps) == 3


def test_hosts_and_steps_that_are_not_told_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    lines = [f"{rank},node{rank // 2},{0.1 + rank / 100},0.2" for _ in range(5) for rank in range(4)]
    path.write_text("\n".join(["rank,hostname,forward_s,backward_s", *lines]))
    found = of_ranks(path)
    assert [found[rank].records.layout.host for rank in range(4)] == ["node0", "node0", "node1", "node1"]
    assert all(len(one.records.steps) == 5 for one in found.values())


@pytest.mark.parametrize(
    ("names", "owner"),
    [
        ("step_time,eval_loss,forward_flops", "rank"),  # no times of phases
        ("step_time,forward,backward", "run"),  # several jobs
        ("step_time,forward,backward", "local_rank"),  # not whose of the job
        ("step_time,checkpoint_time,eval_time", "rank"),  # between steps
    ],
)
def test_other_columns_leave_a_table_what_it_was(tmp_path: Path, names: str, owner: str) -> None:
    path = tmp_path / "log.csv"
    lines = [f"{step},{rank},0.4,0.1,0.2" for step in range(60) for rank in range(4)]
    path.write_text("\n".join([f"step,{owner},{names}", *lines]))
    assert not of_ranks(path) and len(list(read(path))) == 4


def test_phases_that_do_not_fit_into_the_step_are_left_out_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    lines = [f"{step},{rank},0.4,100,200" for step in range(60) for rank in range(4)]
    path.write_text("\n".join(["step,rank,step_time,forward,backward", *lines]))
    found = list(read(path))
    assert all(reading.series is not None for reading in found)
    assert "'forward', 'backward' add up to 750 of the step" in found[0].warnings[0]
