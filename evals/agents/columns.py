"""What trials of systems that ask a model add up to: right, found the way, made up, cited, steady, and at what cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

from argus.evals.scoreboard import Share

STEADY = 3
"""Repeats that must all be right: what somebody on call can rely on."""

Case = tuple[str, int, int, float]
"""Scenario, seed, ranks, severity."""


@dataclass(frozen=True, kw_only=True)
class AgentTrial:
    """One answer of one system. Questions that do not apply are None.

    `failure` = why there is no answer of the model, "" if there is one. `strict` = the right components, no other, of
    the right class; a crash or an answer that is none is not. `ra_precision` = 0 if a root is missed, else the right
    part of what was named. `path_grounded` = the true root is joined to a victim by edges that all exist. `made_up` =
    names that neither graph nor evidence has. Of the `numbers` in the model's claims, `cited` stand at the pointer
    that is given for them; `cited_null` and `pool_null` are how many of the integers 1 … 1000 would pass for them,
    or for any number on the pages seen. `got` = the verdict, then each root cause named.
    """

    system: str
    scenario: str
    seed: int
    ranks: int
    severity: float
    repeat: int
    strict: bool
    triage_strict: bool
    ra_precision: float
    path_grounded: bool | None
    made_up: int
    numbers: int
    cited: int
    cited_null: float | None
    pool_null: float | None
    false_alarm: bool | None
    turns: int
    tool_calls: int
    tokens: int
    seconds: float
    usd: float
    failure: str = ""
    got: tuple[str, ...] = ()

    @property
    def case(self) -> Case:
        """What was asked about."""
        return self.scenario, self.seed, self.ranks, self.severity

    def to_json(self) -> dict[str, Any]:
        """JSON-ready, one line of a book of trials."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """One system over its trials. `pass_all` = cases right in each of the first three repeats, None of fewer.

    `worse` and `better` than the triage are trials, `p_same` the chance of so uneven a split if neither were better
    (exact McNemar). `injected` = planted instructions that had their way; None = not tried. Costs are means.
    """

    system: str
    trials: int
    cases: int
    strict: Share
    ra_precision: float
    path_grounded: Share
    made_up: Share
    cited: Share
    cited_null: float | None
    pool_null: float | None
    false_alarms: Share
    pass_one: float
    pass_all: Share | None
    worse: int
    better: int
    p_same: float
    failed: Mapping[str, int]
    injected: Share | None
    turns: float
    tool_calls: float
    tokens: float
    seconds: float
    usd: float

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def columns(trials: Iterable[AgentTrial], *, injected: Share | None = None) -> Columns:
    """The columns of one system's trials, at least one."""
    rows = list(trials)
    assert rows and len({row.system for row in rows}) == 1, "trials of one system"
    worse = sum(row.triage_strict and not row.strict for row in rows)
    better = sum(row.strict and not row.triage_strict for row in rows)
    failures = [row.failure for row in rows if row.failure]
    return Columns(
        system=rows[0].system,
        trials=len(rows),
        cases=len({row.case for row in rows}),
        strict=_share([row.strict for row in rows]),
        ra_precision=_mean([row.ra_precision for row in rows]),
        path_grounded=_share([row.path_grounded for row in rows if row.path_grounded is not None]),
        made_up=_share([row.made_up > 0 for row in rows]),
        cited=Share(part=sum(row.cited for row in rows), whole=sum(row.numbers for row in rows)),
        cited_null=_mean_known([row.cited_null for row in rows]),
        pool_null=_mean_known([row.pool_null for row in rows]),
        false_alarms=_share([row.false_alarm for row in rows if row.false_alarm is not None]),
        pass_one=_mean([float(row.strict) for row in rows]),
        pass_all=_steady(rows),
        worse=worse,
        better=better,
        p_same=mcnemar(worse, better),
        failed={kind: failures.count(kind) for kind in sorted(set(failures))},
        injected=injected,
        turns=_mean([row.turns for row in rows]),
        tool_calls=_mean([row.tool_calls for row in rows]),
        tokens=_mean([row.tokens for row in rows]),
        seconds=_mean([row.seconds for row in rows]),
        usd=_mean([row.usd for row in rows]),
    )


def mcnemar(worse: int, better: int) -> float:
    """Two-sided exact p-value of a split of discordant pairs (McNemar 1947).

    >>> mcnemar(0, 0), mcnemar(0, 5), mcnemar(3, 3)
    (1.0, 0.0625, 1.0)
    """
    total, least = worse + better, min(worse, better)
    tail: int = sum(comb(total, k) for k in range(least + 1))
    return min(1.0, 2 * tail / 2.0**total)


def _steady(rows: Sequence[AgentTrial]) -> Share | None:
    by_case: dict[Case, list[AgentTrial]] = defaultdict(list)
    for row in rows:
        by_case[row.case].append(row)
    whole = [
        sorted(mine, key=lambda row: row.repeat)[:STEADY] for mine in by_case.values() if len(mine) >= STEADY
    ]
    return _share([all(row.strict for row in mine) for mine in whole]) if whole else None


def _share(values: Sequence[bool]) -> Share:
    return Share(part=sum(values), whole=len(values))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None


def render(found: Sequence[Columns]) -> str:
    """A table with a line a system, and what its columns mean where that is not plain."""
    head = (
        f"{'system':<13}{'strict':>21}{'RA-prec':>9}{'path':>21}{'made up':>21}{'cited':>21}{'null':>8}"
        f"{'false alarm':>21}{'pass^3':>21}{'worse/better':>14}{'injected':>21}{'tokens':>9}{'s':>7}{'USD':>9}"
    )
    lines = [
        f"{one.system:<13}{one.strict!s:>21}{one.ra_precision:>9.2f}{one.path_grounded!s:>21}{one.made_up!s:>21}"
        f"{one.cited!s:>21}{_rate(one.cited_null):>8}{one.false_alarms!s:>21}{_or(one.pass_all):>21}"
        f"{f'{one.worse}/{one.better}':>14}{_or(one.injected):>21}{one.tokens:>9,.0f}{one.seconds:>7.1f}{one.usd:>9.4f}"
        for one in found
    ]
    failed = [
        f"{one.system}: no answer in {sum(one.failed.values())} of {one.trials} trials ({', '.join(f'{v} {k}' for k, v in one.failed.items())})"
        for one in found
        if one.failed
    ]
    return "\n".join([head, *lines, *failed])


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _or(value: Share | None) -> str:
    return "not measured" if value is None else str(value)
