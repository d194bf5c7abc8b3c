"""`argus on`: observe a run again that was switched off."""

from __future__ import annotations

import argparse

from argus.api.cli import switch_off

add_arguments = switch_off.add_arguments


def run(args: argparse.Namespace) -> int:
    """Switch it on."""
    return switch_off.switch(args, off=False)
