"""A program that closes every descriptor gets its numbers back untouched."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from argus.collectors.rank.descriptor import Descriptor
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.rank.sink import Sink, connect_to
from argus.collectors.records.frames import Kind, encode_json
from argus.collectors.records.layout import Layout

LAYOUT = encode_json(Kind.LAYOUT, Layout(run="r", attempt=0, rank=0, world_size=1).to_json())


def test_a_descriptor_is_ours_until_it_is_closed_or_another_file(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    with path.open("wb", buffering=0) as file:
        ours = Descriptor(os.open(tmp_path / "ours", os.O_WRONLY | os.O_CREAT))
        assert ours.is_ours
        os.close(ours.fd)
        assert not ours.is_ours
        ours.close()  # nothing to close, and nothing raised
        os.dup2(file.fileno(), ours.fd)
    assert not ours.is_ours
    ours.close()
    assert os.write(ours.fd, b"theirs") and path.read_bytes() == b"theirs"
    os.close(ours.fd)


def test_a_socket_of_the_programs_under_the_number_of_ours_is_left_alone(tmp_path: Path) -> None:
    receiver, now_s = FakeReceiver(tmp_path / "s" / "p.sock").start(), [0.0]
    sink = Sink(connect=lambda: connect_to(receiver.path), prelude=lambda: LAYOUT, now_s=lambda: now_s[0])
    sink.pump()
    sink.pump()
    assert sink._sock is not None
    number = sink._sock.fileno()
    mine, theirs = socket.socketpair()
    with mine, theirs:
        os.dup2(mine.fileno(), number)  # what closing all and opening a socket of one's own comes to
        with socket.socket(fileno=number) as reused:
            sink.push(encode_json(Kind.BYE, {}))
            for now_s[0] in (0.0, 10.0, 20.0):
                sink.pump()
            assert reused.send(b"mine") == 4 and reused.getblocking()
            assert theirs.recv(100) == b"mine"
    sink.close()
    receiver.drain()
    receiver.stop()
    assert receiver.heard[-1].said_bye and sink.is_empty
