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
