"""The whole study as items that stand alone: run in any order, in slices, and put together at the end."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from argus.analytics.kernels.settings import Settings
from argus.evals.bench import Size
from argus.evals.study import design
from argus.evals.study.healthy import PAPER_JOBS, healthy_job, jobs, total
from argus.evals.study.measure import PUBLISHED, Condition, run_condition

Row = dict[str, Any]

TOLERANCE = 0.01
"""F1 that may be lost on a condition."""

EFFECTS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08)
"""Least effects of a clear slowdown, the default detector's own surface."""


class BookError(ValueError):
    """What was to be gone on from cannot be, in words."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One piece of the study; `name` is unique in it and says where its row belongs."""

    name: tuple[str, ...]
    run: Callable[[], Row]


def items(size: Size, *, seed: int) -> list[Item]:
    """What the study of that size consists of: long conditions first, the healthy jobs last."""
    out: list[Item] = []
    for what, plan in (
        ("rows", design.conditions(size)),
        ("healthy rows", design.healthy_conditions(size)),
        ("sweep", design.sweep(size)),
    ):
        seeded = [replace(one, first_seed=seed) for one in plan]
        out += [
            Item(name=(what, str(n)), run=partial(run_condition_json, one)) for n, one in enumerate(seeded)
        ]
    out.sort(key=lambda item: -_weight(item))
    healthy = [
        Item(
            name=("healthy", str(n)),
            run=partial(healthy_job, size, seed=seed + n, is_paper=n < PAPER_JOBS),
        )
        for n in range(jobs(size))
    ]
    return [*out, *_surface_items(size, seed=seed), *healthy]


def items_again(done: Mapping[tuple[str, ...], Row], size: Size) -> list[Item]:
    """The conditions that the default lost, for fresh trials."""
    return [
        Item(name=("again", name[1]), run=partial(run_condition_json, design.again(row, size)))
        for name, row in sorted(done.items(), key=lambda pair: pair[0])
        if name[0] == "rows" and row["f1"]["default"] < row["f1"][PUBLISHED] - TOLERANCE
    ]


def _weight(item: Item) -> float:
    """Roughly how long an item takes."""
    condition = item.run.args[0] if isinstance(item.run, partial) else None
    assert isinstance(condition, Condition)
    return float(condition.ranks * condition.count * condition.seeds * condition.windows)


def _surface_items(size: Size, *, seed: int) -> Iterator[Item]:
    """Every value of every parameter on every surface family."""
    plan = [replace(one, first_seed=seed) for one in design.surface_conditions(size)]
    changes: list[tuple[str, str, dict[str, Any]]] = [
        (parameter, value, {"rule": rule})
        for parameter, values in design.rules().items()
        for value, rule in values.items()
    ]
    changes += [("α (published rule)", str(alpha), {"alpha": alpha}) for alpha in design.ALPHAS]
    changes += [
        (
            "least clear effect (default)",
            f"{effect:.1%}",
            {"settings": Settings(clear=effect, effect=max(effect, Settings.effect))},
        )
        for effect in EFFECTS
    ]
    for parameter, value, change in changes:
        for one in plan:
            name = ("surfaces", parameter, value, one.family)
            yield Item(name=name, run=partial(run_condition_json, one, **change))
    for steps in design.WINDOW_STEPS:
        for one in plan:
            name = ("surfaces", "window length, steps", str(steps), one.family)
            longer = replace(one, count=steps * design.LAUNCHES_PER_STEP)
            yield Item(name=name, run=partial(run_condition_json, longer))


def run_condition_json(condition: Condition, **changes: Any) -> Row:
    """One condition, perhaps with some settings changed, as JSON."""
    return run_condition(condition, **changes).to_json()


def run_study(
    size: Size, *, seed: int = 0, book: Path | None = None, slice_s: float | None = None
) -> Row | None:
    """The study, None if `slice_s` ran out first. What is done is kept in `book` and not done again."""
    started = time.monotonic()
    deadline = started + slice_s if slice_s is not None else float("inf")
    plan = items(size, seed=seed)
    done = _read_book(book, head=f"{size} {seed}", mend=True)
    workers = 1 if size == "smoke" else os.cpu_count() or 1
    stages: tuple[Callable[[], list[Item]], ...] = (lambda: plan, lambda: items_again(done, size))
    for stage in stages:
        left = [item for item in stage() if item.name not in done]
        for item, row in _run(left, workers=workers, deadline=deadline):
            done[item.name] = row
            _write_book(book, head=f"{size} {seed}", item=item, row=row)
            if len(done) % 20 == 0:
                print(f"fidelity: {len(done)}/{len(plan)}", file=sys.stderr, flush=True)
        if any(item.name not in done for item in stage()):
            return None
    return _study(done, size=size, seed=seed, elapsed_s=time.monotonic() - started)


