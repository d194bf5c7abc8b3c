"""Commands where a stream is not for writing, the current folder is gone, or a full disk left an empty database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from argus.api.cli import main
from tests.api.process import ROOT, environment


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--help", "tools list --json"])
def test_a_stdout_that_was_opened_for_reading_is_one_sentence(words: str) -> None:
    line = f"{sys.executable} -m argus {words} 1</dev/null"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment(), capture_output=True, check=False)
    assert (
        done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"not all could be written" in done.stderr
    )


@pytest.mark.parametrize("words", [["key", "create", "--scope", "read"], ["run", "--", "true"]])
def test_a_folder_that_is_gone_is_one_sentence(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        assert main(words) == 2
    finally:
        os.chdir(tmp_path)
    assert capsys.readouterr().err == "argus: the folder one stands in is gone: go to another with cd\n"


def test_a_database_that_a_full_disk_left_empty_takes_its_first_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "a.sqlite"
    db.touch()
    assert main(["key", "list", "--db", str(db)]) == 2
    assert "there is no database" in capsys.readouterr().err
    assert main(["key", "create", "--scope", "read", "--db", str(db)]) == 0
