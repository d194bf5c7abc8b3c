"""The processor's place behind training: it works where a core has nothing else to do, or when its turn comes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NICE = 10
"""As its systemd unit has it: a tenth of a core is its own where all cores are busy, several times what it needs."""

THREADS = Path("/proc/self/task")


def give_way() -> None:
    """Lower the priority of all threads, and so of those they start; what a container forbids stays as it was.

    On a host whose cores are all busy a turn of the processor delays one rank, for which all others wait. As a batch
    thread it does not take a core from who is running when it wakes up.
    """
    threads = [int(path.name) for path in THREADS.iterdir()] if THREADS.is_dir() else [0]  # 0 = this one
    for thread in threads:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, max(os.getpriority(os.PRIO_PROCESS, thread), NICE))
        with suppress(OSError):
            if os.sched_getscheduler(thread) == os.SCHED_OTHER:
                os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
