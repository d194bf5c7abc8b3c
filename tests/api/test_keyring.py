"""The life of a key, a session and the audit on both databases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from argus.analytics.store.audit import Deed, list_deeds
from argus.analytics.store.engine import Store
from argus.analytics.store.keys import list_keys
from argus.analytics.store.projects import project_names
from argus.api.auditing import Auditor
from argus.api.keyring import REMEMBER_S, SESSION_S, Keyring
from argus.api.keys import IMPLIED, SCOPES, Wish
from tests.api.kit import FakeClock, new_store


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "postgres":
        found: Store = request.getfixturevalue("postgres")
        yield found
        return
    made = new_store(tmp_path / "a.sqlite")
    yield made
    made.close()


def keyring_of(store: Store, clock: FakeClock) -> Keyring:
    return Keyring(
        store=store, bootstrap="environment", is_exposed=False, clock=clock, ticks=lambda: clock.now_s
    )


def test_a_key_lives_and_ends(store: Store, clock: FakeClock) -> None:
    here, elsewhere = keyring_of(store, clock), keyring_of(store, clock)
    token, row = here.create(Wish(project="beta", name="n", scopes=("read",)), by="test")
    found = elsewhere.bearer(token)
    assert found is not None and (found.key, found.project) == (row.id, "beta")
    with store.read() as connection:
        assert project_names(connection) == ["default", "beta"]
        (listed,) = list_keys(connection, project="beta", limit=9, offset=0).items
        assert list_keys(connection, project="default", limit=9, offset=0).total == 0
    assert listed["used_s"] == clock.now_s and listed["scopes"] == ("read",)
    cookie, visitor = here.log_in(token) or ("", None)
    assert visitor is not None and here.visitor(cookie) == visitor
    assert not here.revoke(row.id, project="default", by="test")
    assert here.revoke(row.id, project="beta", by="test")
    assert here.recalled(token) == (False, None) and here.bearer(token) is None
    assert here.visitor(cookie) is None
    assert elsewhere.recalled(token)[0]  # for a moment more
    clock.now_s += REMEMBER_S
    assert not elsewhere.recalled(token)[0] and elsewhere.bearer(token) is None


def test_sessions_end_and_are_forgotten(store: Store, clock: FakeClock) -> None:
    keyring = keyring_of(store, clock)
    cookie, _ = keyring.log_in("environment") or ("", None)
    assert keyring.visitor(cookie) is not None and keyring.log_in("wrong") is None
    clock.now_s += SESSION_S
    assert keyring.visitor(cookie) is None
    keyring.log_in("environment")
    clock.now_s += 1
    keyring.log_in("environment")
    with store.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM sessions").scalar_one() == 2


def test_the_audit_is_masked_cut_and_forgotten(store: Store, clock: FakeClock) -> None:
    auditor = Auditor(store=store, clock=clock, keep_s=100.0, secrets=("hush-hush",))
    secret = "argus_" + "0" * 12 + "_" + "f" * 64
    assert auditor.note(
        Deed(project="beta", who="\x1b[2Jx" * 99, action="a", target=f"hush-hush {secret}", outcome="o")
    )
    with store.read() as connection:
        (row,) = list_deeds(connection, project="beta", action=None, limit=9, offset=0).items
    assert "hush" not in row["target"] and "f" * 64 not in row["target"]
    assert "\x1b" not in row["who"] and len(row["who"]) == 160
    clock.now_s += 200
    auditor.note(Deed(project="default", who="w", action="b", target="t", outcome="o"))
    with store.read() as connection:
        found = list_deeds(connection, project=None, action=None, limit=9, offset=0)
        assert [item["action"] for item in found.items] == ["b"]
        assert list_deeds(connection, project="default", action="none", limit=9, offset=0).total == 0


def test_a_database_that_is_gone_costs_the_note_only(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(tmp_path / "a.sqlite")
    with store.write() as connection:
        connection.exec_driver_sql("DROP TABLE audit")
    auditor = Auditor(store=store, clock=clock, keep_s=100.0)
    assert not auditor.note(Deed(project="default", who="w", action="b", target="t", outcome="o"))
    assert "not in the audit" in caplog.text
    store.close()


def test_the_guide_says_which_scopes_hold_another() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", guide, re.MULTILINE))
    assert set(rows) == set(SCOPES) and " also " not in rows["approve"]
    holds = {scope: set(re.findall(r"what `(\w+)` may", row)) for scope, row in rows.items()}
    rest = {scope: IMPLIED[scope] - {scope} for scope in SCOPES if scope != "admin"}
    assert {scope: holds[scope] for scope in rest} == rest
