"""A slow link is not named where a member does not get the CPU, nor a rank that only comes late from a slow link."""

from __future__ import annotations

from dataclasses import replace

from argus.analytics.fuse.order import without_delayed, without_unserved
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


def test_who_only_comes_late_from_a_slow_link_is_not_named_beside_it() -> None:
    link, late = replace(LINK, s_per_step=0.4), replace(cause("unknown", 2), s_per_step=0.1)
    assert without_delayed([link, late]) == (link,)
    others = (
        replace(cause("unknown", 7), s_per_step=0.1),  # not a member
        replace(cause("unknown", 2), s_per_step=0.5),  # costs more than the link
        replace(cause("compute.slow", 2), s_per_step=0.1),  # late by its own work
    )
    for other in others:
        assert without_delayed([link, other]) == (link, other)
