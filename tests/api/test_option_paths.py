"""An empty path is refused by the option's name, and a file that is asked for is there whole or not at all."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from argus.api.cli import build_parser, load, main, paths
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate

EMPTY = [
    (["triage", ""], "PATH"),
    (["triage", "x", "--ideal-timeline", ""], "--ideal-timeline"),
    (["report", ""], "PATH"),
    (["report", "x", "--html", ""], "--html"),
    (["replay", ""], "PATH"),
    (["diff", "", "x"], "RUN_A"),
    (["ask", "--recording", ""], "--recording"),
    (["chat", "--db", ""], "--db"),
    (["tools", "call", "list_findings", "--recording", ""], "--recording"),
    (["mcp", "--db", ""], "--db"),
    (["topology", "check", ""], "FILE"),
    (["topology", "check", "h0="], "FILE"),
    (["topology", "show", "x", "--against", ""], "--against"),
    (["capture", "--incident", "i", "--to", ""], "--to"),
    (["key", "list", "--db", ""], "--db"),
    (["doctor", "--config", ""], "--config"),
    (["serve", "--db", ""], "--db"),
    (["serve", "--tls-cert", "", "--tls-key", "k"], "--tls-cert"),
    (["processor", "--record", ""], "--record"),
    (["run", "--record", "", "--", "true"], "--record"),
    (["eval", "real", "--data", ""], "--data"),
]


@pytest.mark.parametrize(("words", "named"), EMPTY, ids=lambda value: " ".join(map(repr, value)))
def test_an_empty_path_is_refused_by_its_option(
    words: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # what it was taken for
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert f"argument {named}: must not be empty" in capsys.readouterr().err


@pytest.mark.slow
def test_no_option_takes_a_path_as_it_is() -> None:
    for name in ("triage", "report", "replay", "doctor", "processor", "serve", "dev", "ask"):
        todo = [build_parser(name, load(name))]
        while todo:
            parser = todo.pop()
            for action in parser._actions:
                assert action.type is not Path, (parser.prog, action.dest)
                if isinstance(action, argparse._SubParsersAction):
                    todo += action.choices.values()


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "a.json", tmp_path / "link.json"
    paths.write_whole(file, "old")
    file.chmod(0o640)
    link.symlink_to(file)

    def full(self: Path, raw: bytes) -> int:
        with self.open("wb") as half:
            half.write(raw[:1])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        for to in (file, tmp_path / "new.json"):
            with pytest.raises(OSError, match="No space"):
                paths.write_whole(to, "new")
    assert file.read_text() == "old" and sorted(tmp_path.iterdir()) == [file, link]
    paths.write_whole(link, "new")
    assert link.is_symlink() and file.read_text() == "new" and file.stat().st_mode & 0o777 == 0o640


def test_what_cannot_be_written_costs_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for records in simulate(Job(run="job", ranks=2, steps=60), (), rng=np.random.default_rng(0)).records:
        (traces / f"rank-{records.layout.rank}.argus").write_bytes(b"".join(rank_frames(records)))
    assert main(["triage", str(traces), "--ideal-timeline", str(tmp_path / "out.json")]) == 1
    told = capsys.readouterr()
    assert "No fault found" in told.out and "micro-batch" in told.err
    assert main(["report", str(traces), "--html", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert "GPU-hours lost" in told.out and "cannot be written: Is a directory" in told.err
