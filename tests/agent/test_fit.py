"""What an answer is cut to, and that the cut is said."""

from __future__ import annotations

import json

import pytest

from argus.agent.evidence import Answer, Cut, Json
from argus.agent.fit import MAX_RESULT_BYTES, fitted


def size(data: Json) -> int:
    return len(json.dumps(data, separators=(",", ":")))


def test_what_fits_stays_as_it_is() -> None:
    answer = Answer(
        data={"rows": [{"x": 1.5}], "name": "a"}, note="n", cut=(Cut(path="/rows", shown=1, total=3),)
    )
    assert fitted(answer) == answer


def test_the_longest_list_is_cut_from_its_end_and_the_whole_length_said() -> None:
    answer = Answer(data={"rows": list(range(5000)), "short": [1, 2]})
    cut = fitted(answer)
    assert size(cut.data) <= MAX_RESULT_BYTES and cut.data["short"] == [1, 2]
    (one,) = cut.cut
    assert (one.path, one.total) == ("/rows", 5000) and one.shown == len(cut.data["rows"])
    assert cut.data["rows"] == list(range(one.shown))
    assert answer.data["rows"] == list(range(5000))


def test_a_list_cut_by_its_tool_keeps_its_first_length() -> None:
    answer = Answer(data={"a/b": ["x" * 100] * 100}, cut=(Cut(path="/a~1b", shown=100, total=900),))
    (one,) = fitted(answer).cut
    assert (one.path, one.total) == ("/a~1b", 900) and one.shown < 100


def test_texts_are_printable_and_short() -> None:
    cut = fitted(Answer(data={"k\x00": ["\x1b[2J" + "y" * 5000]}, note="\r\n", close=("\x07",) * 99))
    texts = [*cut.data, *next(iter(cut.data.values())), cut.note, *cut.close]
    assert all(text.isprintable() and len(text) <= 600 for text in texts) and len(cut.close) == 12


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, {f"k{i}": "x" * 500 for i in range(50)}])
def test_what_cannot_be_shown_is_an_error_of_the_tool(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        fitted(Answer(data={"x": value}))