def study_so_far(size: Size, *, seed: int, book: Path) -> Row:
    """The study of a book in which healthy jobs may be missing, but for the first; BookError if more is."""
    done = _read_book(book, head=f"{size} {seed}")
    missing = [
        item.name
        for item in (*items(size, seed=seed), *items_again(done, size))
        if item.name not in done and (item.name[0] != "healthy" or item.name[1] == "0")
    ]
    if missing:
        raise BookError(
            f"{book} lacks {len(missing)} pieces beside healthy jobs, such as {' '.join(missing[0])}"
        )
    return _study(done, size=size, seed=seed, elapsed_s=0.0)


def _study(done: Mapping[tuple[str, ...], Row], *, size: Size, seed: int, elapsed_s: float) -> Row:
    return {
        "size": size,
        "seed": seed,
        "healthy_jobs_planned": jobs(size),
        **_assembled(done),
        "elapsed_s": elapsed_s,
    }


def _run(left: Sequence[Item], *, workers: int, deadline: float) -> Iterator[tuple[Item, Row]]:
    """Rows as they come, until the slice is over."""
    if workers == 1:
        for item in left:
            if time.monotonic() >= deadline:
                return
            yield item, item.run()
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures: dict[Future[Row], Item] = {pool.submit(item.run): item for item in left}
        for future in as_completed(futures):
            yield futures[future], future.result()
            if time.monotonic() >= deadline:
                pool.shutdown(wait=True, cancel_futures=True)
                return


def _read_book(book: Path | None, *, head: str, mend: bool = False) -> dict[tuple[str, ...], Row]:
    """Rows of this size and seed that are done. Raises BookError.

    A last line without an end was being written when a run was killed: it does not count, and `mend` removes it.
    """
    if book is None or not book.exists():
        return {}
    try:
        text = book.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        lines = [json.loads(line) for line in whole.splitlines()]
        rows = {tuple(line["name"]): line["row"] for line in lines if line["head"] == head}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BookError(f"{book} is no book of this study, name another file: {error}") from None
    if mend and len(whole) < len(text):
        book.write_text(whole, encoding="utf-8")
    return rows


def _write_book(book: Path | None, *, head: str, item: Item, row: Row) -> None:
    if book is not None:
        with book.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"head": head, "name": item.name, "row": row}) + "\n")


def _assembled(done: Mapping[tuple[str, ...], Row]) -> Row:
    """The items in the order of the design."""

    def of(what: str) -> list[Row]:
        return [
            row for _, row in sorted((int(name[1]), row) for name, row in done.items() if name[0] == what)
        ]

    surfaces: dict[str, dict[str, list[Row]]] = {}
    for name, row in sorted(done.items(), key=lambda pair: pair[0]):
        if name[0] == "surfaces":
            surfaces.setdefault(name[1], {}).setdefault(name[2], []).append(row)
    return {
        "rows": of("rows"),
        "again": of("again"),
        "healthy_rows": of("healthy rows"),
        "sweep": of("sweep"),
        "surfaces": {
            parameter: {value: _mean(rows) for value, rows in sorted(values.items(), key=_as_number)}
            for parameter, values in surfaces.items()
        },
        "healthy": total(of("healthy")),
    }


def _as_number(pair: tuple[str, object]) -> tuple[str, float]:
    """Order of a parameter's values: by kind, then by number."""
    number, _, kind = pair[0].rstrip("%").partition(" ")
    return kind, float(number)


def _mean(rows: Sequence[Row]) -> Row:
    """Averages over families: F1 of both rules, precision of both, W₁ error of both summaries."""
    return {
        "f1_paper": float(np.mean([row["f1"]["triple"] for row in rows])),
        "f1_default": float(np.mean([row["f1"]["default"] for row in rows])),
        "recall_paper": float(np.mean([row["recall"]["triple"] for row in rows])),
        "recall_default": float(np.mean([row["recall"]["default"] for row in rows])),
        "false_paper": int(sum(row["false"]["triple"] for row in rows)),
        "false_default": int(sum(row["false"]["default"] for row in rows)),
        "error_default": float(np.mean([row["error"].get("triple+max+sum", np.nan) for row in rows])),
    }
