"""Reference tables of the documentation, made from the code: settings, metrics, tools, runbooks.

Each stands in its page between two markers; what is around them is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from argus.agent.registry import registry
from argus.agent.runbooks.catalogue import built_in
from argus.analytics.classes import CauseClass, cause_classes
from argus.api.metrics import METRICS
from argus.api.settings import settings_table

LINK = re.compile(r"docs/([a-z-]+)\.md")
"""How a meaning in the code names a page; in the page it is a link."""

VARIABLE = re.compile(r"\$([A-Z]+)")


class PageError(ValueError):
    """A page without its markers; the message names it."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A Markdown table.

    >>> table(("name", "says"), [("a", "x|y, see docs/web.md")])
    '| name | says |\n|---|---|\n| a | x\\|y, see [web](web.md) |'
    """
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(_cell, row))} |" for row in rows)])


def _cell(text: str) -> str:
    return LINK.sub(r"[\1](\1.md)", " ".join(text.split()).replace("|", "\\|"))


def settings() -> str:
    """Every setting of the service."""
    rows = [
        (f"`{name}`", f"`{env}`", f"`{default}`" if default else "", meaning)
        for name, env, default, meaning in settings_table()
    ]
    return table(("name", "environment", "default", "meaning"), rows)


def metrics() -> str:
    """Every family on the service's /metrics."""
    rows = [(f"`{name}`", kind, labels, meaning) for name, kind, labels, meaning in METRICS]
    return table(("name", "type", "labels", "meaning"), rows)


def tools() -> str:
    """Every tool with its arguments."""
    rows = []
    for tool in registry().tools.values():
        taken = ", ".join(f"`{argument.name}`" for argument in tool.arguments)
        rows.append((f"`{tool.name}`", taken, tool.description.split("\n\n")[0]))
    return table(("tool", "arguments", "says"), rows)


def runbooks() -> str:
    """What ships of runbooks, a section for each cause class; then the actions that no single class owns."""
    sections = [_runbook(known) for known in cause_classes().values()]
    general = [remedy for remedy in built_in().values() if not remedy.classes]
    rows = [(f"`{one.id}`", one.title, f"`{_filled(one.command)}`", one.owner) for one in general]
    shared = table(("action", "what it does", "command", "owner"), rows)
    return "\n\n".join([*sections, f"## Actions of no single class\n\nAll of them only look.\n\n{shared}"])


def _filled(command: str) -> str:
    """What the incident fills in, as documentation writes it."""
    return VARIABLE.sub(r"<\1>", command)


def _runbook(known: CauseClass) -> str:
    near = [f"- not `{other}`: {apart}" for other, apart in known.near_miss.items()]
    command = f"\n\n```text\n{_filled(known.command)}\n```" if known.command else ""
    parts = [
        f"## {known.id}",
        f"{known.definition} Owner: {known.owner}.",
        f"**Look first** (changes nothing): {known.next_step}{command}",
        f"**If it returns** (changes something): {known.if_it_returns}",
        *(["\n".join(near)] if near else []),
    ]
    return "\n\n".join(parts)


TABLES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "settings": ("settings.md", settings),
    "metrics": ("metrics.md", metrics),
    "tools": ("tools.md", tools),
    "runbooks": ("runbooks.md", runbooks),
}
"""Page and maker of each table."""


def written(text: str, name: str) -> str:
    """A page's text with its table as the code has it. Raises PageError."""
    page, make = TABLES[name]
    begin, end = f"<!-- reference {name} -->\n", f"\n<!-- end {name} -->"
    before, is_begun, rest = text.partition(begin)
    _, is_ended, after = rest.partition(end)
    if not is_begun or not is_ended:
        raise PageError(f"{page} lacks the markers {begin.strip()} and {end.strip()}")
    return f"{before}{begin}{make()}{end}{after}"


def stale_pages(docs: Path) -> dict[Path, str]:
    """Pages whose table is not as the code has it, with the text they should have. Raises PageError, OSError."""
    found = {}
    for name, (page, _) in TABLES.items():
        path = docs / page
        text = path.read_text(encoding="utf-8")
        if (wanted := written(text, name)) != text:
            found[path] = wanted
    return found
