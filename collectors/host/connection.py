"""One rank's socket as the processor holds it."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from argus.collectors.host.check import Checker
from argus.collectors.host.listener import Peer
from argus.collectors.host.ranks import Member
from argus.collectors.records.frames import FrameReader, Kind, encode_json


@dataclass(kw_only=True)
class Connection:
    """One accepted socket; a rank once its layout is in."""

    sock: socket.socket
    peer: Peer
    opened_s: float
    reader: FrameReader = field(default_factory=FrameReader)
    checker: Checker | None = None
    member: Member | None = None

    def say(self, body: dict[str, object]) -> bool:
        """Tell the rank, never waiting for it; False if its socket takes nothing."""
        try:
            self.sock.send(encode_json(Kind.CONTROL, body))
        except OSError:
            return False
        return True
