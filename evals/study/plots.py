"""Plots of the study as SVG text, made by hand: axes, lines, cells and words are all it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 640, 300
LEFT, TOP, RIGHT, BOTTOM = 60, 20, 180, 50
COLOURS = ("#1b6ca8", "#c8553d", "#588b4f", "#8d6a9f", "#b8860b", "#555555")


def lines(title: str, series: Mapping[str, Sequence[tuple[str, float]]], *, y_label: str) -> str:
    """Lines over named points on the x axis, y from 0 to 1."""
    names = list(dict.fromkeys(x for points in series.values() for x, _ in points))
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: str, y: float) -> tuple[float, float]:
        place = names.index(x) / max(len(names) - 1, 1)
        return LEFT + place * plot_width, TOP + (1.0 - min(max(y, 0.0), 1.0)) * plot_height

    parts = [_text(LEFT, 14, title, size=13)]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = at(names[0], tick)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 32, y + 4, f"{tick:.2f}"))
    parts += [_text(at(name, 0.0)[0] - 12, HEIGHT - BOTTOM + 18, name) for name in names]
    parts.append(_text(4, TOP + plot_height / 2, y_label))
    for i, (name, points) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(WIDTH - RIGHT + 12, TOP + 16 * (i + 1), name, colour=colour))
    return _svg("".join(parts), height=HEIGHT)


def heat(
    title: str, rows: Sequence[str], columns: Sequence[str], *, value: Mapping[tuple[str, str], float]
) -> str:
    """Cells coloured from white (0) to blue (1), with their numbers."""
    height = TOP + 30 + 20 * len(rows) + 10
    cell = (WIDTH - 150) / max(len(columns), 1)
    parts = [_text(4, 14, title, size=13)]
    parts += [_text(150 + j * cell + 3, TOP + 18, name) for j, name in enumerate(columns)]
    for i, row in enumerate(rows):
        y = TOP + 26 + 20 * i
        parts.append(_text(4, y + 14, row))
        for j, column in enumerate(columns):
            got = value.get((row, column))
            if got is None:
                continue
            shade = round(255 - 150 * min(max(got, 0.0), 1.0))
            x = 150 + j * cell
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{cell - 2:.1f}" height="18" fill="rgb({shade},{shade},255)"/>'
            )
            parts.append(_text(x + 4, y + 13, f"{got:.2f}"))
    return _svg("".join(parts), height=height)


def _svg(body: str, *, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>{body}</svg>\n'
    )


def _text(x: float, y: float, text: str, *, size: int = 11, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}">{escape(text)}</text>'
