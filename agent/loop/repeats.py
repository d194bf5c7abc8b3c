"""Noticing that a model goes in circles, whatever has been cut from its view since."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WINDOW = 8
"""Calls looked back upon: an alternation of two or three shows in it, a long honest search is not in it twice."""

MAX_ALIKE = 6
"""Calls in the window that differ in numbers only: ranks looked at one by one, or a limit raised by one each time."""

MAX_STALE = 3
"""Calls that bring nothing new before the model is asked for its answer."""

_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(kw_only=True)
class Repeats:
    """Every call and every narration so far."""

    answers: dict[str, str] = field(default_factory=dict)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=WINDOW))
    seen_ids: set[str] = field(default_factory=set)
    said: dict[str, int] = field(default_factory=dict)
    num_stale: int = 0

    def known(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Evidence id of the same call made before, "" if it is new."""
        return self.answers.get(_key(name, arguments), "")

    def add(self, name: str, arguments: Mapping[str, Any], *, evidence_id: str) -> None:
        """Remember a call and what it brought."""
        key = _key(name, arguments)
        self.recent.append(_NUMBER.sub("0", key))
        if evidence_id in self.seen_ids:
            self.num_stale += 1
        self.seen_ids.add(evidence_id)
        self.answers[key] = evidence_id

    def hear(self, text: str) -> None:
        """Remember what was said beside calls; the same again is a sign."""
        words = " ".join(_NUMBER.sub("0", text.lower()).split())
        if len(words) >= 40:
            self.said[words] = self.said.get(words, 0) + 1
            self.num_stale += self.said[words] > 1

    @property
    def is_circling(self) -> bool:
        """It is time to ask for the answer."""
        alike = max((self.recent.count(shape) for shape in set(self.recent)), default=0)
        return self.num_stale >= MAX_STALE or alike >= MAX_ALIKE


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    given = {key: value for key, value in arguments.items() if value is not None}
    return f"{name} {json.dumps(given, sort_keys=True, default=str)}"
