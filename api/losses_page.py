"""A loss report as one page of HTML that needs nothing else and trusts no text of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; }
td, th { padding: 0.25em 0.8em; border-bottom: 1px solid #ddd; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.bar { background: #c33; height: 0.7em; display: inline-block; }
small { color: #666; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; } td, th { border-color: #444; } }
"""


def page(report: Mapping[str, Any]) -> str:
    """The page of what `argus report --json` prints."""
    title = escape(f"What run {report['run']} lost")
    head = f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head><body>'
    parts = [
        "<!doctype html>",
        head,
        f"<h1>{title}</h1>",
        f"<p>{escape(report['paragraph'])}</p>",
        "<h2>GPU-hours by cause</h2>",
        _causes(report),
        "<h2>What every step pays</h2>",
        _gains(report["gains"]),
        f"<p><small>Not known: {escape('; '.join(report['lacks']) or 'nothing')}.</small></p>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _causes(report: Mapping[str, Any]) -> str:
    rows = {**report["by_class"], "no incident's": report["unexplained"], "all": report["lost"]}
    return _table(
        ("cause", "GPU-hours", "share", "in steps ≥ 2× baseline", ""),
        (
            (name, _number(loss["hours"]), _percent(loss["share"]), _number(loss["far_hours"]), _bar(loss))
            for name, loss in rows.items()
        ),
    )


def _gains(gains: Iterable[Mapping[str, Any]]) -> str:
    return _table(
        ("", "share of step", "gain a step", "GPU-hours a day", "how it was found"),
        (
            (
                gain["name"],
                _percent(gain["share"]),
                f"{gain['gain_s_per_step'] * 1e3:.3g} ms",
                _number(gain["gpu_hours_per_day"]),
                f"{gain['method']}. {gain['note']}",
            )
            for gain in gains
        ),
    )


class _Html(str):
    """Text that is HTML of ours already."""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def _cell(text: str) -> str:
    if isinstance(text, _Html):
        return f"<td>{text}</td>"
    kind = ' class="n"' if text[:1].isdigit() else ""
    return f"<td{kind}>{escape(text)}</td>"


def _bar(loss: Mapping[str, Any]) -> str:
    return _Html(f'<span class="bar" style="width:{min(float(loss["share"]), 1.0) * 20:.2f}em"></span>')


def _number(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{value:.2%}"
