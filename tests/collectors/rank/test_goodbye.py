"""The end of a rank's connection: its goodbye is answered."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from argus.collectors.records.frames import FrameReader, Kind, encode_json
from tests.collectors.rank.test_sink import Rank


def test_what_the_processor_answers_to_a_goodbye_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "p.sock"

    def serve() -> None:
        connection, _ = server.accept()
        reader, is_over = FrameReader(), False
        with connection:
            while not is_over:
                is_over = any(frame.kind is Kind.BYE for frame in reader.feed(connection.recv(4096)))
            connection.sendall(encode_json(Kind.CONTROL, {"warning": "the recording cannot be written"}))

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        rank = Rank(path)
        rank.tick()
        rank.close()
        thread.join()
    assert [record.message for record in caplog.records] == ["argus: the recording cannot be written"]
