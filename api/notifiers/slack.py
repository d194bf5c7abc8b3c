"""Slack with a bot token: one message per incident, edited in place, with evidence and answers in its thread."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from argus.api.notifiers._sending import checked_floor, checked_url
from argus.api.notify.decide import AGAIN, OPENED, RESOLVED, WORSE, Rules
from argus.api.notify.matter import own_key
from argus.api.notify.notifier import Delivery, Digest, Json, Keep, Means, Refused
from argus.api.slack import render

if TYPE_CHECKING:
    from argus.api.slack.client import SlackClient

SECRETS = ("token", "app_token", "signing_secret")

CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{4,30}")
"""An id, not a name: a channel can be renamed, and what is said in it comes with its id."""

LOOK_BACK_S = 900.0
"""How far back a message is looked for of which nobody knows whether it went out."""


def notifier(
    means: Means,
    *,
    token: str = "",
    channel: str = "",
    severity: str = "warning",
    cooldown_s: float = 1800.0,
    app_token: str = "",
    signing_secret: str = "",
    api_url: str = "https://slack.com/api/",
) -> Slack:
    """`token` (xoxb-…) posts to `channel` (its id) what is at least `severity`; a cause that comes back within
    `cooldown_s` stays in its message. `app_token` (xapp-…) hears buttons and questions by Socket Mode,
    `signing_secret` by HTTP; `api_url` is Slack's Web API.
    """
    from argus.api.slack.client import SlackClient

    if not token.startswith("xox"):
        raise ValueError("token: set ARGUS_SLACK_TOKEN to the bot token of your app, it begins with xoxb-")
    if not CHANNEL_ID.fullmatch(channel):
        raise ValueError("channel: set ARGUS_SLACK_CHANNEL to the channel's id, such as C0123456789")
    return Slack(
        client=SlackClient(token, base_url=checked_url(api_url) + "/"),
        channel=channel,
        floor=checked_floor(severity),
        cooldown_s=cooldown_s,
        hears=bool(app_token or signing_secret),
        is_looking=means.has_agent,
    )


@dataclass(frozen=True, kw_only=True)
class Slack:
    """See the module. `hears`: buttons and questions reach us. `is_looking`: the agent looks at what is posted."""

    client: SlackClient
    channel: str
    floor: str
    cooldown_s: float
    hears: bool
    is_looking: bool
    is_paced: bool = True
    can_edit: bool = True
    obeys_alertmanager: bool = True

    @property
    def rules(self) -> Rules:
        """One message per cause within the cooldown."""
        return Rules(floor=self.floor, cooldown_s=self.cooldown_s)

    def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
        """Bring the message, then its thread, to what is known now; each step is kept before the next.

        Where somebody has deleted the message, what must be noticed is said in a new one, and the rest is left.
        """
        from argus.api.slack.client import Gone

        try:
            self._bring(delivery, held, keep)
        except Gone:
            if delivery.news in (OPENED, AGAIN, WORSE):
                self._bring(replace(delivery, news=OPENED), {}, keep)

    def _bring(self, delivery: Delivery, held: Json, keep: Keep) -> None:
        matter = delivery.matter
        text = render.message(
            matter, times=delivery.times, is_looking=self.is_looking, has_buttons=self.hears
        )
        key = own_key(matter.project, matter.incident.id)
        held = self._root(held, keep, text, key=key, delivery=delivery)
        held = self._evidence(held, keep, delivery)
        self._word(held, keep, delivery)

    def tell_digest(self, digest: Digest, *, held: Json, keep: Keep) -> None:
        """One message per digest, edited as it grows."""
        from argus.api.slack.client import Gone

        text, key = render.digest(digest), own_key(digest.project, digest.topic)
        if "ts" in held:
            with suppress(Gone):
                self.client.edit(held["channel"], held["ts"], text, key=key)
                return
        channel, ts = self._posted(
            self.channel, text, key=key, is_doubtful=digest.is_doubtful, now_s=digest.now_s
        )
        keep({**held, "channel": channel, "ts": ts})

    def _root(self, held: Json, keep: Keep, text: render.SlackText, *, key: str, delivery: Delivery) -> Json:
        if "ts" in held:
            self.client.edit(held["channel"], held["ts"], text, key=key)
            return held
        channel, ts = self._posted(
            self.channel, text, key=key, is_doubtful=delivery.is_doubtful, now_s=delivery.now_s
        )
        held = {**held, "channel": channel, "ts": ts}
        keep(held)
        return held

    def _evidence(self, held: Json, keep: Keep, delivery: Delivery) -> Json:
        """The thread's first reply; another one when the agent has changed what is known."""
        from argus.api.slack.client import Gone

        matter = delivery.matter
        stamp = f"{matter.incident.id}/{matter.outcome_id}"
        if held.get("evidence") == stamp:
            return held
        text, key = render.thread(matter), own_key(matter.project, f"{matter.incident.id}/evidence")
        if held.get("evidence_ts") and str(held.get("evidence", "")).startswith(f"{matter.incident.id}/"):
            with suppress(Gone):
                self.client.edit(held["channel"], held["evidence_ts"], text, key=key)
            held = {**held, "evidence": stamp}
        else:
            _, ts = self._posted(
                held["channel"],
                text,
                key=key,
                thread=held["ts"],
                is_doubtful=delivery.is_doubtful,
                now_s=delivery.now_s,
            )
            held = {**held, "evidence": stamp, "evidence_ts": ts}
        keep(held)
        return held

    def _word(self, held: Json, keep: Keep, delivery: Delivery) -> None:
        """A word in the thread where something must be noticed; seen by the channel only if it got worse."""
        said: dict[str, Callable[[], render.SlackText]] = {
            WORSE: lambda: render.worse(delivery.matter),
            AGAIN: lambda: render.worse(delivery.matter),
            RESOLVED: lambda: render.ended(delivery.matter),
        }
        stamp = f"{delivery.news}/{delivery.matter.told}"
        if delivery.news not in said or held.get("word") == stamp:
            return
        is_broadcast = delivery.news == WORSE and not delivery.is_quiet
        key = own_key(delivery.matter.project, f"{delivery.matter.incident.id}/{delivery.news}")
        self._posted(
            held["channel"],
            said[delivery.news](),
            key=key,
            thread=held["ts"],
            is_broadcast=is_broadcast,
            is_doubtful=delivery.is_doubtful,
            now_s=delivery.now_s,
        )
        keep({**held, "word": stamp})

    def _posted(
        self,
        channel: str,
        text: render.SlackText,
        *,
        key: str,
        is_doubtful: bool,
        now_s: float,
        thread: str | None = None,
        is_broadcast: bool = False,
    ) -> tuple[str, str]:
        """Post, or bring an earlier try that went out to what is known now; where the channel may not be read, it is sent
        again.
        """
        if is_doubtful:
            try:
                ts = self.client.find(channel, key=key, since_s=now_s - LOOK_BACK_S, thread=thread)
            except Refused:
                ts = None
            if ts is not None:
                self.client.edit(channel, ts, text, key=key)
                return channel, ts
        return self.client.post(channel, text, key=key, thread=thread, is_broadcast=is_broadcast)
