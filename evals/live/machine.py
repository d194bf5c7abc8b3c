"""What this machine can do to a training job: privileges, tools, and what its kernel has, found by trying."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from argus.evals.live.cgroup import Controller, find_controller
from argus.evals.live.names import name_of

TOOLS = ("ip", "tc", "nft", "nsenter", "setpriv")
QDISCS: Mapping[str, tuple[str, ...]] = {
    "tbf": ("rate", "50mbit", "burst", "64kb", "latency", "50ms"),
    "netem": ("delay", "1ms"),
}
"""Queueing disciplines a fault uses, each with words that are enough to try it."""

TUN = Path("/dev/net/tun")
SYSTEM_PATHS = ("/usr/sbin", "/sbin")
"""Where the tools are on systems whose users do not have them on their path."""

WHY: Mapping[str, str] = {
    "root": "needs root",
    "namespaces": "the kernel gives no network namespaces with veth and bridge",
    "tbf": "the kernel has no queueing discipline tbf",
    "netem": "the kernel has no queueing discipline netem",
    "tun": "needs /dev/net/tun",
    "cpu_quota": "no cgroup controller for CPU quotas can be written (v1 or v2)",
    "delay": "neither netem nor /dev/net/tun for a relay",
    "loss": "neither nftables, netem nor /dev/net/tun for a relay",
    "two_cores": "needs two cores: with one all ranks share it with whatever competes",
}
"""What a fault may need beside tools, and what to say where it is lacking."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """`has` are names of WHY and TOOLS; `controller` limits CPU time, None where nothing does."""

    has: frozenset[str]
    controller: Controller | None = None

    def lacks(self, *needs: str) -> str | None:
        """Why a fault with these needs cannot be played, None if it can."""
        for need in needs:
            if need not in self.has:
                return WHY.get(need, f"needs the command {need}")
        return None


def look() -> Machine:
    """Try everything once, in a namespace made for it."""
    has = {tool for tool in TOOLS if which(tool)}
    has |= {"root"} if os.geteuid() == 0 else set()
    has |= {"two_cores"} if len(os.sched_getaffinity(0)) > 1 else set()
    controller = find_controller() if "root" in has else None
    has |= {"cpu_quota"} if controller is not None else set()
    has |= {"tun"} if os.access(TUN, os.W_OK) else set()
    if {"root", "ip"} <= has:
        has |= _kernel(has)
    has |= {"delay"} if has & {"netem", "tun"} else set()
    has |= {"loss"} if has & {"nft", "netem", "tun"} else set()
    return Machine(has=frozenset(has), controller=controller)


def which(tool: str) -> str | None:
    """Where a command is, also off the path of an ordinary user."""
    return shutil.which(tool, path=os.pathsep.join([os.environ.get("PATH", ""), *SYSTEM_PATHS]))


def _kernel(has: set[str]) -> set[str]:
    """What the kernel lets one do in a network namespace."""
    name = name_of("probe")
    if not _works("ip", "netns", "add", name):
        return set()
    try:
        found = set()
        inside = ("ip", "-n", name, "link", "add", "name")
        pair = (*inside, "end0", "type", "veth", "peer", "name", "end1")
        if _works(*pair) and _works(*inside, "switch", "type", "bridge"):
            found.add("namespaces")
        for kind, words in QDISCS.items() if "tc" in has else ():
            if _works("tc", "-n", name, "qdisc", "add", "dev", "end0", "root", kind, *words):
                found.add(kind)
                _works("tc", "-n", name, "qdisc", "del", "dev", "end0", "root")
        return found
    finally:
        _works("ip", "netns", "del", name)


def _works(tool: str, *words: str) -> bool:
    return subprocess.run([which(tool) or tool, *words], capture_output=True, check=False).returncode == 0
