"""A sub-command's parser that declares its options once there is something to parse: some modules need seconds to import."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any


class LateParser(argparse.ArgumentParser):
    """Give it `declare` after it is made."""

    declare: Callable[[argparse.ArgumentParser], None] | None = None

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """See argparse."""
        declare, self.declare = self.declare, None
        if declare is not None:
            declare(self)
        return super().parse_known_args(args, namespace)
