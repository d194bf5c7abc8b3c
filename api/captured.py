"""What hosts sent for a capture, read back and put on one timeline."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from argus.collectors.records.events import RankRecords

MAX_RAW = 1 << 30
"""Bytes of one rank's recording after decompression."""


class Unreadable(ValueError):
    """A rank's recording that cannot be used; the message says why."""


def records_in(body: bytes) -> list[RankRecords]:
    """The records of one rank's recording, zstd. Raises Unreadable."""
    import zstandard

    from argus.collectors.readers import ReaderError
    from argus.collectors.readers.recording import read

    with tempfile.TemporaryDirectory(prefix="argus-capture-") as folder:
        path = Path(folder) / "rank.argus"
        try:
            if zstandard.frame_content_size(body) > MAX_RAW:
                raise Unreadable(f"it expands beyond {MAX_RAW >> 20} MiB")
            path.write_bytes(zstandard.ZstdDecompressor().decompress(body, max_output_size=MAX_RAW))
            return [reading.records for reading in read(path)]
        except (zstandard.ZstdError, ReaderError) as error:
            raise Unreadable(str(error)) from None


def trace_of(
    capture: Mapping[str, Any], ranks: Sequence[RankRecords], *, stacks: Iterable[Mapping[str, Any]]
) -> bytes:
    """The Perfetto file of a capture."""
    from argus.api.timeline import timeline

    metadata = {"argus-run": capture["run"], "argus-capture": capture["id"]}
    return timeline(ranks, stacks=[one for one in stacks if _is_within(one, ranks)], metadata=metadata)


def trace_name(capture: Mapping[str, Any]) -> str:
    """The file's name."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in capture["run"])
    return f"argus-{safe}-{capture['first_step']}-{capture['end_step']}.pftrace"


def _is_within(dump: Mapping[str, Any], ranks: Sequence[RankRecords]) -> bool:
    """Whether a dump was taken while the steps ran."""
    seen = [records.steps for records in ranks if len(records.steps)]
    first_s = min((int(steps["start_ns"].min()) for steps in seen), default=0) * 1e-9
    last_s = max((int(steps["end_ns"].max()) for steps in seen), default=0) * 1e-9
    return first_s <= float(dump["ts_s"]) <= last_s
