"""A network of its own for every rank: namespaces on one bridge, joined by veth or by a relay that can delay and drop."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from argus.evals.live.machine import which
from argus.evals.live.names import name_of
from argus.evals.stack import StackError, clean_env

ADDRESS = "10.77.0.{host}"
"""Only ever in namespaces of our own."""

FIRST_HOST = 10
INTERFACE = "eth0"
RELAY_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Network:
    """Namespaces of the ranks and of the switch between them; `relay` says what the relay does, if there is one."""

    num_ranks: int
    relay: Path | None = None

    @property
    def switch(self) -> str:
        """The namespace that holds the bridge."""
        return name_of("switch")

    def namespace(self, rank: int) -> str:
        """The rank's namespace."""
        return name_of(f"rank{rank}")

    def port(self, rank: int) -> str:
        """The switch's end of the rank's link."""
        return f"port{rank}"

    def launcher(self) -> list[str]:
        """What starts a script on every rank, each in its namespace."""
        return [
            *(sys.executable, "-m", "argus.evals.live.launcher", "--interface", INTERFACE),
            *("--master", address_of(0), *map(self.namespace, range(self.num_ranks)), "--"),
        ]

    def shape(self, *, delay_s: float = 0.0, drop: float = 0.0) -> None:
        """Tell the relay what to do to the rank's frames, in both directions."""
        assert self.relay is not None
        told = self.relay.with_suffix(".new")
        told.write_text(json.dumps({"delay_s": delay_s, "drop": drop}))
        told.replace(self.relay)


def address_of(rank: int) -> str:
    """The rank's address.

    >>> address_of(3)
    '10.77.0.13'
    """
    return ADDRESS.format(host=FIRST_HOST + rank)


@contextmanager
def network(num_ranks: int, *, relayed: int | None, directory: Path) -> Iterator[Network]:
    """The network, gone afterwards; frames of rank `relayed` go through the relay."""
    made = Network(num_ranks=num_ranks, relay=None if relayed is None else directory / "relay.json")
    with ExitStack() as undo:
        _namespace(made.switch, undo)
        command("ip", "-n", made.switch, "link", "add", "name", "bridge", "type", "bridge")
        command("ip", "-n", made.switch, "link", "set", "bridge", "up")
        for rank in range(num_ranks):
            _namespace(made.namespace(rank), undo)
            if rank == relayed:
                _relay(made, rank, directory, undo)
            else:
                _veth(made, rank)
            _plug(made, rank)
        yield made


def command(tool: str, *words: str) -> None:
    """Run a tool; StackError with what it said if it fails."""
    done = subprocess.run([which(tool) or tool, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(f"{tool} {' '.join(words)}: {done.stderr.strip() or f'code {done.returncode}'}")


def inside(namespace: str) -> Sequence[str]:
    """Words before a command that make it run in a network namespace, as the same process."""
    return (which("nsenter") or "nsenter", f"--net=/run/netns/{namespace}", "--")


def bound() -> Sequence[str]:
    """Words before a command that let it die with the process that started it."""
    return (which("setpriv") or "setpriv", "--pdeathsig", "KILL", "--")


def _namespace(name: str, undo: ExitStack) -> None:
    command("ip", "netns", "add", name)
    undo.callback(command, "ip", "netns", "del", name)
    command("ip", "-n", name, "link", "set", "lo", "up")


def _veth(made: Network, rank: int) -> None:
    ends = ("netns", made.namespace(rank), "type", "veth")
    peer = ("peer", "name", made.port(rank), "netns", made.switch)
    command("ip", "link", "add", "name", INTERFACE, *ends, *peer)


def _plug(made: Network, rank: int) -> None:
    """Both ends of the rank's link up, one on the bridge, the other with its address."""
    command("ip", "-n", made.switch, "link", "set", made.port(rank), "master", "bridge", "up")
    command("ip", "-n", made.namespace(rank), "addr", "add", f"{address_of(rank)}/24", "dev", INTERFACE)
    command("ip", "-n", made.namespace(rank), "link", "set", INTERFACE, "up")


def _relay(made: Network, rank: int, directory: Path, undo: ExitStack) -> None:
    """Start the relay and wait until its two ends are where they belong."""
    made.shape()
    words = [
        *bound(),
        *(sys.executable, "-m", "argus.evals.live.relay", "--control", str(made.relay)),
        *("--inner", made.namespace(rank), INTERFACE, "--outer", made.switch, made.port(rank)),
    ]
    log = directory / "relay.log"
    with log.open("ab") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, env=clean_env())
    undo.callback(_end, process)
    end_s = time.monotonic() + RELAY_S
    while "ready" not in log.read_text():
        if process.poll() is not None or time.monotonic() > end_s:
            raise StackError(f"the relay did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
