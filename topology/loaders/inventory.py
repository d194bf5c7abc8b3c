"""GPU inventories: DCGM exporter metrics, `dcgmi discovery -l`, `nvidia-smi -L` and its CSV queries."""

from __future__ import annotations

import csv
import re

from argus.topology.collect import Collector, bus_id, decode, gpu_id
from argus.topology.facts import Facts, whole_number

_METRIC = re.compile(r"^DCGM_\w+\{(.*)\}\s")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_LISTED = re.compile(r"^GPU (\d+): (.+?) \(UUID: (GPU-[0-9A-Za-z-]+)\)")
_DISCOVERY = re.compile(r"^\|\s*(\d*)\s*\|\s*(Name|PCI Bus ID|Device UUID):\s*(\S.*?)\s*\|")
_COLUMNS = {
    "index": "index",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "bus",
    "gpu_bus_id": "bus",
    "name": "model",
    "gpu_name": "model",
    "host": "host",
    "hostname": "host",
}
_UUID = re.compile(r"^(GPU|MIG)-[0-9A-Za-z/-]+$")

Gpu = dict[str, str]


def sniff(head: bytes, name: str) -> bool:
    """True for any of the four forms."""
    text = head.decode("utf-8", "replace")
    first = next((line for line in text.splitlines() if line.strip()), "").lower()
    columns = [word.strip() for word in first.split(",")]
    return (
        bool(re.search(r"^DCGM_\w+\{", text, re.MULTILINE))
        or bool(re.search(r"^GPU \d+: .*UUID: GPU-", text, re.MULTILINE))
        or "| Device Information" in text
        or ("uuid" in columns or "gpu_uuid" in columns)
    )


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """GPUs with UUID, index, PCI address and model on their hosts."""
    found = Collector("inventory", origin=origin, host=host)
    lines = decode(raw, origin=origin).splitlines()
    gpus = _metrics(lines) or _listed(lines) or _discovery(lines) or _table(lines, found)
    fallback = host or origin.rsplit("/", 1)[-1].split(".")[0]
    if any(not gpu.get("host") for _, gpu in gpus) and not host:
        found.warn(f"does not name its host; {fallback!r} is taken from the file name")
    for line, gpu in gpus:
        _emit(found, gpu, line=line, host=gpu.get("host") or fallback)
    if found.is_empty:
        raise found.fail("lists no GPU with a UUID")
    return found.facts()


def _emit(found: Collector, gpu: Gpu, *, line: int, host: str) -> None:
    uuid = gpu.get("uuid", "")
    if not _UUID.match(uuid):
        found.warn(f"must start with GPU- or MIG-, got {uuid!r:.60}; it is left out", line=line, field="uuid")
        return
    mine = gpu_id(host, uuid)
    found.note(mine, model=gpu.get("model", ""), index=gpu.get("index", ""))
    found.edge(mine, f"host:{host}", kind="part_of", line=line)
    if whole_number(gpu.get("index", "")) is not None:
        found.edge(mine, f"gpu:{host}/{gpu['index']}", kind="same", line=line)
    if bus_id(gpu.get("bus", "")):
        found.edge(mine, gpu_id(host, gpu["bus"]), kind="same", line=line)
    elif gpu.get("bus"):
        found.warn(f"{gpu['bus']!r:.40} is no PCI address; it is left out", line=line, field="bus_id")


def _metrics(lines: list[str]) -> list[tuple[int, Gpu]]:
    gpus: dict[str, tuple[int, Gpu]] = {}
    for number, line in enumerate(lines, start=1):
        match = _METRIC.match(line)
        if not match:
            continue
        labels = dict(_LABEL.findall(match.group(1)))
        gpu = {
            "uuid": labels.get("UUID", ""),
            "index": labels.get("gpu", ""),
            "bus": labels.get("pci_bus_id", ""),
            "model": labels.get("modelName", ""),
            "host": labels.get("Hostname", ""),
        }
        gpus.setdefault(f"{gpu['host']}/{gpu['uuid']}", (number, gpu))
    return list(gpus.values())


def _listed(lines: list[str]) -> list[tuple[int, Gpu]]:
    return [
        (number, {"index": match.group(1), "model": match.group(2), "uuid": match.group(3)})
        for number, line in enumerate(lines, start=1)
        if (match := _LISTED.match(line.strip()))
    ]


def _discovery(lines: list[str]) -> list[tuple[int, Gpu]]:
    keys = {"Name": "model", "PCI Bus ID": "bus", "Device UUID": "uuid"}
    gpus: list[tuple[int, Gpu]] = []
    for number, line in enumerate(lines, start=1):
        match = _DISCOVERY.match(line)
        if match and match.group(1):
            gpus.append((number, {"index": match.group(1)}))
        if match and gpus:
            gpus[-1][1][keys[match.group(2)]] = match.group(3)
    return gpus


def _table(lines: list[str], found: Collector) -> list[tuple[int, Gpu]]:
    rows = list(csv.reader(lines, skipinitialspace=True))
    header = [_COLUMNS.get(word.strip().lower().removesuffix(" []"), "") for word in rows[0]] if rows else []
    gpus = []
    for number, row in enumerate(rows[1:], start=2):
        if not any(word.strip() for word in row):
            continue
        if len(row) != len(header):
            found.warn(f"{len(row)} values for {len(header)} columns; the row is left out", line=number)
            continue
        gpus.append((number, {key: word.strip() for key, word in zip(header, row, strict=True) if key}))
    return gpus
