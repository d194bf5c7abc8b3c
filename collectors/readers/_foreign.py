"""What a file is that no reader takes, and what to give instead, of those that users of other tools come with."""

from __future__ import annotations

import re

_TABLE = "give the step times as a table, step,step_time in CSV"

UTF_16 = (b"\xff\xfe", b"\xfe\xff")

_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "is compressed twice: unpack it once"),
    (b"BZh", "is compressed with bzip2: unpack it first"),
    (b"\xfd7zXZ\0", "is compressed with xz: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "is an archive of 7-Zip: unpack it first"),
    (b"version https://git-lfs", "is a pointer of Git LFS, not the file itself: git lfs pull fetches it"),
    (b":W&B", "is W&B's own log: export the history of the run as CSV and give that"),
    *((mark, "is text in UTF-16: turn it into UTF-8 first, iconv -f UTF-16 -t UTF-8") for mark in UTF_16),
)
"""First bytes of a file, unpacked if it was compressed, and the rest of the sentence."""

_TEXTS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (
        re.compile(rb"\A\d{12,14} [-+.\dA-Za-z]+ \d+\r?\n"),
        (
            "is a metric file of MLflow: for a metric of seconds a step, "
            """awk 'BEGIN {print "step,step_time"} {print $3 "," $2}' FILE > step_time.csv, and give that"""
        ),
    ),
    (
        re.compile(rb"^Job summary\r?\n=+\r?$.*^Communicators\.\.\.", re.MULTILINE | re.DOTALL),
        (
            "is a report of NCCL's RAS, which is not read: "
            "give the flight-recorder dumps or the watchdog's lines of all ranks"
        ),
    ),
    (
        re.compile(rb"\AProcess \d+: .*\r?\nPython v"),
        "is a single dump of py-spy: give a profile, py-spy record -f raw -o rank3.txt --pid PID",
    ),
    (
        re.compile(rb'\A\{"log": ?"[^\n]*"stream": ?"std(?:out|err)"'),
        "is a log that Docker wrapped in JSON: jq -rj .log FILE > train.log, and give that",
    ),
    (re.compile(rb"^:::MLLOG ", re.MULTILINE), f"is a log of MLPerf, which is not read: {_TABLE}"),
    (
        re.compile(rb'\A\s*\{.*"log_history":\s*\[', re.DOTALL),
        f"is a state of Hugging Face's Trainer, which holds no times: {_TABLE}",
    ),
)


def advice(head: bytes, name: str) -> str:
    """What a file with this beginning is and what to do, as the rest of a sentence; "" if that is not known.

    >>> advice(b"BZh91AY", "rank0.json.bz2")
    'is compressed with bzip2: unpack it first'
    """
    if ".tfevents." in name:
        return (
            "is an event file of TensorBoard: export the scalar of the step time as CSV "
            "(in TensorBoard: Show data download links) and give that"
        )
    known = next((said for mark, said in _BEGINNINGS if head.startswith(mark)), "")
    return known or next((said for text, said in _TEXTS if text.search(head)), "")
