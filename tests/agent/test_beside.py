"""What an answer in words says of ranks, however they are written, beside what the triage suspects."""

from __future__ import annotations

import pytest

from argus.agent.beside import NO_EVIDENCE, ranks_said
from argus.agent.grounding_text import UNKNOWN
from argus.agent.loop.chat import Answered, chat_turn
from argus.agent.loop.drive import Surroundings, drive
from argus.agent.registry import registry
from argus.agent.stub_llm.seen import saying
from tests.agent.talks import Ticks, case_for, desk_for


def answer_of(said: str, scenario: str = "slow_rank") -> Answered:
    case, context = case_for(scenario)
    around = Surroundings(registry=registry(), context=context, clock=Ticks())
    course = chat_turn(case, desk_for(case, context), question="Which rank is slow?")
    return drive(course, lambda ask: saying(said), around)


@pytest.mark.parametrize(
    "said",
    [
        *("Rank **5** is it.", "Ranks `5` and **6**.", "Rank number 5 is it.", "Rank-5 is it."),
        *("Rank\xa05 is it.", "Rank 5 on h-0000 is it.", "rank=5 is it."),
        "Ranks 5 & 6 are it.",
    ],
)
def test_a_rank_is_no_suspect_however_it_is_written(said: str) -> None:
    answer = answer_of(said)
    assert "the triage suspects rank 3." in answer.doubt
    assert not answer.unknown and not answer.num_unverified, answer.text


def test_a_suspect_in_bold_and_measures_of_ranks_are_no_others() -> None:
    assert answer_of("Rank **3** on h-0000, rank `3`.").doubt == NO_EVIDENCE
    assert ranks_said("The slow rank is **5**.") == ranks_said("It is rank no. 5.") == {5}
    assert ranks_said("The slow rank is 5 % slower, its rank is 2 steps late; all ranks (32) wait.") == set()


def test_a_rank_that_is_not_there_is_marked_in_bold_and_in_a_list() -> None:
    for said in ("Rank **4000** is slow.", "Ranks 3 and 4000 are slow."):
        answer = answer_of(said)
        assert answer.unknown == ("rank 4000",) and answer.text.count(UNKNOWN) == 1, answer.text


def test_a_rank_that_a_healthy_job_is_said_to_suffer_from_is_told() -> None:
    answer = answer_of("Rank 5 is slow.", "healthy")
    assert answer.doubt.endswith("It names rank 5; the triage suspects no rank.")


@pytest.mark.parametrize(
    "dash", ["-", "–", " – ", "—", "\u2010", "\u2011", "\u2012", "\u2212", "…", " to ", " through "]
)
def test_a_range_is_read_over_every_dash(dash: str) -> None:
    said = f"Ranks 4{dash}6 are slow."
    assert ranks_said(said) == {4, 5, 6}
    answer = answer_of(said)
    assert answer.doubt.endswith("It names ranks 4–6; the triage suspects rank 3.")
    assert not answer.num_unverified, answer.text
    assert answer_of(f"Ranks 2{dash}6 are slow.").doubt == NO_EVIDENCE


@pytest.mark.parametrize("said", ["Rank 7 — 25 % slower.", "Rank 7 - 12 ms late.", "Rank 7… 9 wait."])
def test_a_dash_before_a_measure_begins_no_range(said: str) -> None:
    assert ranks_said(said) == {7}


def test_a_long_range_names_all_that_is_in_it() -> None:
    """A suspect in the middle of it is named, however long it is; the same range again costs nothing more."""
    assert answer_of("Ranks 0–127 slow down together.").doubt == NO_EVIDENCE
    assert ranks_said("ranks 8-5000 and ranks 0–9") == set(range(5001))
    assert ranks_said("ranks 8-5000 " * 1000) == set(range(8, 5001))
    assert ranks_said("ranks 0-999999999") == {0, 999999999}


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("GPU 7 is slow.", "GPU 7"),
        ("GPU #7 is slow.", "GPU 7"),
        ("The seventh rank is slow.", "the seventh rank"),
        ("The 7th rank is slow.", "the 7th rank"),
        ("Rank 1 waits for GPU 7.", "rank 1 and GPU 7"),
        ("Rank (5) is it.", "rank 5"),
        ('Rank "5" is it.', "rank 5"),
        ("Ranks [5, 6] are it.", "ranks 5, 6"),
        ("Ranks from 5 to 7 are it.", "ranks 5–7"),
    ],
)
def test_a_name_that_can_mean_no_suspect_in_any_way_is_told(said: str, named: str) -> None:
    assert answer_of(said).doubt.endswith(f"It names {named}; the triage suspects rank 3.")


@pytest.mark.parametrize(
    "said",
    [
        *("GPU 3 is slow.", "GPU 4 is slow.", "The third rank is slow.", "The fourth rank is slow."),
        *(
            "A GPU 80 GB large.",
            "One GPU 2 times slower.",
            "The fifth rank to enter waits.",
            "Worker 5 waits.",
        ),
        *("The low-rank (16) adapter.", "Every tenth rank waits.", "GPU 9.5 is no name."),
    ],
)
def test_what_may_mean_the_suspect_or_nobody_is_left_alone(said: str) -> None:
    assert answer_of(said).doubt == NO_EVIDENCE
