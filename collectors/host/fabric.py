"""InfiniBand and RoCE ports: state and counters, from sysfs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from argus.collectors.host.pressure import difference
from argus.collectors.records.host_sample import PartState

INFINIBAND = Path("/sys/class/infiniband")

COUNTERS = frozenset(
    {
        "excessive_buffer_overrun_errors",
        "link_downed",
        "link_error_recovery",
        "local_link_integrity_errors",
        "port_rcv_data",
        "port_rcv_errors",
        "port_rcv_remote_physical_errors",
        "port_xmit_data",
        "port_xmit_discards",
        "port_xmit_wait",
        "symbol_error",
        # hw_counters of mlx5 (docs of NVIDIA's kernel driver)
        "duplicate_request",
        "implied_nak_seq_err",
        "local_ack_timeout_err",
        "np_cnp_sent",
        "np_ecn_marked_roce_packets",
        "out_of_buffer",
        "out_of_sequence",
        "packet_seq_err",
        "rnr_nak_retry_err",
        "roce_adp_retrans",
        "rp_cnp_handled",
        "rx_icrc_encapsulated",
    }
)
"""Those that tell traffic, congestion and errors apart; the others repeat them."""


def read_ports(*, root: Path = INFINIBAND) -> dict[str, dict[str, float]]:
    """Counters by port name `mlx5_0/1`; empty where there is no such NIC."""
    return {_name(port): _counters(port) for port in _ports(root)}


def ports_between(
    now: Mapping[str, Mapping[str, float]],
    before: Mapping[str, Mapping[str, float]],
    *,
    root: Path = INFINIBAND,
) -> tuple[PartState, ...]:
    """Ports with what their counters grew by; `flags` has the state of a port that is not active."""
    parts = []
    for port in _ports(root):
        name = _name(port)
        state = _text(port / "state").partition(":")[2].strip().lower()
        rate = _text(port / "rate").split(" ")[0]
        numbers = difference(now.get(name, {}), before.get(name, {}))
        if _is_number(rate):
            numbers["rate_gbit_per_s"] = float(rate)
        parts.append(
            PartState(name=name, numbers=numbers, flags=(state,) if state not in ("", "active") else ())
        )
    return tuple(parts)


def _ports(root: Path) -> list[Path]:
    return sorted(root.glob("*/ports/*"))


def _name(port: Path) -> str:
    return f"{port.parent.parent.name}/{port.name}"


def _counters(port: Path) -> dict[str, float]:
    found = {}
    for folder in ("counters", "hw_counters"):
        for path in sorted((port / folder).glob("*")):
            text = _text(path) if path.name in COUNTERS else ""
            if _is_number(text):
                found[path.name] = float(text)
    return found


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""  # a virtual function lacks some
