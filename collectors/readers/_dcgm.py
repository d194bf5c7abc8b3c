"""What metrics of DCGM exporter say of each GPU, as what an observer saw.

Fields: NVIDIA/dcgm-exporter default-counters.csv. The gauge of the last Xid is not a count, a power cap in software is
ordinary on a busy GPU, and profiling metrics stand at zero when the exporter lost them (DCGM#303).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from argus.collectors.records.outside_event import OutsideEvent

SOURCE = "DCGM"

SLOW_CLOCK = 0.9
"""A busy GPU below this share of its siblings' clock is told as such."""

BUSY = 50.0
"""Percent of utilisation from which on a clock means anything: an idle GPU clocks down."""

MIN_SIBLINGS = 3

THERMAL, POWER_BRAKE, HW_SLOWDOWN, SW_POWER_CAP = 0x20 | 0x40, 0x80, 0x8, 0x4

COUNTERS: Mapping[str, tuple[str, str]] = {
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("ecc", "corrected memory errors"),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("ecc", "uncorrected memory errors"),
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": ("ecc", "corrected memory errors of its life"),
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": ("ecc", "uncorrected memory errors of its life"),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("remap", "rows remapped for uncorrected errors"),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("remap", "rows remapped for corrected errors"),
    "DCGM_FI_DEV_THERMAL_VIOLATION": ("thermal", "time throttled by heat"),
    "DCGM_FI_DEV_POWER_VIOLATION": ("power", "time throttled by power"),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("pcie", "PCIe replays"),
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": ("nvlink", "NVLink CRC flit errors"),
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": ("nvlink", "NVLink CRC data errors"),
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": ("nvlink", "NVLink replays"),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": ("nvlink", "NVLink recoveries"),
}
"""Counters that matter where they grow: kind of the event and what is counted."""

BLANKS = frozenset(first + why for first in (0x7FFFFFF0, 1 << 47) for why in range(4))
"""What DCGM hands out as 32-bit and as real number for a value that is blank, not found, not supported or not permitted."""

LEAST_LONG_BLANK = 0x7FFFFFFFFFFFFFF0
"""The same as 64-bit number, of which a scrape may have lost the last digits."""

_ODD = re.compile(r"[^\w.:@+-]")

REASONS = ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS")


class SampleLike(Protocol):
    """A line of a scrape."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def value(self) -> float: ...
    @property
    def time_s(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU as `node`, the other names it may be known by, and what was seen of it."""

    node: str
    others: tuple[str, ...]
    events: tuple[OutsideEvent, ...]


@dataclass(frozen=True, kw_only=True)
class _Card:
    labels: Mapping[str, str]
    values: Mapping[str, float]
    time_s: float


def gpus_of(samples: Iterable[SampleLike]) -> tuple[Gpu, ...]:
    """Every GPU of the scrape in its order."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    labels: dict[str, Mapping[str, str]] = {}
    times: dict[str, float] = defaultdict(float)
    for sample in samples:
        if not sample.name.startswith("DCGM_FI_") or not is_told(sample.value):
            continue
        node = node_of(sample.labels)
        if node:
            found[node][sample.name] = sample.value
            labels.setdefault(node, sample.labels)
            times[node] = max(times[node], sample.time_s)
    cards = {
        node: _Card(labels=labels[node], values=values, time_s=times[node]) for node, values in found.items()
    }
    clocks = _usual_clocks(cards.values())
    return tuple(
        Gpu(node=node, others=_others(card.labels, node), events=tuple(_events(node, card, clocks)))
        for node, card in cards.items()
    )


def is_told(value: float) -> bool:
    """Whether a value is one: exporters print DCGM's marks for a missing one as they are (dcgm_structs.h).

    >>> is_told(79.0), is_told(9223372036854775794.0), is_told(2147483632.0)
    (True, False, False)
    """
    return math.isfinite(value) and value < LEAST_LONG_BLANK and value not in BLANKS


def node_of(labels: Mapping[str, str]) -> str:
    """The GPU by its UUID, else by its place on its host; "" if neither is there."""
    uuid = _plain(labels.get("UUID", ""))
    return f"gpu:{uuid}" if uuid else _placed(labels, "gpu")


def _placed(labels: Mapping[str, str], label: str) -> str:
    host, place = _plain(labels.get("Hostname", "")), _plain(labels.get(label, ""))
    return f"gpu:{host}/{place}" if host and place else ""


def _plain(text: str) -> str:
    """A name of which nothing is left that could be taken for more."""
    return _ODD.sub("", text)[:150]


def _others(labels: Mapping[str, str], node: str) -> tuple[str, ...]:
    names = (_placed(labels, "pci_bus_id"), _placed(labels, "gpu"))
    return tuple(name for name in names if name and name != node)


def _usual_clocks(cards: Iterable[_Card]) -> dict[str, float]:
    """Median SM clock of the busy GPUs of each model, where there are enough."""
    by_model: dict[str, list[float]] = defaultdict(list)
    for card in cards:
        clock = card.values.get("DCGM_FI_DEV_SM_CLOCK", 0.0)
        if clock > 0 and card.values.get("DCGM_FI_DEV_GPU_UTIL", 0.0) >= BUSY:
            by_model[card.labels.get("modelName", "")].append(clock)
    return {model: median(clocks) for model, clocks in by_model.items() if len(clocks) >= MIN_SIBLINGS}


def _events(node: str, card: _Card, clocks: Mapping[str, float]) -> Iterator[OutsideEvent]:
    def event(text: str, *, kind: str = "", value: float | None = None) -> OutsideEvent:
        return OutsideEvent(time_s=card.time_s, node=node, source=SOURCE, text=text, kind=kind, value=value)

    values = card.values
    if xid := round(values.get("DCGM_FI_DEV_XID_ERRORS", 0.0)):
        yield event(f"the last Xid is {xid}", kind="xid")
    if values.get("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0.0) > 0:
        yield event("a row could not be remapped", kind="remap")
    for name, (kind, what) in COUNTERS.items():
        if values.get(name, 0.0) > 0:
            yield event(f"{values[name]:.6g} {what}", kind=kind, value=values[name])
    reasons = next((int(values[name]) for name in REASONS if 0 <= values.get(name, -1.0) < 1 << 32), 0)
    if reasons & THERMAL:
        yield event(f"its clocks are held down by heat (reasons {reasons:#x})", kind="thermal")
    if reasons & (POWER_BRAKE | HW_SLOWDOWN) and not reasons & THERMAL:
        yield event(f"its clocks are held down by the hardware (reasons {reasons:#x})", kind="power")
    if reasons & SW_POWER_CAP:
        yield event("it runs at its power cap, as busy GPUs do")
    usual, clock = clocks.get(card.labels.get("modelName", "")), values.get("DCGM_FI_DEV_SM_CLOCK", 0.0)
    if usual and values.get("DCGM_FI_DEV_GPU_UTIL", 0.0) >= BUSY and 0 < clock < SLOW_CLOCK * usual:
        yield event(f"SM clock {clock:g} MHz against {usual:g} MHz of its siblings", kind="clock")
    if values.get("DCGM_FI_PROF_GR_ENGINE_ACTIVE") == 0 and values.get("DCGM_FI_DEV_GPU_UTIL", 0.0) >= BUSY:
        yield event("its profiling metrics stand at zero while it is busy: the exporter lost them")
