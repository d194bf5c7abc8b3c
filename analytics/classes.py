"""The cause classes, read from the one data file that defines them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

ON_DEVICE = ("compute.", "copy.")
"""How classes begin that lie in a device or on its way to the host, and that another model alone can bring about."""


@dataclass(frozen=True, kw_only=True)
class CauseClass:
    """One cause a diagnosis may name, with its look-alikes and the first thing to do.

    `where` = whether it lies in communication, "" where that is not decided.
    `takes_out` = what to do if it returns takes a machine, a device, a link or a rank out of the job.
    `is_standing` = it was so from the first step on and is no loss of now: told, and never a page.
    """

    id: str
    letter: str
    owner: str
    definition: str
    near_miss: Mapping[str, str]
    next_step: str
    command: str
    if_it_returns: str
    where: str = "non-communication"
    is_standing: bool = False
    takes_out: bool = False


@cache
def cause_classes() -> Mapping[str, CauseClass]:
    """Every class by id, in the file's order."""
    text = files("argus.analytics").joinpath("classes.toml").read_text(encoding="utf-8")
    return {key: CauseClass(id=key, **value) for key, value in tomllib.loads(text).items()}
