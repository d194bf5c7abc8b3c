"""Options of `argus processor`."""

from __future__ import annotations

import argparse

from argus.api.cli.numbers import whole
from argus.api.cli.paths import path
from argus.collectors.host import raw_ring, recorder, spool, stepping
from argus.collectors.records.plan import DEFAULT_STEPS, MAX_STEPS

MAX_COUNT = (1 << 63) - 1
"""Bytes and seconds, as the system counts them."""

_count = whole(0, MAX_COUNT)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; `argus run` passes them on."""
    add = parser.add_argument
    add(
        "--socket", type=path, metavar="PATH", help="listen here (default: ARGUS_SOCKET, else the user's own)"
    )
    add("--server", metavar="URL", help="service to report to (default: ARGUS_SERVER; none: nothing is sent)")
    add("--record", type=path, metavar="DIR", help="keep what the ranks send as files in DIR")
    add(
        "--record-bytes",
        type=_count,
        default=recorder.DEFAULT_BYTES,
        metavar="N",
        help="size limit of DIR",
    )
    add(
        "--metrics-port",
        type=int,
        default=0,
        metavar="N",
        help="port of /metrics on 127.0.0.1 (default: 0, any free one, named in the first line; -1: none)",
    )
    add(
        "--host",
        metavar="NAME",
        help="what this host is called, also by its ranks (default: its own name; in a container, the node's)",
    )
    add(
        "--launcher-pid",
        type=_count,
        metavar="PID",
        help="end after this process and the last rank are gone",
    )
    _add_spool(parser)
    _add_observing(parser)
    _add_pace(parser)


def _add_spool(parser: argparse.ArgumentParser) -> None:
    """Where uploads wait."""
    add = parser.add_argument
    add("--spool", type=path, metavar="DIR", help="where uploads wait for the service (default: PATH.spool)")
    add(
        "--spool-bytes",
        type=_count,
        default=spool.DEFAULT_BYTES,
        metavar="N",
        help="size limit of the spool",
    )


def _add_pace(parser: argparse.ArgumentParser) -> None:
    """What a service decides where there is one."""
    add = parser.add_argument
    add(
        "--window-steps",
        type=whole(1, MAX_STEPS),
        default=DEFAULT_STEPS,
        metavar="N",
        help=f"steps per window until a number fits how long they last (default: {DEFAULT_STEPS})",
    )
    add(
        "--overhead-budget",
        type=_share,
        default=stepping.BUDGET,
        metavar="SHARE",
        help=f"share of step time above which channels are switched off (default: {stepping.BUDGET})",
    )


def _add_observing(parser: argparse.ArgumentParser) -> None:
    """What is observed and kept besides the ranks' summaries."""
    add = parser.add_argument
    add("--ring", type=path, metavar="DIR", help="where the last minutes lie raw (default: PATH.ring)")
    add(
        "--ring-bytes",
        type=_count,
        default=raw_ring.DEFAULT_BYTES,
        metavar="N",
        help="size limit of the ring, never more than a tenth of the free disk (0: no ring)",
    )
    add(
        "--ring-age-s",
        type=_count,
        default=int(raw_ring.DEFAULT_AGE_S),
        metavar="S",
        help="age limit of the ring in seconds",
    )
    add("--no-stacks", action="store_true", help="take no stack dumps with py-spy")
    add("--no-host-samples", action="store_true", help="do not sample pressure, throttling, GPUs and links")


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:  # also NaN
        raise argparse.ArgumentTypeError(f"a share lies above 0 and at most at 1, got {text!r}")
    return value
