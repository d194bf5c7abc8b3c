"""Starts a training script on several ranks, each in a network namespace of its own; ends when they end."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from argus.evals.live.network import bound, inside

PORT = 29500
"""Nobody else is in a namespace that was made for the rank."""

LOOK_S = 0.1
STOP_S = 10.0


def env_of(rank: int, *, ranks: int, master: str, interface: str) -> dict[str, str]:
    """What torchrun would set, and the interface that gloo is to use."""
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": master,
        "MASTER_PORT": str(PORT),
        "GLOO_SOCKET_IFNAME": interface,
    }


def wait(ranks: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait for all; if one fails the others are ended, and its code is the answer."""
    while None in (codes := [rank.poll() for rank in ranks]):
        failed = [code for code in codes if code]
        if failed:
            stop(ranks)
            return abs(failed[0])
        time.sleep(LOOK_S)
    return max(abs(code) for code in codes if code is not None)


def stop(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask every rank to end, kill what does not."""
    for rank in ranks:
        rank.terminate()
    end_s = time.monotonic() + STOP_S
    for rank in ranks:
        try:
            rank.wait(max(end_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()


def main() -> int:
    """Start the ranks and wait for them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interface", required=True)
    parser.add_argument("--master", required=True, help="address of rank 0")
    parser.add_argument(
        "namespaces", nargs="+", metavar="NAMESPACE", help="of rank 0, 1, …; then -- and the script"
    )
    words, script = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    args = parser.parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for rank, namespace in enumerate(args.namespaces):
            env = env_of(rank, ranks=len(args.namespaces), master=args.master, interface=args.interface)
            command = [*bound(), *inside(namespace), sys.executable, *script]
            # As torchrun does: the scheduler shares the machine between sessions.
            ranks.append(subprocess.Popen(command, env=env, start_new_session=True))
        return wait(ranks)
    finally:
        stop([rank for rank in ranks if rank.poll() is None])


if __name__ == "__main__":
    sys.exit(main())
