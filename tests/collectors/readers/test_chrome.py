"""The stream of a trace's events: text that tools write though it is not JSON."""

from __future__ import annotations

import pytest

from argus.collectors.readers._chrome import TraceStream


class Drops:
    """A source of bytes that come few at a time."""

    cut = ""

    def __init__(self, text: str, size: int) -> None:
        self._parts = [text.encode()[at : at + size] for at in range(0, len(text), size)]

    def read(self, size: int = 0) -> bytes:
        return self._parts.pop(0) if self._parts else b""


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_numbers_of_cpp_and_paths_of_windows_cost_no_event(size: int) -> None:
    args = r'"a": inf, "b":-nan, "c": [nan, -inf], "d": -nan(ind), "e": "C:\\new", "f": "it is: inf"'
    events = [
        rf'{{"ph": "X", "name": "torch\cuda\x{i}\unit.py", "ts": {i}, "args": {{{args}}}}}' for i in range(9)
    ]
    source = Drops('{"traceEvents": [' + ",\n".join(events) + "]}", size)
    stream = TraceStream(source)
    found = list(stream.events())
    assert [event["ts"] for event in found] == list(range(9)) and not stream.damage
    assert found[3]["name"] == "torch/cuda/x3/unit.py"
    assert found[3]["args"]["e"] == "C:\\new" and found[3]["args"]["f"] == "it is: inf"


@pytest.mark.parametrize("bad", ['{"ts": infer}', '{"ts": 1 "inf"}', '{"ts": "\\', '{"ts": nan'])
def test_what_stays_malformed_is_told(bad: str) -> None:
    stream = TraceStream(Drops('{"traceEvents": [{"ts": 1}, ' + bad, 5))
    assert [event["ts"] for event in stream.events()] == [1] and stream.damage


QUOTED = r"""{"ph": "X", "cat": "python_function", "name": "lib = Library("_inductor", "IMPL")
(1): <module>", "ts": 5, "args": {"Input Dims": [[1], []], "Ev Idx": 7}}"""
"""As torch 2.0 writes the line of a module (pytorch#113001)."""


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_an_event_that_is_no_json_costs_no_other(size: int) -> None:
    events = ['{"name": "process_name", "ph": "M", "args": {"name": "python"}}', QUOTED, QUOTED]
    events += [f'{{"ph": "X", "ts": {at}, "args": {{"of": [{{"a": 1}}, {{"b": 2}}]}}}}' for at in (1, 2)]
    events = [*events, QUOTED, '{"ph": "X", "ts": N/A}', '{"ph": "X", "ts": 3}']
    source = Drops('{"traceEvents": [\n' + ",\n ".join(events) + '\n], "traceName": "t"}', size)
    stream = TraceStream(source)
    assert [str(event["ts"]) for event in stream.events() if event["ph"] == "X"] == ["1", "2", "nan", "3"]
    assert stream.num_malformed == 3 and not stream.damage and stream.meta == {"traceName": "t"}


def test_a_malformed_event_does_not_ask_for_the_rest_of_the_file() -> None:
    """Each of a million such events would keep 64 MiB of text in memory and go through it."""
    source = Drops('{"traceEvents": [' + QUOTED + ', {"ph": "X"},' + " " * 5_000_000, 1 << 16)
    stream = TraceStream(source)
    next(stream.events())
    assert stream.num_malformed == 1 and len(source._parts) > 50


def test_of_many_malformed_events_little_is_kept_behind() -> None:
    """The decoder counts the lines of all that lies behind, for each: of a megabyte it took a fifth of a millisecond."""
    stream = TraceStream(
        Drops('{"traceEvents": [' + QUOTED + (", " + QUOTED) * 999 + ', {"ph": "X"}]}', 1 << 20)
    )
    behind = [stream._at for event in stream.events() if event["ph"] == "X"]
    assert stream.num_malformed == 1000 and not stream.damage and len(behind) == 1 and behind[0] < 1 << 16


@pytest.mark.parametrize("text", ['{"traceEvents": [{"ts": 1}]}', '[{"ts": 1}]'])
def test_a_second_trace_behind_the_first_is_told(text: str) -> None:
    stream = TraceStream(Drops(text + "\n" + text, 5))
    assert [event["ts"] for event in stream.events()] == [1] and "more follows" in stream.damage
    stream = TraceStream(Drops(text + "\n\0\0", 5))
    assert list(stream.events()) and not stream.damage
