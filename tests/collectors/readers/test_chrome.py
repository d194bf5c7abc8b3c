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
