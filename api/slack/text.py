"""Foreign text made safe for Slack: nothing in it can ping, link or format, whatever it holds."""

from __future__ import annotations

import re

from argus.collectors.records.text import tame

_LINE = re.compile(r"[\r\n\u2028\u2029\v\f]+")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{1,20}):(?=//)")
_BARE = re.compile(r"\b(www\.|mailto:|tel:)", re.IGNORECASE)
_PING = re.compile(r"@(?=\w)")
_CHANNEL = re.compile(r"#(?=[A-Za-z])")

WORD_JOINER = "\u2060"
"""Invisible and without width: it keeps Slack from seeing a name or a link in what it joins."""

_FORMAT = {"*": "\u2217", "~": "\u223c", "`": "\u02cb"}
"""Characters that format, as others that look like them; `_` is kept inside words, where it does not."""


def escaped(text: object, *, limit: int) -> str:
    """Foreign text as Slack text of at most `limit` characters, on one line.

    >>> escaped("<!channel> see http://evil.example/ & *now*", limit=80)
    '&lt;!channel&gt; see http:\u2060//evil.example/ &amp; \u2217now\u2217'
    """
    plain = _unlinked(_LINE.sub(" ", str(text)), limit)
    plain = "".join(_FORMAT.get(char, char) for char in plain)
    plain = re.sub(r"(?<!\w)_|_(?!\w)", "\u02cd", plain)
    return _cut(_entities(plain), limit)


def name(text: object, *, limit: int = 120) -> str:
    """A name of others as a code span: copied as it is, never formatted."""
    inner = _entities(_unlinked(_LINE.sub(" ", str(text)).replace("`", "\u02cb"), limit - 2))
    return f"`{_cut(inner, limit - 2) or ' '}`"


def code(text: object, *, limit: int) -> str:
    """A command as a block of code, to be copied as it is: nothing in it can end the block or open a tag.

    Names and addresses are left whole: Slack reads none of them in code that it is told to take verbatim.
    """
    lines = [tame(line, 2000).replace("`", "\u02cb") for line in str(text).splitlines()]
    return f"```{_cut(_entities(chr(10).join(lines)), limit - 6)}```"


def plain(text: object, *, limit: int) -> str:
    """Foreign text for a field of type plain_text, where Slack reads nothing but emoji names."""
    told = _unlinked(_LINE.sub(" ", str(text)), limit).replace("<", "\u2039").replace(">", "\u203a")
    return told if len(told) <= limit else told[: limit - 1] + "…"


def _unlinked(text: str, limit: int) -> str:
    """Without control characters; links and names of people and channels broken invisibly."""
    told = tame(text, limit + 1)
    told = _SCHEME.sub(rf"\1:{WORD_JOINER}", told)
    told = _BARE.sub(lambda match: f"{match[0][:-1]}{WORD_JOINER}{match[0][-1]}", told)
    return _CHANNEL.sub(f"#{WORD_JOINER}", _unpinged(told))


def _unpinged(text: str) -> str:
    return _PING.sub(f"@{WORD_JOINER}", text)


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str, limit: int) -> str:
    """At most `limit` characters, never in the middle of an entity."""
    if len(text) <= limit:
        return text
    return re.sub(r"&[a-z]{0,3}$", "", text[: limit - 1]) + "…"
