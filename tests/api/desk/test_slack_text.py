"""What reaches Slack: every limit met, whatever is said; nothing of others can ping, link or format."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from argus.api.notify.matter import Matter
from argus.api.notify.notifier import Digest, DigestLine
from argus.api.slack import limits, render
from argus.api.slack.double_limits import fault_of
from argus.api.slack.limits import Block, fitted
from argus.api.slack.text import code, escaped, name, plain
from tests.api.desk.kit import an_incident

PLANTED = (
    "<!channel> now",
    "<!here|x>",
    "<!subteam^S123>",
    "<@U0123ABC>",
    "<#C0123ABC|general>",
    "<https://evil.example|click>",
    "https://evil.example/x?a=b",
    "http://evil.example",
    "slack://open",
    "www.evil.example",
    "mailto:a@evil.example",
    "@channel and @here and @everyone",
    "*bold* _it_ ~no~ `code` ```block```",
    "line\nbreak\r\n> quote\n• list",
    "\u202egnp.exe\x1b[2J\x00",
    "&lt;!channel&gt; &amp;amp;",
    "a" * 5000,
    "<" * 5000,
)
_CONTROL = re.compile(r"<[^>]*>")
_LINK = re.compile(r"(?:https?|slack|ftp)://|\bwww\.\w|mailto:\w", re.IGNORECASE)
_CODE = re.compile(r"```.*?```", re.DOTALL)
_PING = re.compile(r"@(?:channel|here|everyone|U)")


def strings(value: Any) -> list[str]:
    """Every text in blocks."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in strings(item)]


def assert_harmless(text: render.SlackText, *, own_link: str = "") -> None:
    for shown in [*strings(text.blocks), text.text]:
        bare = shown.replace(own_link, "") if own_link else shown
        assert not _CONTROL.search(bare.replace("<|open in Argus>", "")), bare
        outside = _CODE.sub("", bare)
        assert not _LINK.search(outside) and not _PING.search(outside), bare
        assert all(char.isprintable() or char in "\n\u2060" for char in bare), bare
    assert fault_of({"text": text.text, "blocks": text.blocks}) == ""


@pytest.mark.parametrize("text", PLANTED)
@pytest.mark.parametrize("show", [escaped, name, code, plain])
def test_foreign_text_stays_text(text: str, show: Any) -> None:
    shown = show(text, limit=200)
    assert len(shown) <= 200
    assert not _CONTROL.search(shown)
    if show is not plain:  # which knows no code
        assert "`" not in shown.strip("`")
    if show is not code:  # nor names and links in code
        assert not _LINK.search(shown) and not _PING.search(shown)


def test_escaped_text_cannot_be_cut_into_an_entity() -> None:
    for limit in range(8, 40):
        assert re.fullmatch(r"(?:&(?:amp|lt|gt);|[^&<>])*", escaped("a<b&c>" * 20, limit=limit))


def planted_matter(text: str) -> Matter:
    """A matter that carries a text wherever text of others may stand."""
    incident = an_incident(headline=text)
    diagnosis = json.loads(json.dumps(incident.diagnosis))
    for action in diagnosis["remediation"]:
        action |= {"action": text, "command": text, "verify_by": text}
    for item in diagnosis["ruled_out"]:
        item |= {"why": text, "fault_class": text}
    for claim in diagnosis["claims"]:
        claim["text"] = text
    diagnosis |= {"missing_evidence": [text, text], "second_best": text}
    diagnosis["separation"] = {"command": text, "first_if": text, "second_if": text}
    diagnosis |= {"stage": "agent", "agent": {"note": text}}
    from dataclasses import replace

    from argus.analytics.store.marks import Mark

    marks = tuple(
        Mark(incident_id=incident.id, at_s=1.0, what=what, by=text, text=text)
        for what in ("acknowledged", "wrong")
    )
    cause = replace(incident.cause, scope=text, group=text)
    return Matter(
        incident=replace(incident, run=text, cause=cause, ended=text, diagnosis=diagnosis),
        opened_s=1e9,
        updated_s=1e9 + 60,
        hosts=(text, text),
        outcome=diagnosis,
        outcome_id="v-1",
        marks=marks,
        muted_until_s=2e9,
        link="https://argus.internal/#/incident/i-1",
    )


@pytest.mark.parametrize("text", PLANTED)
def test_nothing_planted_anywhere_gets_through(text: str) -> None:
    matter = planted_matter(text)
    for made in (
        render.message(matter, times=3, is_looking=True, has_buttons=True),
        render.thread(matter),
        render.ended(matter),
        render.worse(matter),
        render.said(f"{text}\n{text}", note=text),
        render.digest(
            Digest(topic="t", title=text, lines=(DigestLine(run=text, text=text, count=3),), now_s=0.0)
        ),
    ):
        assert_harmless(made, own_link=matter.link)


