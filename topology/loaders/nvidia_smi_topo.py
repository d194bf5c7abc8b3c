"""`nvidia-smi topo -m`, old (NIC names as columns) and new (NIC legend): GPUs, NICs, PCIe, NVLink."""

from __future__ import annotations

import re
from collections.abc import Mapping

from argus.topology.collect import Collector, decode
from argus.topology.facts import Facts

CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""From one PCIe switch to across the sockets; earlier is nearer."""

NVLINK_GBPS = 200.0
"""Per direction of one bonded link of NVLink 3 and later; older generations are slower."""

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_LEGEND = re.compile(r"^\s*(NIC\d+)\s*:\s*(\S+)\s*$")
_DEVICE = re.compile(r"^(GPU\d+|NIC\d+|[A-Za-z][A-Za-z0-9]*_\d+)$")
_CELL = re.compile(r"^(X|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC)$")


def sniff(head: bytes, name: str) -> bool:
    """True for a matrix whose header starts with GPU0."""
    text = _ESCAPE.sub("", head.decode("utf-8", "replace"))
    return bool(re.search(r"^\s*GPU0\b.*$", text, re.MULTILINE)) and bool(
        re.search(r"^GPU\d+\s.*\b(X|NV\d+|SYS|PIX|NODE|PHB|PXB)\b", text, re.MULTILINE)
    )


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """GPUs with their nearest NICs, PCIe switches, sockets and NVLinks of one host."""
    lines = _ESCAPE.sub("", decode(raw, origin=origin)).splitlines()
    found = Collector("nvidia_smi_topo", origin=origin, host=host or _stem(origin))
    if not host:
        found.warn(f"does not name its host; {found.host!r} is taken from the file name")
    header, at = _header(lines)
    if not header:
        raise found.fail("has no header row with GPU0")
    names = _legend(lines)
    rows = _rows(lines, at, header, found)
    for device, (line, cells, _) in rows.items():
        _emit_row(found, device, line=line, cells=cells, names=names)
    _emit_sockets(found, rows)
    _emit_switches(found, rows, names)
    if found.is_empty:
        raise found.fail("has no readable GPU row")
    return found.facts()


def _is_gpu(device: str) -> bool:
    return bool(re.fullmatch(r"GPU[0-9]{1,4}", device))


def _stem(origin: str) -> str:
    return origin.rsplit("/", 1)[-1].split(".")[0]


def _header(lines: list[str]) -> tuple[list[str], int]:
    for at, line in enumerate(lines):
        words = line.split()
        if words[:1] == ["GPU0"] and not any(_CELL.match(word) for word in words[1:2]):
            return [word for word in words if _DEVICE.match(word)], at
        if words[:1] == ["GPU0"] and len(words) == 1:
            return words, at
    return [], 0


def _legend(lines: list[str]) -> dict[str, str]:
    return {match.group(1): match.group(2) for line in lines if (match := _LEGEND.match(line))}


Row = tuple[int, dict[str, str], list[str]]


def _rows(lines: list[str], at: int, header: list[str], found: Collector) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        words = line.split()
        if not words or not _DEVICE.match(words[0]):
            if rows and not words:
                break
            continue
        cells = words[1 : 1 + len(header)]
        if len(cells) < len(header):
            found.warn(
                f"{len(cells)} cells for {len(header)} columns; the row is left out",
                line=number,
                field=words[0],
            )
            continue
        bad = [
            f"{column} {cell!r}" for column, cell in zip(header, cells, strict=True) if not _CELL.match(cell)
        ]
        if bad:
            found.warn(f"unknown link class: {bad[0]}; the cell is left out", line=number, field=words[0])
        rows[words[0]] = (
            number,
            {c: v for c, v in zip(header, cells, strict=True) if _CELL.match(v) and v != "X"},
            words[1 + len(header) :],
        )
    return rows


def _id(found: Collector, device: str, names: Mapping[str, str]) -> str:
    if _is_gpu(device):
        return f"gpu:{found.host}/{device[3:]}"
    return f"nic:{found.host}/{names.get(device, device)}"


def _emit_row(
    found: Collector, device: str, *, line: int, cells: Mapping[str, str], names: Mapping[str, str]
) -> None:
    mine = _id(found, device, names)
    found.edge(mine, f"host:{found.host}", kind="part_of", line=line)
    if not _is_gpu(device):
        return
    classes = {other: cell for other, cell in cells.items() if cell in CLASSES and not _is_gpu(other)}
    best = min((CLASSES.index(cell) for cell in classes.values()), default=0)
    for other, cell in classes.items():
        if CLASSES.index(cell) == best:  # equal classes are normal: all of them are kept
            found.edge(mine, _id(found, other, names), kind="uses", line=line)
            found.note(mine, nic_class=cell)
    for other, cell in cells.items():
        if cell.startswith("NV") and _is_gpu(other) and int(other[3:]) > int(device[3:]):
            found.edge(
                mine, _id(found, other, names), kind="nvlink", line=line, gbps=NVLINK_GBPS * int(cell[2:])
            )


def _emit_sockets(found: Collector, rows: Mapping[str, Row]) -> None:
    """GPUs of one NUMA node share a half of the host, where the node is printed."""
    for device, (line, _, rest) in rows.items():
        numa = next((word for word in rest[1:2] if re.fullmatch(r"[\d,-]+", word)), "")
        if _is_gpu(device) and numa:
            found.edge(
                f"gpu:{found.host}/{device[3:]}", f"half:{found.host}/{numa}", kind="part_of", line=line
            )
            found.edge(f"half:{found.host}/{numa}", f"host:{found.host}", kind="part_of", line=line)


def _emit_switches(found: Collector, rows: Mapping[str, Row], names: Mapping[str, str]) -> None:
    """Devices that reach each other over one PCIe switch (PIX) share it."""
    switch_of: dict[str, int] = {}
    for device, (_, cells, _) in rows.items():
        near = [device, *(other for other, cell in cells.items() if cell == "PIX")]
        number = min((switch_of[other] for other in near if other in switch_of), default=len(switch_of))
        for other in near:
            switch_of[other] = number
    order = {number: i for i, number in enumerate(sorted(set(switch_of.values())))}
    shared = [number for number in order if list(switch_of.values()).count(number) > 1]
    for device, number in switch_of.items():
        if number in shared and device in rows:
            switch = f"pcie:{found.host}/{order[number]}"
            found.edge(_id(found, device, names), switch, kind="part_of", line=rows[device][0])
            found.edge(switch, f"host:{found.host}", kind="part_of", line=rows[device][0])
