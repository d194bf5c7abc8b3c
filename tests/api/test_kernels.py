"""Kernel summaries through the service: stored once, analysed, read alone, asked for, let go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import func, insert, select

from argus.analytics.store import incidents as incident_store
from argus.analytics.store import kernels as kernel_store
from argus.analytics.store import progress
from argus.analytics.store.documents import dump
from argus.analytics.store.kernel_tables import KERNEL_BLOBS, KERNEL_NAMES
from argus.analytics.store.tables import FINDINGS
from argus.api.cli.serve import product_analyses
from argus.api.known_names import KnownNames
from argus.api.service import Service
from argus.collectors.host.identity import Identities
from argus.collectors.host.pack_hosts import NameBook, pack_hosts
from argus.collectors.records.kernel_blob import MAX_KERNEL_BYTES, encode
from argus.collectors.records.kernel_read import open_blob, summaries_of
from argus.collectors.records.kernels import name_hash
from argus.collectors.records.summary import RankWindow
from argus.evals.moments import moments
from argus.evals.scenarios import slow_kernel
from argus.evals.simulator.simulate import simulate
from tests.api.kit import FakeClock, new_service, new_store, upload

Played = tuple[list[list[RankWindow]], bytes, float, tuple[int, ...]]

RANKS, WINDOWS = 16, 14


@pytest.fixture(scope="module")
def job() -> Played:
    """Windows of a job with one slow rank, its layouts, its start, the truth."""
    scenario = slow_kernel.scenario(seed=2, ranks=RANKS, severity=1.5)
    done = simulate(scenario.job, scenario.faults, rng=np.random.default_rng(2))
    parts = [list(moment.parts) for moment in moments(done) if moment.parts]
    layouts = dump({"layouts": [item.to_json() for item in done.layouts]}).encode()
    return parts, layouts, scenario.job.start_s, scenario.truth.ranks


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    store = new_store(tmp_path / "a.sqlite")
    yield new_service(store, clock=FakeClock(), analyses=product_analyses(), window_steps=10)
    store.close()


def test_half_a_character_in_a_kernels_name_costs_no_upload(service: Service, job: Played) -> None:
    parts, layouts, _, _ = job
    service.receive_layouts(layouts)
    packed = pack_hosts(parts[0], book=NameBook(), identities=Identities())
    told = []
    for window in packed:
        if window.kernels:
            blob = open_blob(window.kernels)
            named = [
                replace(one, kernels=tuple((f"{name}\ud800", role) for name, role in one.kernels))
                for one in summaries_of(blob, texts=blob.texts())
            ]
            window = replace(window, kernels=encode(named))
        told.append(window)
    assert service.receive_windows(upload(*told))["accepted"] == len(told)
    with service.store.read() as connection:
        names = connection.execute(select(KERNEL_NAMES.c.name)).scalars().all()
    assert names and any(name.endswith("?") for name in names)


def send(service: Service, parts: list[RankWindow], *, book: NameBook | None = None) -> dict[str, object]:
    packed = pack_hosts(parts, book=book or NameBook(), identities=Identities())
    return service.receive_windows(upload(*packed))


def turn(service: Service) -> None:
    clock = service.clock
    assert isinstance(clock, FakeClock)
    clock.now_s += 5.0
    while service.worker.turn(clock.now_s):
        pass


@pytest.mark.slow
def test_a_slow_rank_is_found_by_its_kernels(service: Service, job: Played) -> None:
    parts, layouts, _, truth = job
    service.receive_layouts(layouts)
    book = NameBook()
    for window in parts[:WINDOWS]:
        assert send(service, window, book=book)["rejected"] == []
        turn(service)
    assert service.published.troubles_now() == ()
    with service.store.read() as connection:
        ids = [row[0] for row in connection.execute(select(FINDINGS.c.id))]
        found = [f for f in progress.findings_by_id(connection, ids).values() if f.level == "L3"]
        incidents = incident_store.open_incidents(connection, 1)
    culprits = [finding for finding in found if finding.role == "culprit"]
    assert culprits and {rank for finding in culprits for rank in finding.ranks} == set(truth)
    assert all(finding.kernel and finding.ratio and finding.ratio > 1.2 for finding in culprits)
    # Those who wait for it have long communication kernels: findings of their own, but no incident.
    (incident,) = incidents
    assert incident.cause.suspects == truth and incident.cause.verdict == "CONFIRMED"
    assert {"own_self_s", "kernel_ratio"} <= {item.name for item in incident.cause.evidence}


def test_a_blob_is_stored_once_and_apart(service: Service, job: Played) -> None:
    parts, layouts, _, _ = job
    service.receive_layouts(layouts)
    for _ in range(2):
        send(service, parts[0])
    with service.store.read() as connection:
        blobs = kernel_store.blobs_of(connection, 1, 0)
        bodies = progress.bodies_of(connection, 1, 0)
    assert sorted(len(open_blob(blob).ranks) for blob in blobs) == [8, 8]
    assert all(not RankWindow.from_bytes(body).kernels for body in bodies)


def test_one_kernel_is_read_without_the_others(service: Service, job: Played) -> None:
    parts, layouts, _, _ = job
    service.receive_layouts(layouts)
    send(service, parts[3])
    key = (name_hash("sim_gemm_0"), name_hash("compute"))
    with service.store.read() as connection:
        whole = kernel_store.blobs_of(connection, 1, 3)
        alone = list(kernel_store.read_kernel(connection, 1, 3, key=key))
        assert list(kernel_store.read_kernel(connection, 1, 3, key=(1, 2))) == []
    assert len(alone) == len(whole) == 2
    for body, (_, blob, rows) in zip(whole, alone, strict=True):
        full = open_blob(body)
        texts = {name_hash(text): text for text in ("sim_gemm_0", "compute")}
        summary = summaries_of(full, texts=texts)[0]
        want = summary.clusters[
            summary.clusters["kernel"] == summary.kernels.index(("sim_gemm_0", "compute"))
        ]
        mine = rows.member == 0
        assert blob.ranks["rank"][0] == full.ranks["rank"][0]
        assert np.exp(rows.log_p50[mine].astype(float)) == pytest.approx(want["p50_ns"])


def test_unknown_names_are_asked_for_until_they_are_known(service: Service, job: Played) -> None:
    parts, layouts, _, _ = job
    service.receive_layouts(layouts)
    book = NameBook()
    book.fresh(["sim_gemm_0"])  # taken for sent, but it never arrived
    assert send(service, parts[0], book=book)["unknown_names"] == [f"{name_hash('sim_gemm_0'):x}"]
    book.forget({name_hash("sim_gemm_0")})
    assert "unknown_names" not in send(service, parts[1], book=book)


def test_old_and_surplus_summaries_are_let_go(service: Service, job: Played) -> None:
    parts, layouts, _, _ = job
    service.receive_layouts(layouts)
    clock = service.clock
    assert isinstance(clock, FakeClock)
    for window in parts[:6]:
        send(service, window)
        clock.now_s += 100.0

    def count() -> int:
        with service.store.read() as connection:
            return int(connection.execute(select(func.count()).select_from(KERNEL_BLOBS)).scalar_one())

    assert count() == 12
    with service.store.write() as connection:
        assert kernel_store.prune_kernels(connection, before_s=clock.now_s - 450.0, max_bytes=1 << 30) == 4
    with service.store.read() as connection:
        sizes = connection.execute(select(KERNEL_BLOBS.c.num_bytes)).scalars().all()
    with service.store.write() as connection:
        kernel_store.prune_kernels(connection, before_s=0.0, max_bytes=sum(sizes) // 2)
    assert count() == 4


def test_names_that_no_summary_uses_go_and_those_in_use_stay(service: Service, job: Played) -> None:
    """A year of jobs names millions of kernels; a name that is used all the time may be older than all summaries."""
    parts, layouts, _, _ = job
    service.receive_layouts(layouts)
    clock = service.clock
    assert isinstance(clock, FakeClock)
    with service.store.write() as connection:
        connection.execute(insert(KERNEL_NAMES), [{"hash": "1", "name": "gone", "seen_s": clock.now_s}])
    book = NameBook()
    for window in parts[:10]:
        assert "unknown_names" not in send(service, window, book=book)
        clock.now_s += 86400.0
    turn(service)
    with service.store.read() as connection:
        names = connection.execute(select(KERNEL_NAMES.c.name)).scalars().all()
    assert "gone" not in names and "sim_gemm_0" in names
    clock.now_s += 20 * 86400.0
    turn(service)
    with service.store.read() as connection:
        assert connection.execute(select(func.count()).select_from(KERNEL_NAMES)).scalar_one() == 0
    told = send(service, parts[10], book=book)["unknown_names"]
    assert f"{name_hash('sim_gemm_0'):x}" in str(told)


def test_what_was_learned_of_a_database_is_not_believed_of_the_one_in_its_place() -> None:
    known = KnownNames()
    held = known.held(now_s=5.0)
    known.remember(held, [{1, 2}])
    assert known.held(now_s=6.0) == {1, 2}
    known.forget()  # a repair, while a batch that began before it is being answered
    known.remember(held, [{3}])
    assert known.held(now_s=7.0) == set()


def test_a_blob_that_cannot_be_taken_costs_only_itself(service: Service, job: Played) -> None:
    parts, layouts, _, _ = job
    service.receive_layouts(layouts)
    whole = parts[0][0].kernels
    cut, other = whole[: len(whole) // 2], bytearray(whole)
    other[3] = 77
    far = encode([replace(s, rank=(1 << 32) - 1) for s in summaries_of(open_blob(whole), texts={})])
    bad = (cut, bytes(other), far, b"x", whole + bytes(MAX_KERNEL_BYTES))
    for window, kernels in enumerate(bad):
        answer = service.receive_windows(upload(replace(parts[window][0], kernels=kernels)))
        assert answer["accepted"] == 1 and answer["rejected"] == []
        with service.store.read() as connection:
            assert kernel_store.blobs_of(connection, 1, window) == []
            (body,) = progress.bodies_of(connection, 1, window)
        kept, sent = RankWindow.from_bytes(body), parts[window][0]
        assert (kept.steps == sent.steps).all() and (kept.cells == sent.cells).all() and not kept.kernels
        ((reason, num),) = (kept.dropped.items() - sent.dropped.items()) or ((None, 0),)
        assert "kernel" in str(reason) and num == 1
