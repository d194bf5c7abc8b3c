"""Read scrapes in Prometheus' text format: what DCGM exporter says of GPUs, and xpu_timer of ranks.

A scrape is a witness, not a trace: it confirms or contradicts what timing says. Counters tell something only when a
second scrape shows that they grew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._dcgm import gpus_of
from argus.collectors.readers._lines import Lines
from argus.collectors.readers._xpu_timer import events_of_ranks
from argus.collectors.records.events import RankRecords
from argus.collectors.records.layout import Layout

MAX_SAMPLES = 1_000_000

_KNOWN = re.compile(rb"^(?:DCGM_FI_\w+|XPU_TIMER_\w+|xpu_timer_\w+)\{", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One line: `time_s` is 0 where the scrape has no time."""

    name: str
    labels: Mapping[str, str]
    value: float
    time_s: float = 0.0


def sniff(head: bytes, name: str) -> bool:
    """Text with metrics of DCGM or xpu_timer."""
    return b"\0" not in head and _KNOWN.search(head) is not None


def read(path: Path) -> Iterator[Reading]:
    """One reading with everything the scrape says. Raises ReaderError."""
    samples: list[Sample] = []
    num_bad = 0
    parse = _parser(path.name)
    lines = Lines(path)
    for line in lines:
        if line.text.startswith("#") or not line.text.strip():
            continue
        found = parse(line.text)
        num_bad += found is None
        if found is not None and len(samples) < MAX_SAMPLES:
            samples.append(found)
    gpus = gpus_of(samples)
    events = (*(event for gpu in gpus for event in gpu.events), *events_of_ranks(samples))
    if not any(_is_known(sample.name) for sample in samples):
        raise ReaderError(f"{path.name} holds no metric of DCGM exporter or xpu_timer")
    layout = Layout(run="scrape", attempt=0, rank=0, world_size=1, source="prometheus_text")
    told = (f"{path.name}: {num_bad} lines are no samples and are left out",) if num_bad else ()
    yield Reading(
        records=RankRecords(layout=layout),
        source=path.name,
        events=events,
        also={gpu.node: gpu.others for gpu in gpus if gpu.others},
        warnings=(*lines.warnings, *told),
    )


def _is_known(name: str) -> bool:
    return name.startswith(("DCGM_FI_", "XPU_TIMER_", "xpu_timer_"))


class _parser:
    """Line to sample by the reference parser; None for what it refuses."""

    def __init__(self, name: str) -> None:
        try:
            self._families = import_module("prometheus_client.parser").text_string_to_metric_families
        except ModuleNotFoundError:
            raise ReaderError(
                f"{name} is a scrape, which needs one more package: pip install 'argus-triage[readers]'"
            ) from None

    def __call__(self, line: str) -> Sample | None:
        try:
            found = [sample for family in self._families(line + "\n") for sample in family.samples]
            if len(found) != 1:
                return None
            one = found[0]
            time_s = float(one.timestamp) if one.timestamp is not None else 0.0
            value = float(one.value)
        except (ValueError, IndexError, KeyError, OverflowError):
            return None
        return Sample(
            name=str(one.name), labels=dict(one.labels), value=value, time_s=time_s if time_s > 0 else 0.0
        )
