"""Training logs and command lines: the parallel sizes Megatron, torchtitan or DeepSpeed print."""

from __future__ import annotations

import re

from argus.topology.arguments import parallel_from_text
from argus.topology.collect import decode
from argus.topology.facts import Facts
from argus.topology.identity import Declared

_SIGNS = re.compile(
    rb"tensor[-_]model[-_]parallel[-_]size|pipeline[-_]model[-_]parallel[-_]size"
    rb"|Building \d+-D device mesh|ProcessCoord\("
)


def sniff(head: bytes, name: str) -> bool:
    """True if the text prints or sets a framework's parallel sizes."""
    return bool(_SIGNS.search(head))


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """The layout those sizes make."""
    parallel = parallel_from_text(decode(raw, origin=origin), origin=origin)
    declared = Declared(parallel=parallel, source="arguments", origin=origin)
    return Facts(loader="framework_log", origin=origin, declared=(declared,))
