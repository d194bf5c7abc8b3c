"""One rank's socket as the processor holds it."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from argus.collectors.host.check import Checker
from argus.collectors.host.listener import Peer
from argus.collectors.host.ranks import Member
from argus.collectors.records.frames import FrameReader


@dataclass(kw_only=True)
class Connection:
    """One accepted socket; a rank once its layout is in."""

    sock: socket.socket
    peer: Peer
    opened_s: float
    reader: FrameReader = field(default_factory=FrameReader)
    checker: Checker | None = None
    member: Member | None = None
