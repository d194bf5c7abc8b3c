"""Ranks of one host that fall ill at once are one cause where chance would not seat them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from argus.analytics.finding import Evidence
from argus.analytics.fuse.scope import as_known_half, as_whole_half, join_ranks
from argus.analytics.incident import Cause
from argus.analytics.lifecycle import open_incident, update_incident
from argus.analytics.same_cause import is_wider
from argus.analytics.view import View
from argus.analytics.window import assemble
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build


def view(ranks: int, *, per_host: int = 8) -> View:
    job = Job(ranks=ranks, ranks_per_host=per_host, steps=10, warmup_steps=0)
    done = simulate(job, rng=np.random.default_rng(0))
    topology = build(done.layouts)
    (first,) = [assemble(closed.parts, topology) for closed in done.windows(WindowPlan())]
    return View(run="r", attempt=0, topology=topology, now_s=0.0, window=first)


def slow(rank: int, *, onset: int = 60) -> Cause:
    return Cause(
        fault_class="compute.slow",
        verdict="LIKELY",
        suspects=(rank,),
        scope=f"rank:{rank}",
        s_per_step=1.0 + rank / 1000,
        onset_step=onset,
    )


def scopes(ranks: int, causes: Sequence[Cause]) -> list[str]:
    return [cause.scope for cause in join_ranks(view(ranks), causes)]


def test_two_of_one_host_among_many_are_the_host() -> None:
    (found,) = join_ranks(view(512), [slow(16), slow(19)])
    assert found.scope == "host:h-0002" and found.suspects == (16, 19)


def test_two_hosts_of_a_small_job_share_ranks_by_chance() -> None:
    assert scopes(16, [slow(1), slow(4)]) == ["rank:1", "rank:4"]


def test_all_ranks_of_a_host_that_lack_what_it_gives_are_the_host_however_small() -> None:
    pair = [replace(slow(rank), fault_class="host.cpu_starved") for rank in (6, 7)]
    (found,) = join_ranks(view(16, per_host=2), pair)
    assert (found.scope, found.suspects) == ("host:h-0003", (6, 7))
    for apart in (pair[:1], [slow(6), slow(7)], [pair[0], replace(pair[1], onset_step=140)]):
        assert all(one.scope.startswith("rank:") for one in join_ranks(view(16, per_host=2), apart))


def test_ranks_of_different_hosts_or_moments_stay_apart() -> None:
    assert scopes(512, [slow(16), slow(200)]) == ["rank:16", "rank:200"]
    assert scopes(512, [slow(16), slow(19, onset=140)]) == ["rank:16", "rank:19"]
    other = replace(slow(19), fault_class="data.slow_loader")
    assert sorted(scopes(512, [slow(16), other])) == ["rank:16", "rank:19"]


def test_ranks_that_open_incidents_accuse_are_suspects_still() -> None:
    known = [slow(16, onset=60), slow(19, onset=140)]
    (found,) = join_ranks(view(512), [slow(17, onset=200)], known=[*known, *map(slow, (18, 20, 21))])
    assert found.scope == "host:h-0002" and found.suspects == (16, 17, 18, 19, 20, 21)
    assert found.onset_step == 60
    of_data = [replace(one, fault_class="data.slow_loader") for one in known]
    assert scopes(512, [slow(17)]) == [one.scope for one in join_ranks(view(512), [slow(17)], known=of_data)]


def test_a_rank_of_a_host_that_is_accused_already_belongs_to_it() -> None:
    known = replace(slow(16), scope="host:h-0002", suspects=(16, 19))
    (found,) = join_ranks(view(512), [slow(22, onset=200)], known=[known])
    assert (found.scope, found.suspects) == ("host:h-0002", (22,))
    assert [one.scope for one in join_ranks(view(512), [slow(30)], known=[known])] == ["rank:30"]


def test_what_all_ranks_of_a_half_showed_is_told_of_all_of_them() -> None:
    seen = (Evidence(name="half_excess_s", value=0.1),)
    of_half = [replace(slow(rank), fault_class="host.numa", evidence=seen) for rank in (20, 22)]
    (found,) = join_ranks(view(512), [as_whole_half(view(512), cause) for cause in of_half])
    assert (found.scope, found.suspects) == ("half:h-0002/1", (20, 21, 22, 23))
    assert found.s_per_step == of_half[1].s_per_step
    assert as_whole_half(view(512), slow(20)) == slow(20)
    (again,) = join_ranks(view(512), [as_whole_half(view(512), of_half[0])], known=[found])
    assert (again.scope, again.suspects) == (found.scope, found.suspects)


def test_a_rank_of_a_half_that_is_accused_already_belongs_to_it() -> None:
    known = replace(slow(20), fault_class="host.numa", scope="half:h-0002/1", suspects=(20, 21, 22))
    seen = as_known_half(view(512), replace(slow(23), verdict="CONFIRMED"), [known])
    assert (seen.fault_class, seen.verdict, seen.second_best) == ("host.numa", "LIKELY", "compute.slow")
    (found,) = join_ranks(view(512), [seen], known=[known])
    assert (found.scope, found.suspects) == ("half:h-0002/1", (20, 21, 22, 23))
    for other in (slow(19), replace(slow(23), fault_class="host.gc")):  # the other half; another cause
        assert as_known_half(view(512), other, [known]) == other


def test_an_incident_of_a_host_grows_by_its_ranks_and_by_no_others() -> None:
    first = replace(slow(16), scope="host:h-0002", suspects=(16, 19))
    opened = open_incident(first, run="r", attempt=0, window=6, steps_done=70, world=512)

    def suspects(cause: Cause) -> tuple[int, ...]:
        return update_incident(opened, cause, window=7, steps_done=80, world=512).cause.suspects

    assert suspects(replace(first, suspects=(17,))) == (16, 17, 19)
    assert suspects(replace(first, suspects=(17,), fault_class="host.gc")) == (16, 19)
    assert suspects(replace(first, suspects=(17,), scope="rank:17")) == (16, 19)


def test_wider_is_the_same_of_more_ranks_and_nothing_else() -> None:
    host = replace(slow(16), scope="host:h-0002", suspects=(16, 19))
    assert is_wider(slow(16), host)
    assert not is_wider(slow(17), host) and not is_wider(host, slow(16))
    assert not is_wider(replace(host, scope="run:r", suspects=()), host), (
        "of the whole job is no part of a host"
    )
    assert not is_wider(replace(slow(16), fault_class="host.gc"), host)
