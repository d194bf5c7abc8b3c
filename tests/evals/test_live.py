"""Live faults: each file obeys the folder's laws, verdicts cannot be bought, figures are told as they are."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import pytest

from argus.analytics.classes import cause_classes
from argus.api.cli import main
from argus.api.cli.errors import CliError
from argus.evals.live import book, command
from argus.evals.live.faults import faults
from argus.evals.live.machine import TOOLS, WHY, Machine
from argus.evals.live.page import BEGIN, END, has_place, render, write
from argus.evals.live.relay import Line
from argus.evals.live.trial import RANKS, Outcome, Plan, run_trial
from argus.evals.live.truth import Truth, link_of, one_rank
from argus.evals.stack import TRAIN, StackError
from argus.evals.workloads import PARALLELS

ABLE = Machine(has=frozenset({*WHY, *TOOLS}))
UNABLE = Machine(has=frozenset())


def incident(fault_class: str, ranks: tuple[int, ...], **other: Any) -> dict[str, Any]:
    return {"class": fault_class, "suspects": list(ranks), "verdict": "LIKELY", "scope": "", **other}


def right_answers(truth: Truth) -> list[dict[str, Any]]:
    """Every incident that the truth allows."""
    scopes = truth.scopes or ("anywhere",)
    return [
        incident(name, ranks, scope=scope)
        for name in truth.classes
        for ranks in truth.suspects
        for scope in scopes
    ]


@pytest.mark.parametrize("name", list(faults()))
def test_a_fault_obeys_the_laws_of_its_folder(name: str) -> None:
    fault = faults()[name]
    assert len((fault.__doc__ or "").split("\n")[0]) > 20
    assert fault.WORKLOADS and set(fault.WORKLOADS) <= set(PARALLELS)
    assert fault.can(ABLE) is None
    if fault.SETTING.has_network:
        assert fault.can(UNABLE)
    for rank in range(RANKS):
        truth = fault.truth(rank=rank, ranks=RANKS)
        assert set(truth.classes) <= set(cause_classes())
        assert all(truth.is_told_by([answer]) for answer in right_answers(truth))
        for other in set(range(RANKS)) - {rank}:
            assert not truth.names(incident(truth.classes[0], (other,), scope=f"stage:{other}"))
        words = Plan(fault=name, workload=fault.WORKLOADS[0], rank=rank).script
        assert words[0] == str(TRAIN) and not any("{" in word for word in words)


def test_only_the_truth_and_nothing_else_is_right() -> None:
    truth = one_rank(2, "host.cpu_starved", "host.gc")
    right = incident("host.cpu_starved", (2,))
    assert truth.is_told_by([right]) and truth.is_told_by([right, incident("host.gc", (2,))])
    assert not truth.is_told_by([])
    assert not truth.is_told_by([incident("host.cpu_starved", (2,), verdict="INCONCLUSIVE")])
    assert not truth.is_told_by([incident("host.cpu_starved", (1,))])
    assert not truth.is_told_by([incident("host.cpu_starved", (1, 2))])
    assert not truth.is_told_by([incident("link.slow", (2,))])
    assert not truth.is_told_by([right, incident("unknown", (0,))])


def test_a_link_is_named_by_its_pair_or_by_all_that_wait_for_it() -> None:
    truth = link_of(2, 4)
    assert truth.names(incident("link.slow", (1, 2))) and truth.names(incident("link.slow", (0, 1, 2, 3)))
    assert not truth.names(incident("link.slow", (0, 1))) and not truth.names(incident("link.slow", (2,)))


def test_what_a_machine_cannot_do_is_skipped_with_its_reason() -> None:
    fewer = {need: Machine(has=ABLE.has - {need}) for need in ABLE.has}
    assert faults()["link_rate"].can(fewer["tbf"]) == WHY["tbf"]
    assert faults()["link_loss"].can(fewer["ip"]) == "needs the command ip"
    assert faults()["cpu_quota"].can(fewer["root"]) == "needs root"
    args = parsed("--fault", "link_rate", "--fault", "uneven_stage", "--workload", "ddp")
    plans, skipped = command.chosen(args, fewer["tbf"])
    assert not plans and [item.why for item in skipped] == [WHY["tbf"], "makes no sense in ddp"]


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


def test_how_much_is_played() -> None:
    smoke, _ = command.chosen(parsed("--smoke"), ABLE)
    assert tuple(plan.fault for plan in smoke) == command.SMOKE
    full, _ = command.chosen(parsed("--full"), ABLE)
    jobs = {(plan.fault, plan.workload) for plan in full}
    assert len(full) == command.FULL_REPEATS * len(jobs)
    assert jobs == {(name, workload) for name, fault in faults().items() for workload in fault.WORKLOADS}
    one, _ = command.chosen(parsed("--fault", "pause", "--rank", "3", "--repeats", "2"), ABLE)
    assert [plan.rank for plan in one] == [3, 3]


@pytest.mark.parametrize("words", [("--rank", "4"), ("--repeats", "-1"), ("--keep", "x" * 200)])
def test_wrong_usage_is_one_sentence(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "live", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def played(
    fault: str, *, ok: bool = True, got: str = "link.slow on [1, 2] (LIKELY)", workload: str = "pp"
) -> Outcome:
    return Outcome(fault=fault, workload=workload, rank=2, wanted=("link.slow",), got=got, ok=ok, windows=2)


@pytest.mark.parametrize(("ok", "code"), [((True, True), 0), ((True, False), 1), ((), 2)])
def test_the_exit_code_is_of_what_ran(
    ok: tuple[bool, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = iter(ok)
    monkeypatch.setattr(command, "look", lambda: ABLE if ok else UNABLE)
    monkeypatch.setattr(command, "_clean_quietly", lambda: None)
    monkeypatch.setattr(command, "_one", lambda plan, *_, **__: played(plan.fault, ok=next(results)))
    words = ["--fault", "link_rate", *(("--repeats", str(len(ok))) if ok else ())]
    assert main(["eval", "live", "--json", *words]) == code
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is (code == 0) and len(report["trials"]) == len(ok)
    assert bool(report["skipped"]) is (code == 2)


def test_a_run_in_parts_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results, kept = iter((True, False, True)), tmp_path / "live.jsonl"
    monkeypatch.setattr(command, "look", lambda: ABLE)
    monkeypatch.setattr(command, "_clean_quietly", lambda: None)
    monkeypatch.setattr(
        command, "_one", lambda plan, *_, **__: played(plan.fault, ok=next(results), workload=plan.workload)
    )

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        code = main(["eval", "live", "--json", "--book", str(kept), *words])
        return code, json.loads(capsys.readouterr().out)

    assert run("--fault", "pause")[0] == run("--fault", "pause")[0] == 0  # the second time nothing is played
    code, report = run("--fault", "pause", "--fault", "hang", "--repeats", "1")
    assert code == 1 and [row["fault"] for row in report["trials"]] == ["hang", "pause"]
    kept.write_text(kept.read_text() + '{"fault": "pau')  # a stop in the middle of a line
    code, report = run("--fault", "pause", "--repeats", "2")
    assert code == 1 and [row["ok"] for row in report["trials"]] == [False, True, True]
    assert len(book.read(kept)) == 3


@pytest.mark.parametrize("text", ["no json\n", '{"fault": "pause"}\n', "[]\n", "cut"])
def test_what_is_no_book_is_refused_and_left_as_it_is(text: str, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text(text)
    with pytest.raises(CliError):
        book.read(other)
    assert other.read_text() == text


def test_a_book_that_cannot_be_written_is_refused_before_a_trial_is_played(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="cannot be written"):
        book.read(tmp_path / "missing" / "live.jsonl")
    with pytest.raises(CliError, match="cannot be written"):
        book.read(tmp_path)
    assert book.read(tmp_path / "new.jsonl") == []


def test_a_stack_that_fails_is_an_outcome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StackError("the service did not start:\nno space left")

    monkeypatch.setattr("argus.evals.live.trial.staged", fails)
    plan = Plan(fault="pause", workload="ddp", rank=1)
    outcome = run_trial(plan, directory=tmp_path, machine=UNABLE, say=lambda _: None, records=False)
    assert not outcome.ok and outcome.got == "the service did not start:" and "no space" in outcome.error


def test_the_page_shows_what_failed(tmp_path: Path) -> None:
    trials = [played("link_rate").to_json(), played("link_rate", ok=False, got="nothing").to_json()]
    skipped = [{"fault": "link_delay", "workload": "ddp", "why": "needs root"}]
    report = {"trials": trials, "skipped": skipped, "wall_s": 3.0}
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(report, page)
    text = page.read_text()
    assert "| link_rate | pp | **1 of 2** | 2 2 | nothing |" in text and "needs root" in text
    assert "old" not in text and text.startswith("before\n") and text.endswith("after\n")
    assert render(report).startswith("WRONG link_rate on rank 2 of pp: expected link.slow, got nothing")
    page.write_text("no marks")
    assert not has_place(page) and not has_place(tmp_path / "none.md")
    assert main(["eval", "live", "--write", str(page)]) == 2


def test_the_relay_delays_in_order_and_drops_as_told() -> None:
    line = Line(delay_s=0.5)
    line.take(b"a", to=1, now_s=10.0)
    line.take(b"b", to=2, now_s=10.0)
    assert line.due(10.4) == [] and line.wait_s(10.49) == pytest.approx(0.01)
    assert line.due(10.5) == [(1, b"a"), (2, b"b")]
    lossy = Line(drop=0.25, rng=random.Random(1))
    for _ in range(1000):
        lossy.take(b"x", to=1, now_s=0.0)
    assert 700 < len(lossy.due(0.0)) < 800
