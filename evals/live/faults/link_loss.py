"""One of ten frames to a rank gets lost, by nftables, `tc netem` or a relay in user space."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from argus.evals.live.machine import Machine, which
from argus.evals.live.network import command, inside
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth, link_of

WORKLOADS = ("ddp", "fsdp2", "moe", "pp")
SETTING = Setting(has_network=True, relay_unless=("nft", "netem"))
PERCENT = 10
"""What is sent at once here is repeated within the step: two of a hundred lost cost nothing that can be seen."""

TABLE = "argus_live"


def truth(*, rank: int, ranks: int) -> Truth:
    """The path that all members' transfers take."""
    return link_of(rank, ranks)


def can(machine: Machine) -> str | None:
    """Where ranks can have networks of their own and something can drop frames."""
    return machine.lacks("root", "ip", "tc", "nsenter", "setpriv", "namespaces", "loss")


@contextmanager
def hit(scene: Scene) -> Iterator[None]:
    """Drop what comes in to the rank, or what the relay carries."""
    wire = scene.wire
    if wire.relay is not None:
        wire.shape(drop=PERCENT / 100)
        try:
            yield
        finally:
            wire.shape()
    elif "nft" in scene.machine.has:
        with _dropping(wire.namespace(scene.rank)):
            yield
    else:
        port = ("dev", wire.port(scene.rank), "root")
        command("tc", "-n", wire.switch, "qdisc", "add", *port, "netem", "loss", f"{PERCENT}%")
        try:
            yield
        finally:
            command("tc", "-n", wire.switch, "qdisc", "del", *port)


@contextmanager
def _dropping(namespace: str) -> Iterator[None]:
    enter, nft = inside(namespace), which("nft") or "nft"
    chain = "{ type filter hook input priority 0; policy accept; }"
    rule = ("numgen", "random", "mod", "100", "<", str(PERCENT), "drop")
    command(*enter, nft, "add", "table", "inet", TABLE)
    try:
        command(*enter, nft, "add", "chain", "inet", TABLE, "input", chain)
        command(*enter, nft, "add", "rule", "inet", TABLE, "input", *rule)
        yield
    finally:
        command(*enter, nft, "delete", "table", "inet", TABLE)
