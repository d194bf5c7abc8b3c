"""What a real workspace refuses in a message: written from Slack's documentation, apart from what we render with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

BLOCKS, MESSAGE, TEXT = 50, 13_200, 40_000
SECTION, FIELD, FIELDS, HEADER = 3000, 2000, 10, 150
CONTEXT, ACTIONS, BUTTON, VALUE, URL, ID = 10, 25, 75, 2000, 3000, 255


def fault_of(body: Mapping[str, Any]) -> str:
    """Slack's word for what is wrong with a message, "" if nothing is."""
    blocks = body.get("blocks")
    if not body.get("text") and not blocks and "metadata" in body:
        return "no_text"
    if len(str(body.get("text", ""))) > TEXT:
        return "msg_too_long"
    if blocks is None:
        return ""
    if not isinstance(blocks, list) or len(blocks) > BLOCKS:
        return "invalid_blocks"
    if len(json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))) > MESSAGE:
        return "msg_blocks_too_long"
    return "invalid_blocks" if any(fault for block in blocks for fault in _faults(block)) else ""


def _faults(block: Mapping[str, Any]) -> Iterator[str]:
    """Everything wrong with one block."""
    kind = block.get("type")
    if len(str(block.get("block_id", ""))) > ID:
        yield "block_id"
    if kind == "section":
        texts = [block["text"]] if "text" in block else []
        fields = block.get("fields", [])
        if not texts and not fields:
            yield "section without text"
        if any(not _is_text(one, SECTION) for one in texts):
            yield "text"
        if len(fields) > FIELDS or any(not _is_text(one, FIELD) for one in fields):
            yield "fields"
    elif kind == "header":
        text = block.get("text", {})
        if text.get("type") != "plain_text" or not _is_text(text, HEADER):
            yield "header"
    elif kind == "context":
        parts = block.get("elements", [])
        if not 0 < len(parts) <= CONTEXT or any(not _is_text(one, FIELD) for one in parts):
            yield "context"
    elif kind == "actions":
        parts = block.get("elements", [])
        if not 0 < len(parts) <= ACTIONS or any(not _is_button(one) for one in parts):
            yield "actions"
    elif kind != "divider":
        yield f"unknown type {kind!r}"


def _is_text(text: object, limit: int) -> bool:
    """A text object with one to `limit` characters."""
    if not isinstance(text, Mapping) or text.get("type") not in ("mrkdwn", "plain_text"):
        return False
    if "emoji" in text and text["type"] != "plain_text" or "verbatim" in text and text["type"] != "mrkdwn":
        return False
    said = text.get("text")
    return isinstance(said, str) and 0 < len(said) <= limit


def _is_button(button: Mapping[str, Any]) -> bool:
    return (
        button.get("type") == "button"
        and _is_text(button.get("text"), BUTTON)
        and 0 < len(str(button.get("action_id", ""))) <= ID
        and len(str(button.get("value", ""))) <= VALUE
        and len(str(button.get("url", ""))) <= URL
    )
