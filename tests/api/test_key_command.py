"""`argus key` on a database and over HTTP, what `argus serve` asks of keys, and secrets in logs."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from argus.analytics.store import keys as rows
from argus.analytics.store.engine import open_store
from argus.api.cli import main, processor
from argus.api.cli.errors import CliError
from argus.api.cli.serve import serve
from argus.api.cli.serve_checks import check_key
from argus.api.keyring import Keyring
from argus.api.keys import SCOPES, Wish, check_wish, digest, parse_token
from argus.api.masking import mask, mask_logs, secrets_of
from argus.api.settings import Settings
from argus.collectors.host.client import parse_server
from tests.api.guarded import BOOTSTRAP, Guarded, bearer, guarded
from tests.api.kit import FAKE_ANALYSES, FakeClock, new_store
from tests.api.served import listening_on


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["key", *words]) == code
    out = capsys.readouterr()
    return out.err if code else out.out


def test_only_a_first_key_makes_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = tmp_path / "mistyped.sqlite"
    for words in (("list",), ("revoke", "k1")):
        assert "no database" in said(capsys, *words, "--db", str(db), code=2)
    assert not db.exists()
    assert "no database" in said(capsys, "list", "--db", "x" * 300, code=2)


def test_keys_on_a_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARGUS_DB", raising=False)
    token = said(capsys, "create", "--scope", "ingest", "--project", "llm", "--name", "cluster 7").strip()
    assert parse_token(token) is not None and (tmp_path / "argus.sqlite").exists()
    (listed,) = json.loads(said(capsys, "list", "--json"))["keys"]
    assert (listed["project"], listed["scopes"], listed["name"]) == ("llm", ["ingest"], "cluster 7")
    assert "cluster 7" in said(capsys, "list") and token[-64:] not in said(capsys, "list")
    assert "is revoked" in said(capsys, "revoke", listed["id"])
    assert "revoked" in said(capsys, "list")
    assert "no key" in said(capsys, "revoke", "0" * 12, code=1)
    assert "project" in said(capsys, "create", "--scope", "read", "--project", "No Such", code=2)
    store = open_store(str(tmp_path / "argus.sqlite"))
    with store.read() as connection:
        rows = connection.exec_driver_sql("SELECT action, who FROM audit ORDER BY id").all()
    store.close()
    assert [row[0] for row in rows] == ["create_key", "revoke_key"] and "shell" in rows[0][1]


def test_keys_of_a_running_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded(tmp_path, clock=FakeClock()) as site, listening_on(site.app) as url:
        monkeypatch.setenv("ARGUS_KEY", BOOTSTRAP)
        words: Sequence[str] = ("create", "--scope", "read", "--days", "3", "--server", url, "--json")
        made = json.loads(said(capsys, *words))
        assert site.client.get("/v1/runs", headers=bearer(made["token"])).status_code == 200
        ids = [key["id"] for key in json.loads(said(capsys, "list", "--server", url, "--json"))["keys"]]
        assert len(ids) == 11 and made["id"] in ids
        said(capsys, "revoke", made["id"], "--server", url)
        assert site.client.get("/v1/runs", headers=bearer(made["token"])).status_code == 401
        monkeypatch.setenv("ARGUS_KEY", site.tokens["default", "read"])
        assert "admin" in said(capsys, "list", "--server", url, code=1)


def refused(**settings: str | int) -> str:
    with pytest.raises(CliError) as error:
        serve(Settings(**settings), analyses=FAKE_ANALYSES)  # type: ignore[arg-type]
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


def test_what_others_can_reach_needs_a_key_that_is_none_to_guess(tmp_path: Path) -> None:
    db = str(tmp_path / "a.sqlite")
    assert "shorter than 16" in refused(host="0.0.0.0", port=0, db=db, key="s3cret")
    assert "argus key create" in refused(host="0.0.0.0", port=0, db=db)
    new_store(tmp_path / "b.sqlite").close()
    assert "argus key create" in refused(host="0.0.0.0", port=0, db=str(tmp_path / "b.sqlite"))


def test_a_key_of_the_database_is_enough_for_others_to_reach_it(tmp_path: Path) -> None:
    store = new_store(tmp_path / "a.sqlite")
    Keyring(store=store, bootstrap="", is_exposed=True, clock=lambda: 0.0).create(
        Wish(project="default", name="", scopes=("admin",)), by="test"
    )
    store.close()
    check_key(Settings(host="0.0.0.0", db=str(tmp_path / "a.sqlite")))
    with store.write() as connection:  # also before the database is brought up to date
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0008'")
    check_key(Settings(host="0.0.0.0", db=str(tmp_path / "a.sqlite")))
    store.close()
    check_key(Settings(host="0.0.0.0", key="long enough to keep others out"))
    check_key(Settings(host="::1"))


def test_a_certificate_that_cannot_be_used_is_said_in_a_sentence(tmp_path: Path) -> None:
    db, none = str(tmp_path / "a.sqlite"), str(tmp_path / "none.pem")
    assert "both" in refused(port=0, db=db, tls_cert=none)
    assert "none.pem" in refused(port=0, db=db, tls_cert=none, tls_key=none)
    (tmp_path / "bad.pem").write_text("no certificate")
    bad = str(tmp_path / "bad.pem")
    assert "bad.pem" in refused(port=0, db=db, tls_cert=bad, tls_key=bad)


@pytest.mark.parametrize(
    "wish",
    [
        Wish(project="", name="", scopes=("read",)),
        Wish(project="a b", name="", scopes=("read",)),
        Wish(project="-a", name="", scopes=("read",)),
        Wish(project="a" * 33, name="", scopes=("read",)),
        Wish(project="a", name="\x1b[2J", scopes=("read",)),
        Wish(project="a", name="x" * 129, scopes=("read",)),
        Wish(project="a", name="", scopes=()),
        Wish(project="a", name="", scopes=("root",)),
        Wish(project="a", name="", scopes=SCOPES, lives_s=0.0),
    ],
)
def test_a_wish_that_cannot_be_granted(wish: Wish) -> None:
    with pytest.raises(ValueError, match="name|scopes|lives"):
        check_wish(wish)


def test_a_full_disk_does_not_lock_anybody_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object, **_options: object) -> None:
        raise OperationalError("UPDATE keys", {}, Exception("disk full"))

    store = new_store(tmp_path / "a.sqlite")
    keyring = Keyring(store=store, bootstrap="", is_exposed=True, clock=lambda: 1000.0)
    token, row = keyring.create(Wish(project="default", name="", scopes=("read",)), by="test")
    monkeypatch.setattr(rows, "note_use", full)
    assert keyring.bearer(token) is not None
    assert row.id in caplog.text
    store.close()


def test_secrets_are_masked_in_logs_and_texts(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(key="s3cret-of-the-house", model_key="sk-another")
    assert secrets_of(settings) == ("s3cret-of-the-house", "sk-another")
    undo = mask_logs(settings)
    try:
        with caplog.at_level(logging.WARNING):
            logging.getLogger("x").warning("header %s", "Bearer abcdef")
            try:
                raise RuntimeError("with s3cret-of-the-house and postgresql://u:pw123@h/db")
            except RuntimeError:
                logging.getLogger("x").exception("argus_%s_%s", "0" * 12, "f" * 64)
    finally:
        undo()
    shown = caplog.text + "".join(record.exc_text or "" for record in caplog.records)
    for secret in ("abcdef", "s3cret", "pw123", "f" * 64):
        assert secret not in shown
    assert "argus_000000000000_***" in shown
    assert mask("Cookie: argus_session=abc; x=1") == "Cookie: argus_session=***; x=1"
    assert "s3cret" not in repr(settings) and "***" not in repr(digest("a"))


def test_keys_are_in_nobodys_repr(tmp_path: Path) -> None:
    with guarded(tmp_path, clock=FakeClock()) as site:
        assert isinstance(site, Guarded)
        assert BOOTSTRAP not in repr(site.guard) and BOOTSTRAP not in repr(site.guard.keyring)
        assert all(token[-64:] not in repr(site.guard) for token in site.tokens.values())


@pytest.mark.parametrize("words", [("status",), ("topology", "show", "--run", "r")])
def test_a_key_that_no_request_can_carry_is_not_shown(
    words: Sequence[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, told in (("s3cret\n", "no answer from"), ("s3\ncret", "ARGUS_KEY holds characters")):
        monkeypatch.setenv("ARGUS_KEY", key)
        assert main([*words, "--server", "http://127.0.0.1:9"]) > 0
        err = capsys.readouterr().err
        assert told in err and "s3" not in err


def test_a_processor_sends_a_key_without_the_line_end_of_its_file() -> None:
    assert processor._server("http://h", {"ARGUS_KEY": "s3cret\n"}) == parse_server("http://h", key="s3cret")
    with pytest.raises(CliError, match="ARGUS_KEY holds characters"):
        processor._server("http://h", {"ARGUS_KEY": "s3\ncret"})
