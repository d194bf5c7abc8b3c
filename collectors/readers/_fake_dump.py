"""Make small flight-recorder dumps, for tests: a job of tensor and data groups whose calls do not end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

BASE_NS = 1_700_000_000 * 10**9
TIMEOUT_MS = 180_000


def fake_dump(
    *,
    groups: Mapping[str, tuple[str, Sequence[int]]],
    counts: Mapping[str, tuple[int, int]],
    ops: Mapping[str, str] | None = None,
    extra: Sequence[Mapping[str, Any]] = (),
    has_status: bool = True,
    timeout_ms: int | None = TIMEOUT_MS,
) -> dict[str, Any]:
    """A rank's dump. `groups` name: (description, ranks); `counts` name: (entered, completed), the difference
    is pending; `ops` the operation of a group's calls; `extra` are further entries."""
    ids = {name: number for number, name in enumerate(sorted(groups, key=int))}
    entries: list[Mapping[str, Any]] = []
    for name, (entered, completed) in counts.items():
        for seq in range(completed + 1, entered + 1):
            op = (ops or {}).get(name, "all_reduce")
            entries.append(
                fake_entry(name, groups[name][0], ids[name], op=op, seq=seq, timeout_ms=timeout_ms)
            )
    dump: dict[str, Any] = {
        "version": "2.9",
        "nccl_version": "2.27.3",
        "pg_config": {
            name: {"name": name, "desc": desc, "ranks": str(list(ranks))}
            for name, (desc, ranks) in groups.items()
        },
        "entries": [*entries, *({**entry, "pg_id": ids[str(entry["process_group"][0])]} for entry in extra)],
    }
    if has_status:
        dump["pg_status"] = {
            str(ids[name]): {
                "last_enqueued_collective": entered,
                "last_started_collective": -1,
                "last_completed_collective": completed,
            }
            for name, (entered, completed) in counts.items()
        }
    return dump


def fake_entry(
    name: str,
    desc: str,
    pg_id: int = 0,
    *,
    op: str = "all_reduce",
    seq: int = 1,
    is_p2p: bool = False,
    timeout_ms: int | None = TIMEOUT_MS,
    state: str = "scheduled",
) -> dict[str, Any]:
    """One call as the recorder keeps it."""
    entry: dict[str, Any] = {
        "record_id": seq,
        "pg_id": pg_id,
        "process_group": (name, desc),
        "collective_seq_id": 0 if is_p2p else seq,
        "p2p_seq_id": seq if is_p2p else 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": BASE_NS + seq,
        "input_sizes": [[16]],
        "input_dtypes": ["BFloat16"],
        "state": state,
        "retired": state == "completed",
        "is_p2p": is_p2p,
        "frames": [{"name": "step", "filename": "train.py", "line": 7}],
    }
    if timeout_ms is not None:
        entry["timeout_ms"] = timeout_ms
    return entry
