"""The store: one schema for models and migrations, values that come back as they went in."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select

import argus.analytics.store
from argus.analytics.finding import Evidence, Finding
from argus.analytics.incident import Cause, Cost, Incident, RuledOut
from argus.analytics.numbers import WindowNumbers, window_numbers
from argus.analytics.store import incidents, intake, progress
from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import Store, StoreError, open_store
from argus.analytics.store.tables import METADATA, RANK_WINDOWS
from argus.analytics.store.units import units_of_ranks
from argus.analytics.window import assemble
from argus.api.migrate import upgrade
from argus.collectors.records.heartbeat import is_newer
from argus.collectors.records.plan import WindowPlan
from argus.topology.layout import build
from tests.api.kit import make_beat, make_layout, make_window, new_store

VERSIONS = Path(__file__).resolve().parents[2] / "api" / "migrations" / "versions"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "a.sqlite")


def differences(store: Store) -> list[object]:
    for module in iter_modules(argus.analytics.store.__path__):
        import_module(f"argus.analytics.store.{module.name}")  # each brings its tables
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, METADATA))


def test_the_migrations_make_the_tables_of_the_models(store: Store) -> None:
    assert differences(store) == []


def test_migrating_twice_changes_nothing(store: Store) -> None:
    upgrade(store)
    assert differences(store) == []


def attempt(store: Store) -> intake.AttemptRow:
    with store.write() as connection:
        rows = intake.ensure_attempts(connection, [("job", 0)], plan=WindowPlan(first=7), now_s=1.0)
    return rows["job", 0]


@pytest.mark.parametrize(("ts_s", "kept_s"), [(1001.0, 1001.0), (990.0, 1000.0), (400.0, 400.0)])
def test_a_straggler_is_ignored_and_a_clock_set_back_is_followed(
    store: Store, ts_s: float, kept_s: float
) -> None:
    row = attempt(store)
    first, second = make_beat(0, ts_s=1000.0), make_beat(0, ts_s=ts_s)
    with store.write() as connection:
        for beat in (first, second):
            intake.add_heartbeats(connection, [beat], attempts={("job", 0): row}, now_s=5.0)
        (heard,) = progress.beats_of(connection, row.id)
    assert heard.beat.ts_s == kept_s
    assert is_newer(second, first) == (ts_s == kept_s)


def test_an_attempt_keeps_the_plan_it_began_with(store: Store) -> None:
    assert attempt(store).plan == WindowPlan(first=7)
    with store.write() as connection:
        rows = intake.ensure_attempts(connection, [("job", 0)], plan=WindowPlan(first=9), now_s=2.0)
    assert rows["job", 0].plan == WindowPlan(first=7)


def test_a_rank_window_comes_back_byte_for_byte(store: Store) -> None:
    row = attempt(store)
    body = make_window(2, 0).to_bytes()
    arrival = intake.Arrival(
        index=0, run="job", attempt=0, rank=2, window=0, first_step=0, num_steps=10, host="h", body=body
    )
    for expected in ((1, 0), (0, 1)):
        with store.write() as connection:
            (received,) = intake.add_uploads(connection, [[arrival]], attempts={("job", 0): row}, now_s=1.0)
        assert (received.accepted, received.duplicates) == expected
    with store.read() as connection:
        assert progress.bodies_of(connection, row.id, 0) == [body]


def make_incident(**changes: object) -> Incident:
    evidence = (Evidence(name="self_s", value=1.5, unit="s", baseline=1.0, note="mean"),)
    cause = Cause(
        fault_class="compute.slow",
        verdict="LIKELY",
        suspects=(3,),
        scope="rank:3",
        victims=(0, 1),
        phase="forward",
        ruled_out=(RuledOut(fault_class="link.slow", why="transfer is flat", evidence=evidence),),
        evidence=evidence,
        findings=("f-1",),
    )
    values = {
        "run": "job",
        "attempt": 0,
        "status": "open",
        "severity": "info",
        "cause": cause,
        "onset_step": 10,
        "end_step": None,
        "opened_window": 1,
        "last_window": 2,
        "cost": Cost(
            s_per_step=0.1, share_of_step=0.5, gpu_hours_so_far=1.0, gpu_hours_per_day=2.0, method="m"
        ),
        **changes,
    }
    return Incident(**values)  # type: ignore[arg-type]


def test_an_incident_comes_back_as_it_was(store: Store) -> None:
    row = attempt(store)
    incident = make_incident(diagnosis={"headline": "rank 3"})
    with store.write() as connection:
        event = incidents.save_incident(connection, row.id, incident, now_s=5.0)
    assert event is not None and event.what == "opened"
    with store.read() as connection:
        assert incidents.open_incidents(connection, row.id) == [incident]


def test_an_incident_tells_changes_and_not_numbers(store: Store) -> None:
    row = attempt(store)
    told = []
    for change in (
        {},
        {"last_window": 3},
        {"severity": "critical"},
        {"severity": "critical", "status": "resolved", "end_step": 40},
        {"severity": "critical"},
    ):
        with store.write() as connection:
            event = incidents.save_incident(connection, row.id, make_incident(**change), now_s=5.0)
        told.append(event.what if event else None)
    assert told == ["opened", None, "changed", "resolved", "reopened"]


def test_a_finding_comes_back_as_it_was(store: Store) -> None:
    row = attempt(store)
    finding = Finding(
        run="job",
        attempt=0,
        window=1,
        level="L2",
        detector="d",
        kind="wait",
        role="culprit",
        ranks=(1,),
        nodes=("rank:1",),
        ratio=1.5,
        evidence=(Evidence(name="wait_s", value=0.5),),
    )
    for _ in range(2):
        with store.write() as connection:
            progress.add_findings(connection, row.id, [finding], now_s=1.0)
    with store.read() as connection:
        assert progress.findings_by_id(connection, [finding.id, "f-none"]) == {finding.id: finding}


def test_a_rank_is_on_the_hardware_it_was_last_on(store: Store) -> None:
    row = attempt(store)
    with store.write() as connection:
        for now_s, host in enumerate(("h-9", "h-1")):
            moved = replace(make_layout(0), host=host, device=f"GPU-{host}")
            intake.add_layouts(connection, [moved], attempts={("job", 0): row}, now_s=float(now_s))
        assert units_of_ranks(connection, row.id, [0]) == {0: ("h-1", "GPU-h-1")}


def test_numbers_survive_packing_with_what_was_not_observed() -> None:
    window = assemble([make_window(r, 0) for r in (0, 2)], build([make_layout(r) for r in range(4)]))
    numbers = window_numbers(window)
    again = WindowNumbers.from_bytes(numbers.to_bytes())
    assert again.phases == ("forward",) and again.clocks == ("wall",)
    np.testing.assert_allclose(again.step_s, [0.1, np.nan, 0.1, np.nan])
    np.testing.assert_allclose(again.phase_s, [[0.1, np.nan, 0.1, np.nan]], rtol=1e-6)
    np.testing.assert_allclose(again.job_step_s, np.full(10, 0.1))


def test_documents_hold_what_json_cannot() -> None:
    raw = {"a": float("inf"), "b": np.float32(1.5), "c": np.array([np.nan, 2.0]), "d": "\x00\ud800"}
    text = dump(raw)
    assert text.isascii() and "\x00" not in text
    assert load(text) == {"a": None, "b": 1.5, "c": [None, 2.0], "d": "\x00\ud800"}


def test_a_reader_sees_one_state_while_a_writer_commits(store: Store) -> None:
    row = attempt(store)
    with store.read() as reading:
        assert reading.execute(select(RANK_WINDOWS)).all() == []

        def write() -> None:
            with store.write() as connection:
                connection.execute(
                    RANK_WINDOWS.insert(),
                    {
                        "attempt_id": row.id,
                        "window": 0,
                        "rank": 0,
                        "received_s": 0.0,
                        "is_late": False,
                        "body": b"x",
                    },
                )

        writer = threading.Thread(target=write)
        writer.start()
        writer.join()
        assert reading.execute(select(RANK_WINDOWS)).all() == []


def test_a_failed_write_leaves_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.write() as connection:
        intake.ensure_attempts(connection, [("job", 0)], plan=WindowPlan(), now_s=1.0)
        _ = 1 / 0
    with store.read() as connection:
        assert progress.live_attempts(connection) == []


def test_sqlite_survives_a_power_cut_by_its_settings(store: Store, tmp_path: Path) -> None:
    with store.read() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
    newest = max(file.stem[1:5] for file in VERSIONS.glob("v*.py"))
    with sqlite3.connect(tmp_path / "a.sqlite") as other:
        assert other.execute("SELECT version_num FROM alembic_version").fetchall() == [(newest,)]
    other.close()


@pytest.mark.parametrize("where", ["mysql+nothing://x", "://", "postgresql://h:port/x"])
def test_what_is_no_database_is_said_in_a_sentence(where: str) -> None:
    with pytest.raises(StoreError, match="not a database of ours"):
        open_store(where)


@pytest.mark.parametrize("where", ["", ":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused_for_no_two_connections_would_share_it(where: str) -> None:
    with pytest.raises(StoreError, match="give the path of a file"):
        open_store(where)


def test_a_password_with_an_unescaped_at_is_told_and_not_looked_up_as_a_host() -> None:
    with pytest.raises(StoreError, match="%40") as told:
        open_store("postgresql://u:pw@s3cret@h/d")
    assert "s3cret" not in str(told.value)
    open_store("postgresql://u:pw%40s3cret@h/d").close()


def test_the_tables_need_no_service_libraries() -> None:
    code = "import sys, argus.analytics.store.queries; print('fastapi' in sys.modules or 'alembic' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
