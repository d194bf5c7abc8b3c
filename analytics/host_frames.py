"""What a thread was doing, by its frames, its state and where it sleeps in the kernel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from argus.collectors.records.stacks import StackDump, Thread

FRAMES: Mapping[str, str] = {
    "gc": r"gc_collect|\bgc\.collect\b|collect \(gc",
    "jit": (
        r"torch/_dynamo|torch/_inductor|torch/_functorch|torch/fx/|triton/(compiler|runtime/(jit|autotuner))"
        r"|cutlass|/cute/|nvrtc|ptxas|cicc|compile_fx|numba/core"
    ),
    "allocator": (
        r"cudaMalloc|cudaFree|cuMem(Alloc|Free|Map)|empty_cache|emptyCache|CachingAllocator|malloc_consolidate"
        r"|synchronize_and_free"
    ),
    "loader": r"torch/utils/data/|_next_data|dataloader|webdataset|streaming/base|litdata|_try_get_data",
    "filesystem": (
        r"\b(open|read|readinto|readline|stat|listdir|scandir|glob|fsync|flush)\b \((<frozen (io|os)|genericpath"
        r"|os\.py|pathlib|glob\.py|tokenize|zipfile|tarfile|fsspec|.*(safetensors|h5py|pyarrow))|importlib"
    ),
    "lock": r"\bacquire \((threading|filelock|.*/locks?\.py|multiprocessing)|__enter__ \(threading|flock|lockf|FileLock",
}
"""Kinds of host work by the frames that betray them; the first that matches the innermost frames wins."""

WAITS = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|\bbarrier\b|broadcast|(wait|synchronize) \(torch/"
    r"|torch/distributed/|torch/cuda/(__init__|streams)|nccl|gloo",
    re.IGNORECASE,
)
"""Frames of somebody who waits for others or for the device: no work of its own."""

DISK = re.compile(
    r"^(rpc_|nfs|ptlrpc|cl_sync_io|fuse|ext4|xfs|jbd2|io_schedule|folio_wait|wait_on_page|ceph|lustre)"
)
"""Where a thread sleeps that waits for a file system."""

INNERMOST = 12
"""Frames looked at from the inside: a loop over batches lies around everything else a step does."""

OWN_THREADS = ("main", "autograd")
"""Threads whose time is the step's."""

MAX_FRAME = 60
_PLAIN = re.compile(r"[^\w .:/<>()-]")


@dataclass(frozen=True, kw_only=True)
class Doing:
    """How many dumps of a rank show each kind of work; `frames` counts innermost frames by kind.

    Dumps in which the rank waits for others are not counted: they say nothing of its own time.
    """

    num: int
    kinds: Mapping[str, int]
    frames: Mapping[tuple[str, str], int]

    def share(self, kind: str) -> float:
        """Share of the dumps of own time that show the kind."""
        return self.kinds.get(kind, 0) / self.num if self.num else 0.0

    def frame(self, kind: str) -> str:
        """The innermost frame that shows the kind most often, made harmless; "" if there is none."""
        mine = sorted((-count, frame) for (of, frame), count in self.frames.items() if of == kind)
        return mine[0][1] if mine else ""


def doing(dumps: Iterable[StackDump]) -> Doing:
    """What the dumps of some ranks show of their own time."""
    kinds: Counter[str] = Counter()
    frames: Counter[tuple[str, str]] = Counter()
    num = 0
    for dump in dumps:
        kind, frame = _of_dump(dump)
        if kind == "waiting":
            continue
        num += 1
        kinds[kind] += 1
        frames[kind, frame] += 1
    return Doing(num=num, kinds=kinds, frames=frames)


def _of_dump(dump: StackDump) -> tuple[str, str]:
    """Kind of work of a dump; the first of its threads that works decides."""
    threads = [thread for thread in dump.threads if thread.kind in OWN_THREADS]
    found = [kind_of(thread, dump.threads) for thread in threads]
    told = next(((k, t) for k, t in zip(found, threads, strict=True) if k not in ("waiting", "other")), None)
    if told is None and found:
        told = next(
            ((k, t) for k, t in zip(found, threads, strict=True) if k != "waiting"), (found[0], threads[0])
        )
    return ("waiting", "") if told is None else (told[0], innermost(told[1]))


def kind_of(thread: Thread, all_threads: Iterable[Thread] = ()) -> str:
    """What one thread does: a kind of FRAMES, `filesystem`, `lock`, `runnable`, `waiting` or `other`.

    >>> kind_of(Thread(kind="main", state="R", stack="train (t.py:1);__next__ (torch/utils/data/x.py:7)"))
    'loader'
    """
    inner = thread.stack.split(";")[-INNERMOST:]
    text = ";".join(inner)
    if thread.state.startswith("D") or DISK.search(thread.wchan):
        return "filesystem"
    kind = next((name for name, pattern in FRAMES.items() if re.search(pattern, text)), "")
    if kind:
        return kind
    if WAITS.search(";".join(inner[-3:])):
        return "waiting"
    holder = any(other.has_gil for other in all_threads if other is not thread and other.kind != "argus")
    if holder and not thread.has_gil and thread.state.startswith("S"):
        return "lock"
    return "runnable" if thread.state.startswith("R") and not thread.has_gil else "other"


def innermost(thread: Thread) -> str:
    """The thread's innermost frame without anything that could be taken for more than a name.

    >>> innermost(Thread(kind="main", stack="a (x.py:1);f{`rm`} (y.py:2)"))
    'f rm (y.py:2)'
    """
    frame = thread.stack.rpartition(";")[2]
    return " ".join(_PLAIN.sub(" ", frame)[:MAX_FRAME].split())


def against_peers(
    mine: Iterable[StackDump], peers: Iterable[StackDump], *, limit: int = 5
) -> tuple[tuple[str, float, float], ...]:
    """Folded stacks of own threads with their share in `mine` and in `peers`, the largest difference first."""
    ours, theirs = _folded(mine), _folded(peers)
    num, others = max(sum(ours.values()), 1), max(sum(theirs.values()), 1)
    rows = [(stack, ours[stack] / num, theirs[stack] / others) for stack in {*ours, *theirs}]
    return tuple(sorted(rows, key=lambda row: (row[2] - row[1], row[0]))[:limit])


def _folded(dumps: Iterable[StackDump]) -> Counter[str]:
    threads = (t for dump in dumps for t in dump.threads if t.kind in OWN_THREADS and t.stack)
    return Counter(thread.stack for thread in threads)
