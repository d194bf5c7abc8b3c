"""The log: a line a record, nothing of others in it, each trouble once, no secret past the mask."""

from __future__ import annotations

import logging
import re
import sqlite3

import pytest
from sqlalchemy.exc import OperationalError

from argus.api.cli.errors import cannot_open
from argus.api.cli.serve_log import logging_lines
from argus.api.cli.serve_store import shown
from argus.api.complaints import Complaints
from argus.api.masking import mask, mask_logs
from argus.api.settings import Settings

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) [\w.]+: \S.*")


def logged(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_each_record_is_a_line_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    forged = "x\n2026-01-01T00:00:00.000Z ERROR argus.worker: forged \x1b[2J"
    with logging_lines():
        logging.getLogger("argus.x").info("run %s", forged)
        logging.getLogger("httpx").info("chatter")
        try:
            raise ValueError(forged)
        except ValueError:
            logging.getLogger("other").exception("it broke")
    first, second, *trace = logged(capsys)
    assert LINE.fullmatch(first) and "\\n2026" in first and "\x1b" not in first
    assert LINE.fullmatch(second) and trace and not any(LINE.match(line) for line in trace)


def test_a_library_that_brings_its_own_handler_is_late_and_secrets_stay_masked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mcp = pytest.importorskip("mcp.server.mcpserver", reason="the extra mcp is not installed")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a process of its own
    with logging_lines():
        undo = mask_logs(Settings(key="s3cret-of-the-house"))
        before = list(logging.getLogger().handlers)
        try:
            mcp.MCPServer("argus")
            assert logging.getLogger().handlers == before
            raise RuntimeError("with s3cret-of-the-house")
        except RuntimeError:
            logging.getLogger("argus.x").exception("failed")
        finally:
            undo()
    told = "\n".join(logged(capsys))
    assert logging.getLogger().handlers == []
    assert "with ***" in told and "s3cret" not in told


def test_who_logs_wrongly_is_not_failed_by_the_masking(caplog: pytest.LogCaptureFixture) -> None:
    undo = mask_logs(Settings(key="s3cret"), more=("s3cret-of-the-house",))
    try:
        for text, given in (("%d of s3cret-of-the-house, %s", "many"), ("%(name)s", {"other": 1})):
            logging.getLogger("x").warning(text, given)
    finally:
        undo()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and said[0].startswith("%d of ***, %s (") and "KeyError" in said[1]


def test_what_lasts_is_said_once_and_that_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    full = OperationalError("UPDATE x", {}, sqlite3.OperationalError("database or disk is full"))
    complaints = Complaints(logging.getLogger("argus.test"))
    with caplog.at_level(logging.INFO):
        for error in (full, full, ValueError("a"), full):
            complaints.about("it failed", error)
        complaints.over()
        complaints.over()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "it failed: OperationalError: database or disk is full",
        "it failed: ValueError: a",
        "it failed: OperationalError: database or disk is full",
        "over: it failed: OperationalError: database or disk is full",
    ]
    assert [record.exc_info is None for record in caplog.records] == [True, False, True, True]


@pytest.mark.parametrize(
    "db",
    [
        "postgresql://u:s3cret@h/d",
        "postgresql://h/d?user=u&password=s3cret",
        "postgresql://h/d?sslpassword=s3cret&user=u",
        "postgresql://u:p/s3cret@h/d",
        "postgresql://u:p@s3cret@h/d",
        "postgresql://:s3cret@h/d",
    ],
)
def test_no_form_of_a_database_url_shows_its_password(db: str) -> None:
    assert "s3cret" not in mask(f"cannot reach '{db}', see x@y")
    assert "s3cret" not in shown(db)
    assert "s3cret" not in str(cannot_open(ValueError(f"{db} is none")))
    assert mask("http://h:8321/a and mail@h") == "http://h:8321/a and mail@h"
