"""The channels of the stand-in for Slack: messages, threads, edits, and what only one person sees."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class Unknown(LookupError):
    """What was named is not there; the message is Slack's word for it."""


class Rooms:
    """Any channel whose id begins with C exists."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self.whispers: list[Json] = []
        self._num = 0

    def post(self, body: Json) -> Json:
        """A new message."""
        channel = _channel(body)
        thread = body.get("thread_ts")
        if thread:
            self._find(channel, str(thread), "thread_not_found")
        self._num += 1
        ts = f"{1_700_000_000 + self._num}.{self._num:06d}"
        message = {**_told(body), "channel": channel, "ts": ts, "bot_id": "B0ARGUS", "edits": 0}
        if thread:
            message |= {"thread_ts": str(thread), "is_broadcast": bool(body.get("reply_broadcast"))}
        self.messages.append(message)
        return {"channel": channel, "ts": ts, "message": message}

    def update(self, body: Json) -> Json:
        """An edit."""
        channel = _channel(body)
        message = self._find(channel, str(body.get("ts")), "message_not_found")
        message.update(_told(body), edits=message["edits"] + 1)
        return {"channel": channel, "ts": message["ts"], "message": message}

    def whisper(self, body: Json) -> Json:
        """Something for one person."""
        self.whispers.append({**_told(body), "channel": _channel(body), "user": body.get("user")})
        return {"message_ts": f"{len(self.whispers)}.0"}

    def history(self, body: Json) -> Json:
        """Messages of a channel, the latest first, without threads."""
        channel = _channel(body)
        found = [m for m in self.messages if m["channel"] == channel and "thread_ts" not in m]
        return {"messages": [_shown(m, body) for m in found[::-1][: int(body.get("limit", 100))]]}

    def replies(self, body: Json) -> Json:
        """A thread, its first message first."""
        channel, ts = _channel(body), str(body.get("ts"))
        root = self._find(channel, ts, "thread_not_found")
        thread = [m for m in self.messages if m.get("thread_ts") == ts and m["channel"] == channel]
        return {"messages": [_shown(m, body) for m in (root, *thread)]}

    def _find(self, channel: str, ts: str, word: str) -> Json:
        for message in self.messages:
            if message["channel"] == channel and message["ts"] == ts:
                return message
        raise Unknown(word)


def _channel(body: Json) -> str:
    channel = str(body.get("channel", ""))
    if not channel.startswith("C"):
        raise Unknown("channel_not_found")
    return channel


def _told(body: Json) -> Json:
    return {name: body[name] for name in ("text", "blocks", "metadata") if name in body}


def _shown(message: Json, body: Json) -> Json:
    """Metadata is shown only where it is asked for."""
    shown = dict(message)
    if not body.get("include_all_metadata"):
        shown.pop("metadata", None)
    return shown
