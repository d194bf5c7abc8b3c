"""Who this process is in the job, read from the environment its launcher made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from argus.collectors.records.text import has_page

RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
"""(rank, world size, local rank) of each launcher, torchrun's names first."""

JOB_IDS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "OAR_JOB_ID", "FLUX_JOB_ID")

RANK_PID = "ARGUS_RANK_PID"
"""Set by a rank for its children: the process that already reports under this rank."""

ROUND = "ARGUS_ROUND"
"""Set in an elastic launcher for its workers: the round of the rendezvous they come from, the same on all nodes."""

LAUNCH_HOST = "ARGUS_LAUNCH_HOST"
"""Host on which `argus run` has started the processor; ranks elsewhere start one of their own."""

ALLOWED_PREFIXES = ("NCCL_", "TORCH_NCCL_", "UCX_", "NVTE_", "TORCHINDUCTOR_", "FLASH_ATTENTION_", "GLOO_")
ALLOWED_NAMES = frozenset(
    {
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TRITON_CACHE_DIR",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "SLURM_JOB_ID",
        "SLURM_NODEID",
        "SLURM_RESTART_COUNT",
        "SLURM_TOPOLOGY_ADDR",
        "SLURM_TOPOLOGY_ADDR_PATTERN",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_MAX_RESTARTS",
    }
)
MAX_NAME = 256  # characters of a run's name, as the layout record takes them
MAX_VALUE = 4096  # characters, as the layout record takes them
MAX_VARIABLES = 200

LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "ft_launcher", "dlrover-run", "pip", "pip3"})
LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands", "pip")
ELASTIC = frozenset(
    {"torchrun", "accelerate", "torch.distributed.run", "torch.distributed.launch", "accelerate.commands"}
)
WORKER_MODULES = ("torch._inductor.compile_worker", "multiprocessing.resource_tracker", "triton")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Rank, world size and local rank of a process."""

    rank: int
    world_size: int
    local_rank: int


def place_of(env: Mapping[str, str]) -> Place | None:
    """What the launcher's variables say; None if no launcher set a rank.

    >>> place_of({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"})
    Place(rank=3, world_size=8, local_rank=0)
    """
    for rank_name, size_name, local_name in RANK_VARIABLES:
        rank = _count(env, rank_name)
        if rank is None:
            continue
        size = _count(env, size_name) or rank + 1
        return Place(rank=rank, world_size=max(size, rank + 1), local_rank=_count(env, local_name) or 0)
    return None


def attempt_of(env: Mapping[str, str]) -> int:
    """How often this run was restarted: by the elastic agents plus by the scheduler."""
    elastic = _count(env, ROUND)
    if elastic is None:
        elastic = _count(env, "TORCHELASTIC_RESTART_COUNT") or 0
    return elastic + (_count(env, "SLURM_RESTART_COUNT") or 0)


def run_of(env: Mapping[str, str]) -> str | None:
    """`ARGUS_RUN`, else the scheduler's job id, else torchrun's run id; None if nobody named the run."""
    for name in ("ARGUS_RUN", *JOB_IDS):
        if env.get(name):
            return run_name(env[name])
    elastic = env.get("TORCHELASTIC_RUN_ID", "")
    return run_name(elastic) if elastic and elastic != "none" else None


def run_name(text: str) -> str:
    """A run's name as the wire and the service take it: printable, of bounded length, with a page of its own.

    >>> run_name("night\\n17"), run_name("team/../17")
    ('night?17', 'team/??/17')
    """
    clean = "".join(c if c.isprintable() else "?" for c in text[:MAX_NAME])
    return "/".join(part if has_page(part) else "?" * len(part) for part in clean.split("/"))


def allowed_env(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that may be recorded; never the whole environment, it holds secrets."""
    names = sorted(name for name in env if name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIXES))
    return {name: env[name][:MAX_VALUE] for name in names[:MAX_VARIABLES]}


def is_elastic_launcher(env: Mapping[str, str], *, command: Sequence[str]) -> bool:
    """Whether this process starts ranks by torch's elastic agent, and Argus is not off."""
    if env.get("ARGUS_OFF", "") not in ("", "0"):
        return False
    program, module = _program(command)
    return program in ELASTIC or any(module == name or module.startswith(name + ".") for name in ELASTIC)


def may_attach(env: Mapping[str, str], *, command: Sequence[str], pid: int) -> bool:
    """False for launchers, compile workers, children of a rank and where Argus is off."""
    if env.get("ARGUS_OFF", "") not in ("", "0"):
        return False
    owner = env.get(RANK_PID, "")
    if owner.isdigit() and int(owner) != pid and _is_alive(int(owner)):
        return False
    program, module = _program(command)
    return not (
        program in LAUNCHERS
        or any(
            module == name or module.startswith(name + ".") for name in (*LAUNCHER_MODULES, *WORKER_MODULES)
        )
        or any(name.replace(".", "/") in part for part in command[1:3] for name in WORKER_MODULES[:1])
    )


def _program(command: Sequence[str]) -> tuple[str, str]:
    """(base name of what runs, module after -m) of an interpreter's own command line.

    Its options of one letter may stand together, and before their argument: `-um train`, `-mtrain`.
    """
    words = list(command[1:])
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            return PurePath(word).name, ""
        if word == "--check-hash-based-pycs":
            words = words[1:]
        letter, rest = ("", "") if word.startswith("--") else _with_argument(word)
        if letter == "c":
            return "", ""
        if letter == "m":
            return "", rest or (words[0] if words else "")
        if letter and not rest:
            words = words[1:]
    return "", ""


def _with_argument(word: str) -> tuple[str, str]:
    """The option in `word` that takes an argument, and what of that stands there; "" if there is none."""
    place = next((at for at, letter in enumerate(word) if letter in "cmWX"), -1)
    return ("", "") if place < 0 else (word[place], word[place + 1 :])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _count(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name, "")
    return int(text) if text.isdigit() else None
