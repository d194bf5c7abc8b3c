"""Which project hears what was said in Slack: one app has one line, however many projects post through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from argus.api.slack.ears import Ears

Payload = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Switchboard:
    """The ears of every project, the default one's first: it is asked where nobody knows what it is about."""

    ears: list[Ears] = field(default_factory=list)

    def hear_action(self, payload: Payload) -> None:
        """To the project whose incident the button is of."""
        for one in self._of(lambda ears: ears.knows_action(payload), else_first=False):
            one.hear_action(payload)

    def hear_event(self, payload: Payload) -> None:
        """To the project whose thread it was said in."""
        for one in self._of(lambda ears: ears.knows_event(payload), else_first=True):
            one.hear_event(payload)

    def _of(self, knows: Callable[[Ears], bool], *, else_first: bool) -> list[Ears]:
        found = next((one for one in self.ears if knows(one)), None)
        if found is None and else_first:
            found = next(iter(self.ears), None)
        return [] if found is None else [found]
