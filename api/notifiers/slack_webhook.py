"""Slack by an incoming webhook: set up in half a minute, but it can neither edit nor answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from argus.api.notifiers._sending import checked_floor, checked_url
from argus.api.notify.decide import AGAIN, OPENED, RESOLVED, WORSE, Rules
from argus.api.notify.notifier import Delivery, Digest, Json, Keep, Later, Means, Refused
from argus.api.slack import render

SECRETS = ("url",)

TIMEOUT_S = 10


def notifier(
    means: Means, *, url: str = "", severity: str = "warning", cooldown_s: float = 1800.0
) -> SlackWebhook:
    """`url` is the webhook (a secret), `severity` the least that is told."""
    return SlackWebhook(url=checked_url(url), floor=checked_floor(severity), cooldown_s=cooldown_s)


@dataclass(frozen=True, kw_only=True)
class SlackWebhook:
    """See the module. A message whose sending was cut off is not sent again: nobody can look whether it is there."""

    url: str = field(repr=False)
    floor: str
    cooldown_s: float
    is_paced: bool = True
    can_edit: bool = False
    obeys_alertmanager: bool = True

    @property
    def rules(self) -> Rules:
        """One message per cause within the cooldown, and its end."""
        return Rules(floor=self.floor, cooldown_s=self.cooldown_s)

    def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
        """The beginning, what is worse and the end; changes of detail cannot be edited in and are left out."""
        if delivery.news == RESOLVED:
            self._send(render.ended(delivery.matter))
        elif delivery.news in (OPENED, WORSE, AGAIN) and not delivery.is_doubtful:
            text = render.message(delivery.matter, times=delivery.times, is_looking=False, has_buttons=False)
            self._send(text)

    def tell_digest(self, digest: Digest, *, held: Json, keep: Keep) -> None:
        """Once; what comes in later in the same stretch of time is counted in the day's digest."""
        if not held and not digest.is_doubtful:
            self._send(render.digest(digest))
            keep({"is_sent": True})

    def _send(self, text: render.SlackText) -> None:
        from slack_sdk.webhook import WebhookClient

        from argus.api.slack.client import UNANSWERED

        client = WebhookClient(self.url, timeout=TIMEOUT_S, retry_handlers=[])
        try:
            answer = client.send(text=text.text, blocks=text.blocks, unfurl_links=False, unfurl_media=False)
        except UNANSWERED as error:
            is_refused = isinstance(getattr(error, "reason", error), ConnectionRefusedError)
            raise Later(
                f"Slack does not answer ({type(error).__name__})", is_doubtful=not is_refused
            ) from None
        if answer.status_code == 200:
            return
        wait = str({key.lower(): value for key, value in answer.headers.items()}.get("retry-after", ""))
        if answer.status_code == 429 or answer.status_code >= 500:
            after_s = float(wait) if wait.isdecimal() and len(wait) < 6 else None
            raise Later(f"Slack answers {answer.status_code}", after_s=after_s)
        raise Refused(f"Slack refuses the webhook with {answer.status_code} {answer.body[:80]!a}")
