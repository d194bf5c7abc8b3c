"""A slow link is not named where one of its members does not get the CPU."""

from __future__ import annotations

from argus.analytics.fuse.order import without_unserved
from argus.analytics.incident import Cause


def cause(fault_class: str, *ranks: int) -> Cause:
    scope = "group:world/0" if fault_class == "link.slow" else f"rank:{ranks[0]}"
    return Cause(fault_class=fault_class, verdict="LIKELY", suspects=ranks, scope=scope)


LINK = cause("link.slow", 0, 1, 2, 3)


def test_a_starved_member_could_not_serve_the_transfer() -> None:
    starved = cause("host.cpu_starved", 2)
    assert without_unserved([LINK, starved]) == (starved,)


def test_a_starved_rank_elsewhere_and_another_trouble_of_a_member_leave_the_link() -> None:
    for other in (cause("host.cpu_starved", 7), cause("compute.slow", 2)):
        assert without_unserved([LINK, other]) == (LINK, other)
