"""slack_sdk behind the notifiers' own errors: rates, refusals, doubt; and nothing that pings or unfurls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import URLError

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from argus.api.notify.notifier import Later, Refused
from argus.api.slack.render import SlackText

UNANSWERED = (OSError, HTTPException, UnicodeDecodeError)
"""What the library lets through where nothing answers, or something in between cuts an answer short or garbles it."""

EVENT_TYPE = "argus_notice"
"""Type of the metadata by which a message of ours is found again."""

TIMEOUT_S = 10
HISTORY = 100
"""Messages of a channel looked through for one of ours."""

PASSING = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)


class Gone(Refused):
    """The message is not there any more: somebody deleted it, or the workspace keeps none for so long."""


class SlackClient:
    """The few calls we make."""

    def __init__(self, token: str, *, base_url: str) -> None:
        self.web = WebClient(token=token, base_url=base_url, timeout=TIMEOUT_S, retry_handlers=[])

    def post(
        self,
        channel: str,
        text: SlackText,
        *,
        key: str,
        thread: str | None = None,
        is_broadcast: bool = False,
    ) -> tuple[str, str]:
        """Post a message; (channel, ts). Raises Later, Refused."""
        answer = _asked(
            lambda: self.web.chat_postMessage(
                channel=channel,
                text=text.text,
                blocks=text.blocks,
                metadata={"event_type": EVENT_TYPE, "event_payload": {"key": key}},
                unfurl_links=False,
                unfurl_media=False,
                link_names=False,
                parse="none",
                thread_ts=thread,
                reply_broadcast=is_broadcast if thread else None,
            )
        )
        if "channel" not in answer or "ts" not in answer:
            raise Later("Slack does not say where the message is", is_doubtful=True)
        return str(answer["channel"]), str(answer["ts"])

    def edit(self, channel: str, ts: str, text: SlackText, *, key: str) -> None:
        """Replace a message. Raises Gone, Later, Refused."""
        _asked(
            lambda: self.web.chat_update(
                channel=channel,
                ts=ts,
                text=text.text,
                blocks=text.blocks,
                metadata={"event_type": EVENT_TYPE, "event_payload": {"key": key}},
                link_names=False,
                parse="none",
            )
        )

    def whisper(self, channel: str, user: str, text: SlackText, *, thread: str | None = None) -> None:
        """Show something to one person only. Raises Later, Refused."""
        _asked(
            lambda: self.web.chat_postEphemeral(
                channel=channel,
                user=user,
                text=text.text,
                blocks=text.blocks,
                link_names=False,
                thread_ts=thread,
            )
        )

    def find(self, channel: str, *, key: str, since_s: float, thread: str | None = None) -> str | None:
        """The ts of a message of ours by its key, None if there is none. Raises Later, Refused."""
        oldest = f"{since_s:.6f}"
        if thread is None:
            answer = _asked(
                lambda: self.web.conversations_history(
                    channel=channel, include_all_metadata=True, oldest=oldest, limit=HISTORY
                )
            )
        else:
            answer = _asked(
                lambda: self.web.conversations_replies(
                    channel=channel, ts=thread, include_all_metadata=True, oldest=oldest, limit=HISTORY
                )
            )
        for message in answer.get("messages") or ():
            metadata = message.get("metadata") or {}
            payload = metadata.get("event_payload") or {}
            if metadata.get("event_type") == EVENT_TYPE and payload.get("key") == key:
                return str(message["ts"])
        return None

    def who(self) -> Mapping[str, Any]:
        """Who we are. Raises Later, Refused."""
        return _asked(self.web.auth_test)


def _asked(call: Callable[[], Any]) -> Mapping[str, Any]:
    try:
        answer: Mapping[str, Any] = call().data
    except SlackApiError as error:
        raise _meaning(error) from None
    except UNANSWERED as error:
        raise Later(
            f"Slack does not answer ({type(error).__name__})", is_doubtful=_may_be_sent(error)
        ) from None
    return answer


def _may_be_sent(error: Exception) -> bool:
    """Not where no connection came about."""
    reason = error.reason if isinstance(error, URLError) else error
    return not isinstance(reason, ConnectionRefusedError)


def _meaning(error: SlackApiError) -> Later | Refused:
    response = error.response
    status = int(getattr(response, "status_code", 0) or 0)
    data = getattr(response, "data", None)
    word = str(data.get("error", "")) if isinstance(data, Mapping) else ""
    wait = str(getattr(response, "headers", {}).get("Retry-After", ""))
    if status == 429 or word in PASSING:
        after_s = float(wait) if wait.isdecimal() and len(wait) < 6 else None
        return Later(f"Slack answers {status} {word}".strip(), after_s=after_s)
    if status >= 500:
        return Later(f"Slack answers {status}", is_doubtful=True)
    if word == "message_not_found":
        return Gone(f"Slack refuses: {word}")
    needed = data.get("needed") if isinstance(data, Mapping) else None
    scope = f"; the app needs the scope {needed}" if needed else ""
    return Refused(f"Slack refuses: {word[:80] or status}{scope}")
