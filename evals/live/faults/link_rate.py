"""A rank's link carries 150 Mbit/s in each direction, by the token bucket of `tc`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from argus.evals.live.machine import Machine
from argus.evals.live.network import INTERFACE, command
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth, link_of

WORKLOADS = ("ddp", "fsdp2", "moe", "pp")
SETTING = Setting(has_network=True)
BUCKET = ("tbf", "rate", "150mbit", "burst", "256kb", "latency", "200ms")


def truth(*, rank: int, ranks: int) -> Truth:
    """The path that all members' transfers take."""
    return link_of(rank, ranks)


def can(machine: Machine) -> str | None:
    """Where ranks can have networks of their own and tc has tbf."""
    return machine.lacks("root", "ip", "tc", "nsenter", "setpriv", "namespaces", "tbf")


@contextmanager
def hit(scene: Scene) -> Iterator[None]:
    """At both ends of the rank's link, for a bucket holds what leaves an interface."""
    wire = scene.wire
    ends = ((wire.namespace(scene.rank), INTERFACE), (wire.switch, wire.port(scene.rank)))
    with ExitStack() as undo:
        for namespace, interface in ends:
            command("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", *BUCKET)
            undo.callback(command, "tc", "-n", namespace, "qdisc", "del", "dev", interface, "root")
        yield
