"""The error a command raises to end with one sentence and an exit code."""

from __future__ import annotations

from argus.api.masking import mask
from argus.collectors.records.text import has_page


class CliError(Exception):
    """A foreseeable failure: the message says what is wrong and what to do."""

    def __init__(self, message: str, *, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


def cannot_open(error: Exception) -> CliError:
    """The database cannot be opened, in the database's own words: SQLAlchemy puts a class and a statement around them.

    >>> print(cannot_open(OSError("disk I/O error")))
    cannot open the database: disk I/O error
    """
    said = getattr(error, "orig", None) or error
    line = next(iter(str(said).splitlines()), type(said).__name__)
    return CliError(f"cannot open the database: {mask(line)}", code=1)


def check_run_name(name: str | None) -> None:
    """Raises CliError for a name of a run that no address could hold."""
    if name and not has_page(name):
        raise CliError(
            f"--run {name}: a run cannot be called . or .., nor between slashes: it would have no page"
        )
