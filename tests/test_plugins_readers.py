"""The laws of `collectors/readers`, run on every reader found there with a sound file of its own."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from argus.collectors.gather import gather
from argus.collectors.readers import ReaderError, Reading, _files, reader_for, readers
from argus.collectors.readers._files import head_of
from tests.collectors.readers.samples import sample

STOPS_EARLY = ("kineto", "recording")
"""Readers that need nothing of what follows the end of their file's content, so that it is never expanded."""


@pytest.mark.parametrize("name", list(readers()))
def test_a_reader_takes_its_own_file_and_no_other_does_before_it(name: str, tmp_path: Path) -> None:
    file, body = sample(name)
    path = tmp_path / file
    path.write_bytes(body)
    assert reader_for(head_of(path), file) is readers()[name]
    assert all(isinstance(reading, Reading) for reading in readers()[name].read(path))


@pytest.mark.parametrize("name", list(readers()))
def test_a_reader_keeps_or_refuses_what_is_cut_or_damaged(name: str, tmp_path: Path) -> None:
    """Whatever happened to its file, it raises its own error in one sentence or yields what it could read."""
    file, body = sample(name)
    rng = np.random.default_rng(11)
    path = tmp_path / file
    for turn in range(24):
        bad = bytearray(body[: int(len(body) * rng.uniform(0.05, 1.0))] if turn % 2 else body)
        for place in rng.integers(0, len(bad), 0 if turn % 4 == 1 else 12).tolist():
            bad[place] = int(rng.integers(256))
        path.write_bytes(bytes(bad))
        try:
            assert all(isinstance(reading, Reading) for reading in readers()[name].read(path))
        except ReaderError as error:
            assert file in str(error) and "\n" not in str(error)


@pytest.mark.parametrize("name", list(readers()))
def test_a_compressed_file_reads_alike_or_says_why_not(name: str, tmp_path: Path) -> None:
    file, body = sample(name)
    (tmp_path / f"{file}.gz").write_bytes(gzip.compress(body))
    found = gather([tmp_path], tmp_path / "scratch")
    assert found.readings or all(file in warning for warning in found.warnings) and found.warnings


@pytest.mark.parametrize("name", list(readers()))
def test_a_bomb_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that expands without end is left, said in a sentence, and nothing else is lost."""
    monkeypatch.setattr(_files.Inflated.__init__, "__kwdefaults__", {"max_bytes": 1 << 20})
    file, body = sample(name)
    (tmp_path / f"{file}.gz").write_bytes(gzip.compress(body + b" " * (4 << 20)))
    found = gather([tmp_path], tmp_path / "scratch")
    refused = [warning for warning in found.warnings if "more than 1 MiB" in warning or "damaged" in warning]
    assert name in STOPS_EARLY or (refused and all(f"{file}.gz" in warning for warning in refused))


@pytest.mark.parametrize("name", list(readers()))
def test_a_link_out_of_the_folder_is_not_followed(name: str, tmp_path: Path) -> None:
    file, body = sample(name)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / file).write_bytes(body)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / file).symlink_to(tmp_path / "outside" / file)
    found = gather([tmp_path / "job"], tmp_path / "scratch")
    assert not found.readings and any("leads out" in warning for warning in found.warnings)


@pytest.mark.parametrize("name", list(readers()))
def test_a_compressed_file_cut_short_is_said(name: str, tmp_path: Path) -> None:
    file, body = sample(name)
    packed = gzip.compress(body)
    (tmp_path / f"{file}.gz").write_bytes(packed[: int(len(packed) * 0.8)])
    found = gather([tmp_path], tmp_path / "scratch")
    assert found.warnings and all(f"{file}.gz" in warning for warning in found.warnings)
