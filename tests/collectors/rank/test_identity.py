"""Rank, run, attempt and whether to attach, from the environment."""

from __future__ import annotations

import os

import pytest

from argus.collectors.rank.identity import (
    RANK_PID,
    Place,
    allowed_env,
    attempt_of,
    may_attach,
    place_of,
    run_of,
)


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (3, 8, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "0"}, (3, 8, 0)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_LOCALID": "5"}, (5, 16, 5)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2, 0)),
        ({"PMIX_RANK": "2"}, (2, 3, 0)),
        ({"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0"}, (0, 4, 0)),
    ],
)
def test_rank_of_each_launcher(env: dict[str, str], place: tuple[int, int, int]) -> None:
    assert place_of(env) == Place(rank=place[0], world_size=place[1], local_rank=place[2])


def test_no_launcher_no_rank() -> None:
    assert place_of({"RANK": "", "HOME": "/"}) is None


def test_run_is_argus_then_scheduler_then_torchrun() -> None:
    env = {"TORCHELASTIC_RUN_ID": "t"}
    assert run_of(env) == "t"
    assert run_of({**env, "SLURM_JOB_ID": "17"}) == "17"
    assert run_of({**env, "SLURM_JOB_ID": "17", "ARGUS_RUN": "mine"}) == "mine"
    assert run_of({"TORCHELASTIC_RUN_ID": "none"}) is None
    assert run_of({"ARGUS_RUN": "caf\udce9\n" + "x" * 300}) == "caf??" + "x" * 251
    assert [run_of({"ARGUS_RUN": name}) for name in ("..", "a/./b", "a..b")] == ["??", "a/?/b", "a..b"]


def test_attempt_counts_agent_and_scheduler_restarts() -> None:
    assert attempt_of({}) == 0
    assert attempt_of({"TORCHELASTIC_RESTART_COUNT": "2", "SLURM_RESTART_COUNT": "1"}) == 3


def test_only_listed_variables_are_recorded() -> None:
    env = {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "1", "AWS_SECRET_ACCESS_KEY": "x", "ARGUS_KEY": "y"}
    assert allowed_env(env) == {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(
    ("command", "attaches"),
    [
        (["python", "train.py"], True),
        (["python", "-u", "-X", "dev", "train.py", "--x"], True),
        (["python", "-m", "pkg.train"], True),
        (["python", "-c", "import torch"], True),
        (["python", "/usr/bin/torchrun", "train.py"], False),
        (["python", "-m", "torch.distributed.run", "train.py"], False),
        (["python", "-m", "torch.distributed.launch", "train.py"], False),
        (["python", "-um", "torch.distributed.run", "train.py"], False),
        (["python", "-Xdev", "-Bmtorch.distributed.run", "train.py"], False),
        (["python", "-uX", "dev", "-W", "error", "train.py"], True),
        (["python", "-ucimport torch", "torchrun"], True),
        (["python", "/x/torch/_inductor/compile_worker/__main__.py"], False),
        (["python", "-m", "torch._inductor.compile_worker"], False),
        (["python", "-m", "pip", "install", "x"], False),
        (["python"], True),
    ],
)
def test_launchers_and_workers_are_left_alone(command: list[str], attaches: bool) -> None:
    assert may_attach({}, command=command, pid=1) is attaches


def test_off_means_off() -> None:
    assert not may_attach({"ARGUS_OFF": "1"}, command=["python", "t.py"], pid=1)
    assert may_attach({"ARGUS_OFF": "0"}, command=["python", "t.py"], pid=1)


def test_a_ranks_children_are_no_ranks() -> None:
    env = {RANK_PID: str(os.getpid())}
    assert not may_attach(env, command=["python", "t.py"], pid=os.getpid() + 1)
    assert may_attach(env, command=["python", "t.py"], pid=os.getpid())
    gone = {RANK_PID: str(1 << 22)}
    assert may_attach(gone, command=["python", "t.py"], pid=7)
