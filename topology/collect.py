"""What every loader needs while it reads: edges with provenance, warnings with place."""

from __future__ import annotations

import re

from argus.topology.facts import Edge, Facts, LoaderError, sentence

MAX_WARNINGS = 50
"""Warnings kept of one file; the rest are counted."""

MAX_EDGES = 2_000_000
"""Edges taken of one file: more is not a topology but an attack or a mistake."""

_BUS_ID = re.compile(r"^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])$")


class Collector:
    """Gathers what one file says. `host` names the machine the file is of, where it does not say."""

    def __init__(self, loader: str, *, origin: str, host: str = "") -> None:
        self.loader = loader
        self.origin = origin
        self.host = host
        self._edges: list[Edge] = []
        self._attributes: dict[str, dict[str, str]] = {}
        self._warnings: list[str] = []
        self._more = 0

    def edge(self, source: str, target: str, *, kind: str, line: int = 0, gbps: float | None = None) -> None:
        """Add one relation. LoaderError past the cap."""
        if len(self._edges) >= MAX_EDGES:
            raise LoaderError(f"names more than {MAX_EDGES} relations", origin=self.origin, line=line)
        place = f"{self.loader} {self.origin}:{line}" if line else f"{self.loader} {self.origin}"
        self._edges.append(
            Edge(source=source, target=target, kind=kind, provenance=place, capacity_gbps=gbps)
        )

    def note(self, element: str, **attributes: str) -> None:
        """Attributes of an element; naming an element without any makes it known."""
        self._attributes.setdefault(element, {}).update({k: v for k, v in attributes.items() if v})

    def warn(self, reason: str, *, line: int = 0, field: str = "") -> None:
        """What of the file is not used, and why."""
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings.append(sentence(reason, origin=self.origin, line=line, field=field))
        else:
            self._more += 1

    @property
    def is_empty(self) -> bool:
        """True as long as nothing usable was found."""
        return not self._edges and not self._attributes

    def fail(self, reason: str, *, line: int = 0, field: str = "") -> LoaderError:
        """The error for a file of which nothing can be used; the first warning says more."""
        more = f"; {self._warnings[0]}" if self._warnings else ""
        return LoaderError(reason + more, origin=self.origin, line=line, field=field)

    def facts(self, *, ranks_on: dict[int, str] | None = None) -> Facts:
        """All that was gathered."""
        warnings = [*self._warnings]
        if self._more:
            warnings.append(sentence(f"{self._more} more warnings are not shown", origin=self.origin))
        return Facts(
            loader=self.loader,
            origin=self.origin,
            edges=tuple(self._edges),
            attributes=self._attributes,
            ranks_on=ranks_on or {},
            warnings=tuple(warnings),
        )


def decode(raw: bytes, *, origin: str) -> str:
    """The file as text. LoaderError if it is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LoaderError(f"is not UTF-8 text (byte {error.start})", origin=origin) from None


def bus_id(text: str) -> str:
    """A PCI address in the one form used in ids, "" if it is none.

    >>> bus_id("00000000:BF:00.0")
    '0000:bf:00.0'
    """
    match = _BUS_ID.match(text.strip().lower())
    if not match:
        return ""
    domain, *rest = match.groups()
    return f"{(domain or '0000')[-4:]}:{rest[0]}:{rest[1]}.{rest[2]}"


def gpu_id(host: str, device: str) -> str:
    """Id of a GPU: by UUID where there is one, else by host and PCI address or index.

    >>> gpu_id("h1", "GPU-4f"), gpu_id("h1", "0000:C2:00.0"), gpu_id("h1", "3")
    ('gpu:GPU-4f', 'gpu:h1/0000:c2:00.0', 'gpu:h1/3')
    """
    if device.startswith(("GPU-", "MIG-")):
        return f"gpu:{device}"
    return f"gpu:{host}/{bus_id(device) or device}"
