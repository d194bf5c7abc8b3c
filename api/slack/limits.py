"""Slack's limits, and messages cut so that they meet all of them: over any one, the whole message is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Block = dict[str, Any]

MAX_BLOCKS = 50
MAX_SECTION = 3000
MAX_HEADER = 150
MAX_FIELDS, MAX_FIELD = 10, 2000
MAX_CONTEXT = 10
MAX_ACTIONS = 25
MAX_BUTTON, MAX_VALUE, MAX_URL, MAX_ID = 75, 2000, 3000, 255
MAX_MESSAGE = 13_200
"""All blocks together, as JSON: near that length Slack answers msg_blocks_too_long."""

MAX_TEXT = 4000
"""The fallback; more is cut by Slack itself."""

MORE = "_…more in the thread and in Argus_"


def fitted(blocks: Sequence[Block]) -> list[Block]:
    """The blocks within every limit: long texts cut, what is too much left out from the end, and said to be.

    Buttons and what stands last in the message stay: they come after the cut.
    """
    fit = [_block(block) for block in blocks]
    if len(fit) <= MAX_BLOCKS and size(fit) <= MAX_MESSAGE:
        return fit
    tail = [fit.pop()] if fit and fit[-1]["type"] == "actions" else []
    tail = [{"type": "context", "elements": [{"type": "mrkdwn", "text": MORE}]}, *tail]
    while fit and (len(fit) + len(tail) > MAX_BLOCKS or size([*fit, *tail]) > MAX_MESSAGE):
        fit.pop()
    return [*fit, *tail]


def size(blocks: Sequence[Mapping[str, Any]]) -> int:
    """Characters of the blocks as they are sent."""
    return len(json.dumps(list(blocks), ensure_ascii=False, separators=(",", ":")))


def cut(text: str, limit: int) -> str:
    """At most `limit` characters; a code block that is cut is closed again, an entity is not cut in two."""
    if len(text) <= limit:
        return text
    shorter = text[: limit - 5]
    amp = shorter.rfind("&", len(shorter) - 4)
    shorter = shorter[:amp] if amp >= 0 and ";" not in shorter[amp:] else shorter
    is_open = shorter.count("```") % 2 == 1
    shorter = shorter.rstrip("`") if is_open and shorter.endswith("`") else shorter
    is_span = not is_open and shorter.replace("```", "").count("`") % 2 == 1
    return shorter + ("…```" if is_open else "`…" if is_span else "…")


def _block(block: Block) -> Block:
    kind = block["type"]
    if kind == "section":
        made = dict(block)
        if "text" in block:
            made["text"] = _text(block["text"], MAX_SECTION)
        if "fields" in block:
            made["fields"] = [_text(one, MAX_FIELD) for one in block["fields"][:MAX_FIELDS]]
        return made
    if kind == "header":
        return {**block, "text": _text(block["text"], MAX_HEADER)}
    if kind == "context":
        return {**block, "elements": [_text(one, MAX_FIELD) for one in block["elements"][:MAX_CONTEXT]]}
    if kind == "actions":
        return {**block, "elements": [_button(one) for one in block["elements"][:MAX_ACTIONS]]}
    return block


def _text(text: Mapping[str, Any], limit: int) -> Block:
    return {**text, "text": cut(str(text["text"]), limit) or " "}


def _button(button: Mapping[str, Any]) -> Block:
    """A button; a value or URL that is too long cannot be cut, so the button is without it."""
    made = {
        **button,
        "text": _text(button["text"], MAX_BUTTON),
        "action_id": str(button["action_id"])[:MAX_ID],
    }
    if len(str(made.get("url", ""))) > MAX_URL:
        del made["url"]
    if len(str(made.get("value", ""))) > MAX_VALUE:
        del made["value"]
    return made
