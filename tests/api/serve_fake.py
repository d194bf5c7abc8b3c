"""`argus serve` with the fake analysis, as a process of its own: `python -m tests.api.serve_fake …`."""

from __future__ import annotations

import argparse
import sys

from argus.api.cli import serve
from argus.api.cli.errors import CliError
from tests.api.kit import FAKE_ANALYSES


def main() -> int:
    """The command's own options."""
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    try:
        args = parser.parse_args()
        serve.serve(serve.settings_of(args), analyses=FAKE_ANALYSES, notify=serve.notify_of(args))
    except CliError as error:
        print(f"argus serve: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
