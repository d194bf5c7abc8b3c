"""Secrets out of whatever is shown: logs, errors, the audit."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Iterable
from dataclasses import fields

from argus.api.settings import Settings

MASK = "***"
SHORTEST = 4
"""A secret of fewer characters is left alone: masked, it would tear up every word it is part of."""

SHAPES = (
    re.compile(r"(argus_[0-9a-f]{12}_)[0-9a-f]{64}"),
    re.compile(r"(?i)(\b(?:bearer|authorization:\s*\w+)\s+)[^\s,;'\"]+"),
    re.compile(r"(?i)(\bargus_session=)[^\s,;'\"]+"),
    re.compile(r"(\bpostgres(?:ql)?(?:\+\w+)?://[^\s/:@]*:)[^\s'\"]+(?=@)"),
    re.compile(r"(://[^\s/:@]+:)[^\s/@]+(?=@)"),
    re.compile(r"(?i)([?&\s](?:ssl)?password=)[^\s&'\"]+"),
)
"""How a key, a header, a cookie and a password in a URL look, also as one of its options; group 1 stays.

The password of a database may hold `/` and `@` that nobody escaped: all up to the last `@` is taken.
"""


def mask(text: str, *, secrets: Iterable[str] = ()) -> str:
    """The text without the secrets and whatever looks like one.

    >>> mask("GET / Authorization: Bearer abc, postgresql://u:pw@h/d")
    'GET / Authorization: Bearer ***, postgresql://u:***@h/d'
    """
    for secret in secrets:
        text = text.replace(secret, MASK)
    for shape in SHAPES:
        text = shape.sub(rf"\1{MASK}", text)
    return text


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """The secret values of the settings, the longest first."""
    held = [str(getattr(settings, item.name)) for item in fields(settings) if item.metadata["secret"]]
    return tuple(sorted((one for one in held if len(one) >= SHORTEST), key=len, reverse=True))


def mask_logs(settings: Settings, *, more: Iterable[str] = ()) -> Callable[[], None]:
    """Have every log record of this process masked from now on; returns what undoes it.

    `more` are secrets that are no settings of the service: those of notifiers.
    """
    make = logging.getLogRecordFactory()
    # The longest first: one that is a part of another would leave the rest of it to be read.
    held = (*secrets_of(settings), *(one for one in more if len(one) >= SHORTEST))
    secrets = sorted(held, key=len, reverse=True)

    def masked(*args: object, **options: object) -> logging.LogRecord:
        record: logging.LogRecord = make(*args, **options)
        record.msg, record.args = mask(_said(record), secrets=secrets), None
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = mask("".join(traceback.format_exception(*record.exc_info)), secrets=secrets)
        return record

    logging.setLogRecordFactory(masked)
    return lambda: logging.setLogRecordFactory(make)


def _said(record: logging.LogRecord) -> str:
    """The message, as it was written where it cannot be worded: who logs is never failed by what it logs."""
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - as logging's own handlers do, for whatever an argument raises
        return f"{record.msg} (its arguments cannot be put in: {type(error).__name__})"
