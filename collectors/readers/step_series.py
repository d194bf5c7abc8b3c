"""Read bare series of step times out of JSON, JSON lines and CSV; logs are for `training_log`.

JSON: a list of seconds, `{"interval": n, "values": [...]}`, `{name: {"interval": n, "values": [...]}}`, or
Megatron's golden values (`{"iteration-time": {"step_interval": n, "values": {step: seconds}}}`). Objects that tell a step
and a time each, in a list or a line each, are read as rows of a table.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from argus.collectors.readers import HEAD_BYTES, ReaderError, Reading
from argus.collectors.readers._column_names import is_measure, kind_of
from argus.collectors.readers._files import Inflated
from argus.collectors.readers._gaps import gaps
from argus.collectors.readers._json_rows import begins_with_rows, table_of_rows
from argus.collectors.readers._phase_table import phase_columns, phase_readings
from argus.collectors.readers._step_lines import has_step_lines
from argus.collectors.readers._step_table import picked, table_of, table_series
from argus.collectors.records.events import RankRecords
from argus.collectors.records.layout import Layout
from argus.collectors.records.series import StepSeries

MAX_BYTES = 1 << 30
MAX_SECONDS = 1e15
MAX_STEP_S = 1e7
"""Four months: what is longer is a time of day or a count."""

MAX_SERIES, MAX_VALUES = 10_000, 5_000_000

_GOLDEN = {"start_step", "end_step", "step_interval"}
"""Keys by which Megatron's golden values are told from other series."""

MAX_NAMED = 6

_NUMBER = rb"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
_JSON = re.compile(
    rb"\s*(?:\[\s*(?:null|NaN|-?Infinity|" + _NUMBER + rb")\s*[,\]]"
    rb'|\{\s*"(?:interval|values)"\s*:'
    rb'|\{\s*"[^"\\]{1,400}"\s*:\s*\{\s*"(?:interval|values|start_step|end_step|step_interval)"\s*:)'
)
_CSV_NAME = re.compile(r"\.(csv|tsv)(\.gz)?$", re.IGNORECASE)


def sniff(head: bytes, name: str) -> bool:
    """JSON that begins like a series, or a .csv of printable text."""
    head = head.removeprefix(BOM_UTF8)
    if _JSON.match(head) or (
        head.lstrip()[:1] in b"{[" and begins_with_rows(head.decode("utf-8", "replace"))
    ):
        return True
    if b"\0" in head or head.lstrip()[:1] == b"{" or has_step_lines(head):
        return False
    return bool(_CSV_NAME.search(name)) and bool(head.strip())


def read(path: Path) -> Iterator[Reading]:
    """One reading a series. Raises ReaderError."""
    text, cut = _text(path)
    name = path.name.split(".")[0] or "series"
    found: list[StepSeries]
    ranks: list[Reading] = []
    warnings: list[str]
    if text.lstrip()[:1] in ("{", "[") and not begins_with_rows(text[:HEAD_BYTES]):
        found, warnings = _from_json(text, name, path.name)
    else:
        found, ranks, warnings = _from_table(text, name, path)
    if cut:
        warnings.append(f"{path.name}: {cut}; the rest is used")
    doubts = [_why_no_times(series) for series in found]
    good = [series for series, why in zip(found, doubts, strict=True) if not why]
    if not good and not ranks:
        raise ReaderError(f"{path.name} holds no step times: {next(iter(doubts), 'no series')}")
    warnings += [
        f"{path.name}: {series.name[:60]!r} holds no step times: {why}"
        for series, why in zip(found, doubts, strict=True)
        if why
    ]
    for index, series in enumerate(good):
        layout = Layout(run=series.name[:256], attempt=0, rank=0, world_size=1, source="step_series")
        yield Reading(
            records=RankRecords(layout=layout),
            source=path.name,
            warnings=tuple(warnings) if index == 0 else (),
            series=series,
        )
    if ranks and not good:
        ranks = [replace(ranks[0], warnings=(*ranks[0].warnings, *warnings)), *ranks[1:]]
    yield from ranks


