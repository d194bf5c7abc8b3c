"""NCCL's topology dump (NCCL_TOPO_DUMP_FILE): GPUs, NICs, PCIe bridges, sockets and NVLinks of a host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.parsers import expat

from argus.topology.collect import Collector, bus_id, decode
from argus.topology.facts import Facts, whole_number

NVSWITCH_CLASS = "0x068000"
NVLINK_GBPS = 200.0
"""Per direction of one link of NVLink 3 and later."""

_GT_GBPS = {"2.5": 2.0, "5": 4.0, "5.0": 4.0, "8": 7.88, "8.0": 7.88, "16": 15.75, "16.0": 15.75}
_GT_GBPS |= {"32": 31.5, "32.0": 31.5, "64": 60.5, "64.0": 60.5}
"""Gb/s a lane carries at a PCIe transfer rate, after coding."""

Tag = tuple[str, dict[str, str], int]


def sniff(head: bytes, name: str) -> bool:
    """True for XML whose root is NCCL's <system>."""
    return bool(re.match(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<system\b", head, re.DOTALL))


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """Devices of the host; the dump holds a hash of its name only, so the name comes from outside."""
    text = decode(raw, origin=origin)
    found = Collector("nccl_xml", origin=origin, host=host or origin.rsplit("/", 1)[-1].split(".")[0])
    if not host:
        found.warn(f"does not name its host; {found.host!r} is taken from the file name")
    if re.search(r"<!(DOCTYPE|ENTITY)", text):
        raise found.fail("declares a document type, which NCCL never writes")
    stack: list[Tag] = []
    for tag, is_start in _tags(text, found):
        if not is_start:
            stack.pop()
            continue
        stack.append(tag)
        _emit(found, stack)
    if found.is_empty:
        raise found.fail("holds no GPU and no NIC")
    return found.facts()


def _tags(text: str, found: Collector) -> Iterator[tuple[Tag, bool]]:
    """Start and end of every element with its line; what precedes an error is still used."""
    events: list[tuple[Tag, bool]] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, attributes: events.append(
        ((name, dict(attributes), parser.CurrentLineNumber), True)
    )
    parser.EndElementHandler = lambda name: events.append(((name, {}, parser.CurrentLineNumber), False))
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "malformed")
        found.warn(f"the XML is broken ({reason}); what precedes is used", line=error.lineno)
    yield from events


def _emit(found: Collector, stack: list[Tag]) -> None:
    name, attributes, line = stack[-1]
    if name == "gpu":
        _emit_gpu(found, stack, line)
    elif name == "net":
        nic = f"nic:{found.host}/{attributes.get('name', '?')}"
        mbps = whole_number(attributes.get("speed", ""))
        if mbps is None:
            got = attributes.get("speed", "")
            found.warn(f"must be a number of Mb/s, got {got!r:.40}", line=line, field="net.speed")
        found.note(nic, gbps=str(mbps / 1000) if mbps else "", guid=attributes.get("guid", ""))
        _place(found, nic, stack, line)
    elif name == "pci" and attributes.get("link_width", "1") in ("0", ""):
        found.warn(
            "the link width is hidden, as inside a virtual machine; NCCL plans badly then",
            line=line,
            field="pci.link_width",
        )
    elif name == "nvlink":
        _emit_nvlink(found, stack, line)


def _emit_gpu(found: Collector, stack: list[Tag], line: int) -> None:
    gpu = _gpu(found, stack)
    if not gpu:
        found.warn("a gpu outside a pci element with a busid is left out", line=line, field="gpu")
        return
    dev = stack[-1][1].get("dev", "")
    if whole_number(dev) is not None:
        found.edge(gpu, f"gpu:{found.host}/{dev}", kind="same", line=line)
    _place(found, gpu, stack, line)


def _gpu(found: Collector, stack: list[Tag]) -> str:
    address = next((bus_id(tag[1].get("busid", "")) for tag in reversed(stack) if tag[0] == "pci"), "")
    return f"gpu:{found.host}/{address}" if address else ""


def _place(found: Collector, element: str, stack: list[Tag], line: int) -> None:
    """Element → nearest PCIe bridge → socket → host, with what the slot can carry."""
    slots = [tag for tag in stack if tag[0] == "pci"]
    bridges = [bus_id(tag[1].get("busid", "")) for tag in slots[:-1]]
    gbps = _slot_gbps(slots[-1][1]) if slots else None
    if bridges and bridges[-1]:
        switch = f"pcie:{found.host}/{bridges[-1]}"
        found.edge(element, switch, kind="part_of", line=line, gbps=gbps)
        found.edge(switch, f"host:{found.host}", kind="part_of", line=line)
    socket = next((tag[1].get("numaid", "") for tag in stack if tag[0] == "cpu"), "")
    if whole_number(socket.removeprefix("-")) is not None and element.startswith("gpu:"):
        found.edge(element, f"half:{found.host}/{socket}", kind="part_of", line=line)
        found.edge(f"half:{found.host}/{socket}", f"host:{found.host}", kind="part_of", line=line)
    found.edge(element, f"host:{found.host}", kind="part_of", line=line, gbps=gbps)


def _slot_gbps(slot: dict[str, str]) -> float | None:
    lane = _GT_GBPS.get(slot.get("link_speed", "").split(" ")[0])
    width = whole_number(slot.get("link_width", ""))
    return lane * width if lane and width else None


def _emit_nvlink(found: Collector, stack: list[Tag], line: int) -> None:
    attributes = stack[-1][1]
    count, target = whole_number(attributes.get("count", "1")), bus_id(attributes.get("target", ""))
    gpu = _gpu(found, stack)
    if not gpu or count is None:
        found.warn("must be a number, on a gpu; the link is left out", line=line, field="nvlink.count")
        return
    gbps = NVLINK_GBPS * count
    if attributes.get("tclass") == NVSWITCH_CLASS:
        found.edge(gpu, f"nvlink_domain:{found.host}", kind="part_of", line=line, gbps=gbps)
    elif target and f"gpu:{found.host}/{target}" > gpu:
        found.edge(gpu, f"gpu:{found.host}/{target}", kind="nvlink", line=line, gbps=gbps)
