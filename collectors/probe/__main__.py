"""One process of a probe: measures, and prints a line of JSON as soon as it knows something."""

from __future__ import annotations

import argparse
import json
import sys

from argus.collectors.probe.measure import Measured, alone, device_of, in_pairs

MARK = "ARGUS-PROBE "
"""Begins each line for `argus probe`: a login shell may print others."""

TESTS = 3


def main() -> int:
    """Measure and print; 1 if the members never met."""
    parser = argparse.ArgumentParser(prog="argus.collectors.probe")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--master", required=True, help="HOST:PORT where rank 0 listens")
    parser.add_argument("--seconds", type=float, required=True, help="in all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    device, each_s = device_of(args.device), args.seconds / TESTS
    for one in alone(device, seconds=each_s):
        _tell(one, device)
    if args.world < 2:
        return 0
    try:
        for one in in_pairs(
            device,
            rank=args.rank,
            world=args.world,
            master=args.master,
            seconds=each_s,
            rounds=args.rounds,
        ):
            _tell(one, device)
    except RuntimeError as error:
        print(f"rank {args.rank}: no all-reduce: {error!s:.300}", file=sys.stderr)
        return 1
    return 0


def _tell(one: Measured, device: str) -> None:
    print(MARK + json.dumps({**one.to_json(), "device": device}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
