"""Reference tables: complete, between their markers, and told to be stale where they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from argus.api import reference
from argus.api.cli import main
from argus.api.reference import PageError, stale_pages, written
from argus.api.settings import settings_table

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for page, _ in reference.TABLES.values():
        shutil.copy(DOCS / page, tmp_path / page)
    return tmp_path


def test_every_setting_is_a_row() -> None:
    rows = reference.settings().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [name for name, _, _, _ in settings_table()]


def test_what_is_around_a_table_stays(docs: Path) -> None:
    page = docs / "settings.md"
    page.write_text("before\n<!-- reference settings -->\nOUTDATED\n<!-- end settings -->\nafter\n")
    (wanted,) = [text for path, text in stale_pages(docs).items() if path == page]
    assert wanted.startswith("before\n") and wanted.endswith("\nafter\n") and "OUTDATED" not in wanted
    assert written(wanted, "settings") == wanted


def test_a_page_without_markers_is_named() -> None:
    with pytest.raises(PageError, match=r"tools\.md"):
        written("nothing here", "tools")


def test_the_command_checks_and_writes(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = docs / "metrics.md"
    whole = page.read_text()
    page.write_text(whole.replace("| counter |", "| gauge |", 1))
    command = ["dev", "docs", "--docs", str(docs), "--json"]
    assert main([*command, "--check"]) == 1
    assert json.loads(capsys.readouterr().out) == {"stale": ["metrics.md"]}
    assert main(command) == 0 and page.read_text() == whole
    assert json.loads(capsys.readouterr().out) == {"written": ["metrics.md"]}
    assert main([*command[:2], "--docs", str(docs / "none")]) == 2
    assert "cannot write the tables" in capsys.readouterr().err
