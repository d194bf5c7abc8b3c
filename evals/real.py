"""`argus eval real`: public recordings through `argus triage`, their published answers beside what came out."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from argus.api.cli import main as argus
from argus.api.cli.errors import CliError
from argus.api.cli.paths import path
from argus.evals.bench.series import read_file
from argus.evals.series_score import Score, score_series
from argus.evals.series_score import table as score_table

EXPECTED = Path(__file__).with_name("real.toml")
ITERATION_TIMES = "iteration-time"
"""Folder below the data whose series are scored one and all."""

ALL_RIGHT, SOME_WRONG, NOTHING = 0, 1, 2
MAX_SHOWN = 160
"""Characters of an answer that are printed."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One rule about one place of the answer."""

    at: str
    rule: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Item:
    """A recording with its published answer; `series` picks one of several by parts of its name."""

    item: str
    path: str
    source: str
    expected: str
    checks: tuple[Check, ...]
    series: tuple[str, ...] = ()


def expected_answers(path: Path = EXPECTED) -> tuple[Item, ...]:
    """All items of the file of expected answers."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["item"]
    return tuple(
        Item(
            **{key: row[key] for key in ("item", "path", "source", "expected")},
            series=tuple(row.get("series", ())),
            checks=tuple(
                Check(at=one["at"], rule={k: v for k, v in one.items() if k != "at"}) for one in row["checks"]
            ),
        )
        for row in rows
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `argus eval real`."""
    parser.add_argument("--data", type=path, required=True, metavar="DIR", help="folder of the recordings")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    """0 if every answer is the published one and L1 keeps its budget, 1 if not, 2 if nothing is there."""
    items = expected_answers()
    if not any(os.path.exists(args.data / item.path) for item in items):
        raise CliError(
            f"{args.data} holds none of the recordings, for instance {items[0].path}", code=NOTHING
        )
    rows = list(_progress(items, args.data))
    score = _score(args.data / ITERATION_TIMES)
    report = {"items": rows, "l1_false_alarms": score.to_json() if score else None}
    print(json.dumps(report, default=str) if args.json else render(rows, score))
    is_right = all(row["ok"] for row in rows) and (score is None or score.ok)
    return ALL_RIGHT if is_right else SOME_WRONG


def _progress(items: Sequence[Item], data: Path) -> Iterator[dict[str, Any]]:
    answer = cache(_answer)
    for number, item in enumerate(items, start=1):
        print(f"argus eval: {number} of {len(items)}: {item.item}", file=sys.stderr, flush=True)
        yield judged(item, answer(data / item.path) if (data / item.path).exists() else None)


def _score(folder: Path) -> Score | None:
    files = sorted(folder.glob("*.json"))
    if not files:
        return None
    print(f"argus eval: the series of {folder.name}", file=sys.stderr, flush=True)
    return score_series({name: values for path in files for name, values in read_file(path).items()})


def _answer(path: Path) -> dict[str, Any]:
    """What `argus triage PATH --json` prints and says."""
    out, said = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(said):
        code = argus(["triage", str(path), "--json"])
    printed = json.loads(out.getvalue()) if out.getvalue().strip() else {}
    return {**printed, "exit": code, "said": said.getvalue()}


def judged(item: Item, answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """The item's line of the report; None = the recording is not there."""
    if answer is not None and item.series:
        answer = _picked(answer, item.series)
    if answer is None:
        got, is_right = "not there", False
    else:
        seen = {check.at: values_at(answer, check.at) for check in item.checks}
        got = "; ".join(f"{at} {_short(value)}" for at, value in seen.items())
        is_right = all(holds(seen[check.at], check.rule) for check in item.checks)
    return {
        "item": item.item,
        "path": item.path,
        "source": item.source,
        "expected": item.expected,
        "got": got,
        "ok": is_right,
    }


def _picked(answer: Mapping[str, Any], parts: Sequence[str]) -> Mapping[str, Any] | None:
    """The one series whose name holds all parts."""
    series = [one for one in answer.get("series", ()) if all(part in one["name"] for part in parts)]
    return series[0] if len(series) == 1 else None


def values_at(value: Any, at: str) -> Any:
    """The value at a place such as `incidents/*/suspects`; None where there is none, or no list to gather from.

    >>> values_at({"a": [{"b": 1}, {"b": 2}]}, "a/*/b")
    [1, 2]
    """
    key, _, rest = at.partition("/")
    if key == "*":
        if not isinstance(value, list):
            return None
        parts = [values_at(one, rest) if rest else one for one in value]
        lists = [part for part in parts if isinstance(part, list)]
        return [one for part in lists for one in part] if "*" in rest else parts
    inner = value.get(key) if isinstance(value, Mapping) else None
    return values_at(inner, rest) if rest else inner


def holds(value: Any, rule: Mapping[str, Any]) -> bool:
    """Whether a value keeps a rule; ValueError for a rule that does not exist."""
    (name,) = [key for key in rule if key != "within"]
    if name not in RULES:
        raise ValueError(f"no rule {name!r}; there are {', '.join(RULES)}")
    return RULES[name](value, rule[name], float(rule.get("within", 0.0)))


def _is_near(value: Any, wanted: float, within: float) -> bool:
    return isinstance(value, int | float) and abs(value - wanted) <= within


RULES: Mapping[str, Callable[[Any, Any, float], bool]] = {
    "equals": lambda value, wanted, _: bool(value == wanted),
    "near": _is_near,
    "at_most": lambda value, wanted, _: isinstance(value, int | float) and value <= wanted,
    "has": lambda value, wanted, _: value is not None and wanted in value,
    "lacks": lambda value, wanted, _: value is not None and wanted not in value,
    "has_near": lambda value, wanted, within: any(_is_near(one, wanted, within) for one in value or ()),
    "all_near": lambda value, wanted, within: (
        bool(value) and all(_is_near(one, wanted, within) for one in value)
    ),
}


def _short(value: object) -> str:
    text = json.dumps(value, default=str) if not isinstance(value, str) else value.strip().replace("\n", " ")
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def render(rows: Sequence[Mapping[str, Any]], score: Score | None) -> str:
    """Wrong answers first, then all of them, then the table of the series."""
    wrong = [row for row in rows if not row["ok"]]
    lines = [f"WRONG {row['item']}: expected {row['expected']}; got {row['got']}" for row in wrong]
    lines.append(f"{len(rows) - len(wrong)} of {len(rows)} recordings give their published answer\n")
    lines += ["| recording | expected | got | |", "|---|---|---|---|"]
    lines += [
        f"| {row['item']} | {row['expected']} | {row['got']} | {'right' if row['ok'] else 'WRONG'} |"
        for row in rows
    ]
    return "\n".join([*lines, *(["", score_table(score)] if score else [])])
