"""Every frame of a rank takes 20 ms longer in each direction, by `tc netem` or a relay in user space."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from argus.evals.live.machine import Machine
from argus.evals.live.network import INTERFACE, command
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth, link_of

WORKLOADS = ("ddp", "fsdp2", "moe", "pp")
SETTING = Setting(has_network=True, relay_unless=("netem",))
DELAY_S = 0.02


def truth(*, rank: int, ranks: int) -> Truth:
    """The path that all members' transfers take."""
    return link_of(rank, ranks)


def can(machine: Machine) -> str | None:
    """Where ranks can have networks of their own and something can hold frames back."""
    return machine.lacks("root", "ip", "tc", "nsenter", "setpriv", "namespaces", "delay")


@contextmanager
def hit(scene: Scene) -> Iterator[None]:
    """At both ends of the link, or in the relay."""
    wire = scene.wire
    if wire.relay is not None:
        wire.shape(delay_s=DELAY_S)
        try:
            yield
        finally:
            wire.shape()
        return
    ends = ((wire.namespace(scene.rank), INTERFACE), (wire.switch, wire.port(scene.rank)))
    with ExitStack() as undo:
        for namespace, interface in ends:
            words = ("netem", "delay", f"{DELAY_S * 1e3:.0f}ms", "limit", "10000")
            command("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", *words)
            undo.callback(command, "tc", "-n", namespace, "qdisc", "del", "dev", interface, "root")
        yield
