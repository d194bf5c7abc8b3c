"""What the HTTP notifiers share: an answer that is none of success becomes a reason to try later or not."""

from __future__ import annotations

from argus.api.notify.notifier import Later, Refused
from argus.api.notify.post import Answer, url_fault


def check(answer: Answer, *, who: str) -> None:
    """Raises Later where it may go better, Refused where it will not."""
    if answer.is_good:
        return
    if answer.status == 0:
        raise Later(f"{who} does not answer ({answer.text})", is_doubtful=answer.is_sent)
    if answer.is_passing:
        raise Later(f"{who} answers {answer.status}", after_s=answer.retry_after_s)
    raise Refused(f"{who} refuses with {answer.status}: {answer.text[:200]!a}")


def checked_url(url: str) -> str:
    """The URL without a slash at its end. Raises ValueError."""
    if fault := url_fault(url):
        raise ValueError(f"url: {fault}")
    return url.rstrip("/")


def checked_floor(floor: str) -> str:
    """A severity. Raises ValueError."""
    if floor not in ("info", "warning", "critical"):
        raise ValueError(f"severity must be info, warning or critical, got {floor!r:.40}")
    return floor