def _from_table(text: str, name: str, path: Path) -> tuple[list[StepSeries], list[Reading], list[str]]:
    """Series, the ranks' phases, and sentences. Raises ReaderError."""
    if text.lstrip()[:1] in ("{", "["):
        table, num_odd = table_of_rows(text, path.name)
    else:
        table, num_odd = table_of(text, path.name), 0
    ranks, doubt = phase_readings(table, path=path)
    warnings = [doubt] if doubt else []
    warnings += [f"{path.name}: lines that are no JSON object are left out: {num_odd}"] if num_odd else []
    warnings += gaps(table, [*picked(table)[0], *(phase_columns(table) if ranks else ())])
    try:
        return table_series(table, name=name), ranks, warnings
    except ReaderError:
        if not ranks:
            raise
        return [], ranks, warnings


def _why_no_times(series: StepSeries) -> str:
    """What keeps the values of a series from being times of steps, empty if nothing does."""
    known = sorted(value for value in series.values_s if math.isfinite(value))
    if not known:
        return "no number"
    if 2 * sum(value > 0 for value in known) <= len(known):
        return "half or more of its numbers are zero or less"
    if known[len(known) // 2] > MAX_STEP_S:
        return f"{known[len(known) // 2]:.4g} s a step"
    return ""


def _text(path: Path) -> tuple[str, str]:
    parts, size = [], 0
    with Inflated(path) as source:
        while chunk := source.read():
            parts.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES:
                raise ReaderError(f"{path.name} is larger than {MAX_BYTES >> 20} MiB, which is refused")
        text = b"".join(parts).strip(b"\0").removeprefix(BOM_UTF8)
        return text.decode("utf-8", "replace"), source.cut


def _from_json(text: str, name: str, file: str) -> tuple[list[StepSeries], list[str]]:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReaderError(f"{file} is damaged JSON ({str(error)[:80]})") from None
    if isinstance(raw, list):
        return [_series(name, {"values": raw})], []
    if not isinstance(raw, dict):
        raise ReaderError(f"{file} holds no series: it is a {type(raw).__name__}")
    if "values" in raw and isinstance(raw["values"], list):
        return [_series(name, raw)], []
    if isinstance(raw.get("iteration-time"), dict):  # beside it are losses and memory, which are no times
        raw = times = {name: raw["iteration-time"]}
    else:
        _refuse_golden(raw, file)
        times = _without_measures(raw, file)
    found, odd = [], len(raw) - len(times)
    for key, item in list(times.items())[:MAX_SERIES]:
        if isinstance(item, dict) and isinstance(item.get("values"), list | dict):
            found.append(_series(str(key)[:256], item))
        else:
            odd += 1
    return found, [f"{file}: {odd} entries are no series and are left out"] if odd else []


def _refuse_golden(raw: Mapping[str, Any], file: str) -> None:
    """Golden values name what they hold. Raises ReaderError if that is no time."""
    golden = [key for key, item in raw.items() if isinstance(item, dict) and _GOLDEN & item.keys()]
    if golden and not any(kind_of(key) in ("duration", "time") for key in golden):
        raise ReaderError(_no_times(file, golden))


def _without_measures(raw: Mapping[str, Any], file: str) -> dict[str, Any]:
    """What is not by its name a loss or the like. Raises ReaderError if that is nothing."""
    kept = {key: item for key, item in raw.items() if not is_measure(key)}
    if raw and not kept:
        raise ReaderError(_no_times(file, list(raw)))
    return kept


def _no_times(file: str, names: Sequence[str]) -> str:
    held = ", ".join(repr(name[:40]) for name in names[:MAX_NAMED])
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{file} holds no step times: there is no 'iteration-time', only {held}{more}"


def _series(name: str, raw: Mapping[str, Any]) -> StepSeries:
    """Values that are no number stay as NaN: they keep their place."""
    values: Sequence[object]
    if isinstance(raw["values"], dict):
        values, steps = list(raw["values"].values()), list(raw["values"])
        first = int(steps[0]) if steps and str(steps[0]).isdecimal() and len(str(steps[0])) < 16 else 0
    else:
        values, first = raw["values"], 0
    interval = raw.get("interval", raw.get("step_interval", 1))
    return StepSeries(
        name=name,
        values_s=tuple(map(number, values[:MAX_VALUES])),
        interval=interval if type(interval) is int and 1 <= interval < 1 << 31 else 1,
        first_step=first,
    )


def number(value: object) -> float:
    """A number that can be a time, NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return seconds if abs(seconds) < MAX_SECONDS else math.nan
