"""In an elastic launcher's own process: the round of its rendezvous, which is the attempt on all its nodes."""

from __future__ import annotations

import os
from functools import wraps
from typing import Any

from argus.collectors.rank.identity import ROUND


def tell_rounds() -> None:
    """From now on the workers that this launcher starts find in `ARGUS_ROUND` which rendezvous they come from.

    Each agent counts its own workers' failures alone in `TORCHELASTIC_RESTART_COUNT`: after one node's workers
    failed, the others' restarted ones have another number. The round is kept in the store that all agents share.
    Nothing is asked of it: it is what the handler holds after it has joined.
    """
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler

    original = DynamicRendezvousHandler.next_rendezvous

    @wraps(original)
    def next_rendezvous(self: Any) -> Any:
        os.environ.pop(ROUND, None)  # of a launcher that this one was started by
        joined = original(self)
        number = getattr(getattr(getattr(self, "_state_holder", None), "state", None), "round", None)
        if isinstance(number, int):
            os.environ[ROUND] = str(number)
        return joined

    DynamicRendezvousHandler.next_rendezvous = next_rendezvous  # type: ignore[method-assign]