def test_the_first_screen_says_who_why_what_not_and_what_next() -> None:
    matter = planted_matter("plain")
    matter = Matter(incident=an_incident(), opened_s=1e9, updated_s=1e9, hosts=("h-0001",))
    made = render.message(matter, times=2, is_looking=True, has_buttons=True)
    shown = json.dumps(made.blocks, ensure_ascii=False)
    for part in ("job", "rank 2", "h-0001", "*Where*", "*Next*", "not `", "2. time", render.LOOKING):
        assert part in shown, part
    assert next(block["type"] for block in made.blocks) == "header"
    buttons = made.blocks[-1]["elements"]
    assert [one["action_id"] for one in buttons] == [action for action, _ in render.BUTTONS]
    assert {one["value"] for one in buttons} == {matter.incident.id}


# --- each limit, alone ---------------------------------------------------------------------------


def section(text: str) -> Block:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def taken(blocks: list[Block]) -> list[Block]:
    made = fitted(blocks)
    assert fault_of({"text": "x", "blocks": made}) == "", made
    return made


def test_at_most_fifty_blocks() -> None:
    buttons = {
        "type": "actions",
        "elements": [{"type": "button", "action_id": "a", "text": {"type": "plain_text", "text": "x"}}],
    }
    made = taken([*(section(str(i)) for i in range(80)), buttons])
    assert len(made) == limits.MAX_BLOCKS and made[-1]["type"] == "actions"
    assert made[-2]["elements"][0]["text"] == limits.MORE


def test_at_most_3000_characters_a_section() -> None:
    (made,) = taken([section("x" * 3001)])
    assert len(made["text"]["text"]) <= limits.MAX_SECTION
    assert taken([section("x" * 3000)]) == [section("x" * 3000)]


def test_a_code_block_that_is_cut_is_closed() -> None:
    (made,) = taken([section("```" + "y" * 4000 + "```")])
    assert made["text"]["text"].endswith("…```") and made["text"]["text"].count("```") == 2


def test_at_most_ten_fields_of_2000() -> None:
    fields = [{"type": "mrkdwn", "text": "f" * 2100} for _ in range(3)]
    (made,) = taken([{"type": "section", "fields": fields}])
    assert all(len(one["text"]) <= limits.MAX_FIELD for one in made["fields"])
    (many,) = taken([{"type": "section", "fields": [{"type": "mrkdwn", "text": "f"}] * 14}])
    assert len(many["fields"]) == limits.MAX_FIELDS


def test_at_most_150_characters_a_header() -> None:
    (made,) = taken([{"type": "header", "text": {"type": "plain_text", "text": "h" * 200}}])
    assert len(made["text"]["text"]) == limits.MAX_HEADER - 4 or len(made["text"]["text"]) <= 150


def test_at_most_ten_elements_of_context() -> None:
    (made,) = taken([{"type": "context", "elements": [{"type": "mrkdwn", "text": "c"}] * 12}])
    assert len(made["elements"]) == limits.MAX_CONTEXT


def test_at_most_25_buttons_of_75_with_values_of_2000_and_urls_of_3000() -> None:
    button = {
        "type": "button",
        "action_id": "a" * 300,
        "text": {"type": "plain_text", "text": "b" * 90},
        "value": "v" * 2001,
        "url": "u" * 3001,
    }
    (made,) = taken([{"type": "actions", "elements": [button] * 30}])
    assert len(made["elements"]) == limits.MAX_ACTIONS
    first = made["elements"][0]
    assert len(first["text"]["text"]) <= 75 and len(first["action_id"]) == 255
    assert "value" not in first and "url" not in first


def test_at_most_13200_characters_a_message() -> None:
    made = taken([section("z" * 2900) for _ in range(12)])
    assert limits.size(made) <= limits.MAX_MESSAGE and len(made) == 5


def test_an_empty_text_is_none() -> None:
    (made,) = taken([section("")])
    assert made["text"]["text"] == " "


def test_the_fallback_is_short() -> None:
    made = render.message(planted_matter("x" * 9000), times=1, is_looking=False, has_buttons=False)
    assert len(made.text) <= limits.MAX_TEXT
    assert len(render.said("w " * 9000).text) <= limits.MAX_TEXT


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"text": "x", "blocks": [section("y" * 3001)]}, "invalid_blocks"),
        ({"text": "x", "blocks": [section("y")] * 51}, "invalid_blocks"),
        ({"text": "x", "blocks": [section("y" * 2990)] * 5}, "msg_blocks_too_long"),
        (
            {"text": "x", "blocks": [{"type": "header", "text": {"type": "mrkdwn", "text": "h"}}]},
            "invalid_blocks",
        ),
        ({"text": "x", "blocks": [{"type": "context", "elements": []}]}, "invalid_blocks"),
        ({"text": "x", "blocks": [{"type": "made_up"}]}, "invalid_blocks"),
        ({"text": "x" * 40_001}, "msg_too_long"),
        ({"text": "x", "blocks": [section("y")]}, ""),
    ],
)
def test_the_stand_in_refuses_what_slack_does(body: dict[str, Any], fault: str) -> None:
    assert fault_of(body) == fault
