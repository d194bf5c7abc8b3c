"""`python -m argus`: the command line."""

import sys

from argus.api.cli import main

if __name__ == "__main__":
    sys.exit(main())
