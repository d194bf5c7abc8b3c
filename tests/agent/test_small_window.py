"""A model with a small window: what it asks for at once fits, and what was cut from its view it may look at again."""

from __future__ import annotations

from collections.abc import Sequence

from argus.agent.loop.fitting import fit
from argus.agent.model.message import Ask, Message, ModelError, Reply, ToolCall
from argus.agent.model.reading import ask_tokens
from argus.agent.stub_llm.scripts import confirm
from argus.agent.stub_llm.seen import calling, saying
from tests.agent.talks import Script, scripted

WINDOW_TOKENS = 8192
THREE = [range(at, at + 24) for at in (0, 8, 16)]


def looks(number: int, places: Sequence[range]) -> Reply:
    """Calls at once, each of which brings some 700 tokens."""
    null: dict[str, object] = dict.fromkeys(("run", "window", "phase"))
    return calling(
        *(
            ToolCall(id=f"c{number}{at}", name="compare_phase", arguments={**null, "ranks": list(ranks)})
            for at, ranks in enumerate(places)
        )
    )


def looking(turns: Sequence[Sequence[range]], seen: list[Ask]) -> Script:
    """Makes the calls of each turn, then ends; refuses what is longer than its window, as servers do."""

    def script(ask: Ask) -> Reply:
        seen.append(ask)
        if ask_tokens(ask) + ask.max_tokens > WINDOW_TOKENS:
            raise ModelError("context", "too long")
        return looks(len(seen), turns[len(seen) - 1]) if len(seen) <= len(turns) else saying("Enough.")

    return script


def shown(ask: Ask) -> list[bool]:
    """Of each result in view, whether it stands there whole."""
    return ["<data" in one.content for one in ask.messages if one.call_id]


def test_results_of_many_calls_at_once_fit() -> None:
    seen: list[Ask] = []
    outcome, _ = scripted(looking([THREE], seen), window_tokens=WINDOW_TOKENS, ranks=64)
    assert outcome.failure != "context" and shown(seen[1]) == [False, False, True]


def test_what_was_cut_can_be_looked_at_again_and_what_was_not_cannot() -> None:
    seen: list[Ask] = []
    turns = [[one] for one in (*THREE, THREE[0], THREE[0])]
    scripted(looking(turns, seen), window_tokens=WINDOW_TOKENS, ranks=64)
    assert shown(seen[3]) == [False, False, True]
    assert shown(seen[4])[-1], "it was cut, so it is shown again"
    assert "this very call" in seen[5].messages[-1].content


def test_the_last_result_stays_whole() -> None:
    calls = tuple(ToolCall(id=f"c{at}", name="stacks") for at in range(3))
    results = [Message(role="tool", call_id=call.id, content="ev-0 " + "x" * 4000) for call in calls]
    question = Message(role="user", content="q", is_kept=True)
    fitted = fit([question, Message(role="assistant", calls=calls), *results], 1500)
    assert [len(one.content) > 1000 for one in fitted if one.call_id] == [False, False, True]
    assert [one.call_id for one in fitted if one.call_id] == [call.id for call in calls]


def test_a_cut_reply_has_no_more_room_than_there_is() -> None:
    """Of a server that refuses what is too long, more room than its window has is no answer at all."""
    seen: list[Ask] = []
    cut = ToolCall(id="a", name="list_findings", error="the arguments are not a JSON object: {")

    def script(ask: Ask) -> Reply:
        seen.append(ask)
        if ask_tokens(ask) + ask.max_tokens > WINDOW_TOKENS:
            raise ModelError("context", "too long")
        return Reply(calls=(cut,), finish="length") if len(seen) == 1 else confirm(ask)

    outcome, _ = scripted(script, window_tokens=WINDOW_TOKENS)
    assert outcome.stance == "agrees" and {ask.max_tokens for ask in seen} == {2048}
