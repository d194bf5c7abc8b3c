"""Plots with numbers on both axes as SVG text: curves, and stated beside seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from argus.evals.rates import wilson
from argus.evals.scoreboard import Share

WIDTH, HEIGHT = 640, 320
LEFT, TOP, RIGHT, BOTTOM = 60, 30, 170, 44
TICKS = 5
COLOURS = (
    "#1b6ca8",
    "#c8553d",
    "#588b4f",
    "#8d6a9f",
    "#b8860b",
    "#555555",
    "#2a9d8f",
    "#d4749c",
    "#7a5230",
    "#3d405b",
)

Point = tuple[float, float]


def curves(
    series: Mapping[str, Sequence[Point]],
    *,
    x_label: str,
    y_label: str,
    x_end: float,
    steps: bool = False,
    names: Sequence[str] = (),
) -> str:
    """A line a series from 0 to `x_end` and from 0 to 1.

    `steps` = the value holds until the next point; `names` stand at 0, 1, … instead of numbers.
    """
    parts = [*_axes(x_label=x_label, y_label=y_label, x_end=x_end, names=names)]
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        drawn = list(_held(points) if steps else points)
        path = " ".join("{:.1f},{:.1f}".format(*_at(x / x_end, y)) for x, y in drawn)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2">'
            f"<title>{escape(name)}</title></polyline>"
        )
        x, y = _at(drawn[-1][0] / x_end, drawn[-1][1]) if drawn else _at(0, 0)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 14, TOP + 12 + 16 * number, name, colour=colour))
    return _svg("".join(parts))


def reliability(rows: Mapping[str, tuple[float, Share, Point]]) -> str:
    """Stated confidence across, share that was true up with its bounds; on the diagonal words mean what they say."""
    parts = [*_axes(x_label="stated", y_label="true", x_end=1.0)]
    (x0, y0), (x1, y1) = _at(0, 0), _at(1, 1)
    parts.append(
        f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="#bbb" stroke-dasharray="4"/>'
    )
    for number, (name, (stated, share, (low, high))) in enumerate(rows.items()):
        colour = COLOURS[number % len(COLOURS)]
        x, y = _at(stated, share.part / share.whole)
        (_, bottom), (_, top) = _at(stated, low), _at(stated, high)
        parts.append(
            f'<line x1="{x:.1f}" y1="{bottom:.1f}" x2="{x:.1f}" y2="{top:.1f}" stroke="{colour}" stroke-width="2"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
        )
        words = f"{name} {share.part} of {share.whole}"
        parts.append(_text(WIDTH - RIGHT + 14, TOP + 12 + 16 * number, words, colour=colour))
    return _svg("".join(parts))


def shares(rows: Mapping[str, Share]) -> str:
    """A bar a row with its Wilson interval."""
    parts, height = [], TOP + 24 * len(rows) + 8
    plot = WIDTH - 300
    for number, (name, share) in enumerate(rows.items()):
        y, bounds = TOP + 24 * number, wilson(share.part, share.whole)
        parts.append(_text(4, y + 13, name))
        if bounds is None:
            parts.append(_text(200, y + 13, "not measured"))
            continue
        wide = plot * share.part / share.whole
        low, high = (200 + plot * bound for bound in bounds)
        parts.append(
            f'<rect x="200" y="{y}" width="{wide:.1f}" height="16" fill="{COLOURS[0]}" opacity="0.7"/>'
            f'<line x1="{low:.1f}" y1="{y + 8}" x2="{high:.1f}" y2="{y + 8}" stroke="#222"/>'
        )
        parts.append(_text(208 + plot, y + 13, f"{share.part} of {share.whole}"))
    return _svg("".join(parts), height=height)


def _held(points: Sequence[Point]) -> Iterator[Point]:
    before = 0.0
    for place, (x, y) in enumerate(points):
        if place:
            yield x, before
        yield x, y
        before = y


def _axes(*, x_label: str, y_label: str, x_end: float, names: Sequence[str] = ()) -> Iterator[str]:
    (left, bottom), (right, _) = _at(0, 0), _at(1, 0)
    for share in (number / TICKS for number in range(TICKS + 1)):
        _, y = _at(0, share)
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>'
        yield _text(LEFT - 34, y + 4, f"{share:.1f}")
    ticks = {at / x_end: name for at, name in enumerate(names)} or {
        number / TICKS: f"{number / TICKS * x_end:.3g}" for number in range(TICKS + 1)
    }
    for share, name in ticks.items():
        yield _text(_at(share, 0)[0] - 8, bottom + 16, name)
    yield _text(LEFT + 140, HEIGHT - 6, x_label)
    yield _text(4, 12, y_label)


def _at(x: float, y: float) -> Point:
    """Pixels of a point given as shares of the axes; what lies beyond is drawn at the edge."""
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    return LEFT + min(max(x, 0.0), 1.0) * wide, TOP + (1.0 - min(max(y, 0.0), 1.0)) * high


def _svg(body: str, *, height: int = HEIGHT) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" font-family="sans-serif">{body}</svg>'
    )


def _text(x: float, y: float, text: str, *, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="{colour}">{escape(text)}</text>'
