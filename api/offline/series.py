"""The offline path of bare step times: series in, findings and a report out."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from argus.agent.triage import diagnose, no_incident
from argus.agent.wording import counted
from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.series.alongside import alongside
from argus.analytics.series.growth import grows_from
from argus.analytics.series.recorded import END, PERIOD, START, comes_back, series_findings, step_of
from argus.analytics.series.rise import SIDE
from argus.analytics.series.shared import APART, SharedSlowdown, shared_slowdowns
from argus.analytics.series.track import STARTUP
from argus.collectors.records.layout import Layout
from argus.collectors.records.series import StepSeries
from argus.topology.layout import Topology, build

MISSING = ("the ranks: step times say when, not who",)

MIN_VALUES = STARTUP + 2 * SIDE
"""A lasting rise needs its start-up and so many values on either side; of fewer no fault can be found."""

_OF_RANK = re.compile(
    r"(?<![a-z])(?<!local[-_ ])(?<!node[-_ ])(?<!lora[-_ ])(rank|worker|trainer)(?:[-_ ]?id)?[-_ ]?(\d{1,7})(?!\d)",
    re.IGNORECASE,
)
"""A rank of the job: no place on a node, and no size of an adapter (lora_rank16)."""

_OF_HOST = re.compile(r"(?<=[/ ])(host|hostname) ([^,/]{1,80})$", re.IGNORECASE)
_BESIDE = re.compile(r"(?<=[/ ])(host|hostname) [^,/]{1,80}", re.IGNORECASE)
_AROUND = "/_- ,"

MIN_OWNERS = 3
"""Of two ranks the median says nothing about the one that differs from it."""


@dataclass(frozen=True, kw_only=True)
class SeriesResult:
    """One series with what was found in it."""

    series: StepSeries
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]


@dataclass(frozen=True, kw_only=True)
class SeriesReport:
    """What triage found in bare step times; `diagnosis` is that of the costliest incident.

    `of_all` are the slowdowns that most ranks of a job share, each told once.
    """

    results: tuple[SeriesResult, ...]
    topology: Topology
    diagnosis: dict[str, Any]
    warnings: tuple[str, ...]
    seen: Sequence[Mapping[str, Any]] = ()
    of_all: tuple[SharedSlowdown, ...] = ()

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """All incidents of all series, what ranks share once and first."""
        parts = {part.id for shared in self.of_all for part in shared.parts}
        own = [one for result in self.results for one in result.incidents if one.id not in parts]
        return (*(shared.incident for shared in self.of_all), *own)

    @property
    def incident(self) -> Incident | None:
        """The one that cost most so far, or where that is not known most a day; the first of equals."""
        return max(
            self.incidents,
            key=lambda one: (one.cost.gpu_hours_so_far, one.cost.gpu_hours_per_day),
            default=None,
        )

    def to_json(self) -> dict[str, Any]:
        """The object `argus triage --json` prints."""
        return {
            "series": [
                {
                    "name": result.series.name,
                    "num_values": len(result.series.values_s),
                    "interval": result.series.interval,
                    "unit": result.series.unit,
                    "findings": [_located(finding) for finding in result.findings],
                    "incidents": [_placed(incident) for incident in result.incidents],
                }
                for result in self.results
            ],
            "findings": [_located(finding) for result in self.results for finding in result.findings],
            "incidents": [_placed(incident) for incident in self.incidents],
            "diagnosis": self.diagnosis,
            "warnings": list(self.warnings),
            **({"seen": list(self.seen)} if self.seen else {}),
        }


def analyse_series(
    series: Sequence[StepSeries], *, warnings: Sequence[str] = (), seen: Sequence[Mapping[str, Any]] = ()
) -> SeriesReport:
    """Findings and incidents of every series; `seen` is what others told beside them."""
    results, missing = [], (*MISSING, *_units(series), *_again(series))
    for one in series:
        findings, incidents = series_findings(one)
        topology = _topology(one.name)
        told = tuple(
            replace(i, diagnosis=diagnose(i, findings=findings, topology=topology, missing=missing))
            for i in incidents
        )
        results.append(SeriesResult(series=one, findings=findings, incidents=told))
    of_all = _shared(results, missing=missing)
    report = SeriesReport(
        results=tuple(_without_own(results, of_all)),
        of_all=tuple(slow for slow in of_all if not _is_own(slow)),
        topology=_topology(series[0].name),
        diagnosis={},
        warnings=tuple(dict.fromkeys(warnings)),
        seen=seen,
    )
    worst = report.incident
    doubt = _too_few(series) or _apart(series)
    quiet = no_incident(missing=missing, doubt=doubt, num_ranks=0)
    quiet |= {} if doubt else {"headline": _quiet(results)}
    return replace(report, diagnosis=(worst.diagnosis if worst else None) or quiet)


def _shared(results: Sequence[SeriesResult], *, missing: Sequence[str]) -> tuple[SharedSlowdown, ...]:
    """What most ranks of a job have in common, with its diagnosis."""
    return tuple(
        _with_diagnosis(
            slow, missing=(f"the ranks: {slow.num_ranks} of {len(ranks)} slow down alike", *missing)
        )
        for name, ranks in _by_job(results).items()
        for slow in shared_slowdowns(
            name, [rank.incidents for rank in ranks], job=alongside([rank.series for rank in ranks])
        )
    )


def _is_own(slow: SharedSlowdown) -> bool:
    """Whether a slowdown comes at equal distances on most of the ranks that share it: the job's own, not a fault."""
    return 2 * sum(map(comes_back, slow.parts)) > len(slow.parts)


def _without_own(results: Sequence[SeriesResult], of_all: Sequence[SharedSlowdown]) -> Iterable[SeriesResult]:
    """Without what comes at equal distances and is the job's own, or a lone series', which nobody can be held against."""
    own = {part.id for slow in of_all if _is_own(slow) for part in slow.parts}
    whose = [_owner(result.series.name) for result in results]
    among = Counter((job, who.split()[0]) for job, who in whose if who)
    for result, (job, who) in zip(results, whose, strict=True):
        is_lone = not who or among[job, who.split()[0]] == 1
        kept = (i for i in result.incidents if i.id not in own and not (is_lone and comes_back(i)))
        yield replace(result, incidents=tuple(kept))


def _with_diagnosis(slow: SharedSlowdown, *, missing: Sequence[str]) -> SharedSlowdown:
    incident = slow.incident
    diagnosis = diagnose(incident, findings=(), topology=_topology(incident.run), missing=missing)
    return replace(slow, incident=replace(incident, diagnosis=diagnosis))


def _by_job(results: Sequence[SeriesResult]) -> dict[str, list[SeriesResult]]:
    """The series that are of one rank each, by what else stands in their names."""
    jobs: dict[str, list[SeriesResult]] = {}
    for result in results:
        job, who = _owner(result.series.name)
        if who.startswith("rank"):
            jobs.setdefault(job, []).append(result)
    return jobs


def _owner(name: str) -> tuple[str, str]:
    """The job and the rank, or else the host, that a series is of by its name; whose is "" if it does not say.

    >>> _owner("metrics/rank3 - step_time"), _owner("times/host n7, rank 3"), _owner("times/host n7"), _owner("loss")
    (('metrics/step_time', 'rank 3'), ('times', 'rank 3'), ('times', 'host n7'), ('loss', ''))
    """
    found = next(reversed(list(_OF_RANK.finditer(name))), None) or _OF_HOST.search(name)
    if found is None:
        return name, ""
    rest = _BESIDE.sub("", f"{name[: found.start()]}/{name[found.end() :]}").split("/")
    job = "/".join(kept for part in rest if (kept := part.strip(_AROUND)))
    return job or "job", f"{'host' if _OF_HOST.fullmatch(name, found.start()) else 'rank'} {found[2]}"


def _quiet(results: Sequence[SeriesResult]) -> str:
    series = [one.series for one in results]
    count = counted(sum(len(one.values_s) for one in series), "step times")
    grown = {one.name: ratio for one in series if (ratio := _growth(one)) >= APART}
    again = [
        item.value
        for one in results
        for i in one.incidents
        for item in i.cause.evidence
        if item.name == PERIOD
    ]
    if not grown:
        own = f", but for slow stretches every {median(again):,.0f} steps" if again else ""
        return f"No fault found: no lasting rise and no burst in {count} of {len(series)} series{own}"
    whole = "they grow" if len(series) == 1 else f"{len(grown)} of {len(series)} series grow"
    most = max(series, key=lambda one: grown.get(one.name, 0.0))
    return (
        f"No fault found: no sudden rise and no burst in {count}, but {whole}, "
        f"to {grown[most.name]:.2f}× from first to last quarter{_since(most)}"
    )


def _since(series: StepSeries) -> str:
    """From which step on the series grows and to what, empty if that is not clear."""
    found = grows_from(np.array(series.values_s, np.float64), least=APART)
    if found is None:
        return ""
    place, ratio = found
    return f", since about step {step_of(series, place):,}: by the end a step takes {ratio:.2f}× as long"


def _growth(series: StepSeries) -> float:
    """Median of the last quarter over that of the first, start-up aside; 1 where many values of both are alike."""
    values = _times(series)[STARTUP:]
    size = len(values) // 4
    if size < SIDE:
        return 1.0
    first, last = sorted(values[:size]), sorted(values[-size:])
    if last[size // 4] <= first[-1 - size // 4]:
        return 1.0
    return median(last) / median(first)


def _times(series: StepSeries) -> list[float]:
    return [value for value in series.values_s if math.isfinite(value) and value > 0]


def _too_few(series: Sequence[StepSeries]) -> str:
    """Why nothing can be found in any of the series, empty if something can in one."""
    most = max(len(_times(one)) for one in series)
    if most >= MIN_VALUES:
        return ""
    return (
        f"{counted(most, 'step times')} at most in a series, and a lasting rise shows in {MIN_VALUES} or more"
    )


def _apart(series: Sequence[StepSeries]) -> str:
    """Which rank's or host's own steps take longer than the others' all along, empty if none do."""
    own: dict[tuple[str, str], dict[str, float]] = {}
    for one in series:
        job, who = _owner(one.name)
        if who and (times := _times(one)):
            own.setdefault((job, who.split()[0]), {})[who] = median(times)
    for (_, kind), medians in own.items():
        who, longest = max(medians.items(), key=lambda item: item[1])
        ratio = longest / median(medians.values())
        if len(medians) >= MIN_OWNERS and ratio >= APART:
            return f"the step times of {who} are {ratio:.2f}× the other {kind}s' without a change"
    return ""


def _again(series: Sequence[StepSeries]) -> tuple[str, ...]:
    """What a step does not say where those of a series begin again."""
    backs = [[(a, b) for a, b in pairwise(one.steps) if b < a] for one in series]
    num, first = max(map(len, backs)), next((one[0] for one in backs if one), (0, 0))
    if not num:
        return ()
    times = "" if num == 1 else f", the first of {num:,} times"
    again = f"steps go back from {first[0]} to {first[1]}{times}, as after a restart"
    return (f"the attempt: {again}; a step may have run more than once",)


def _units(series: Sequence[StepSeries]) -> tuple[str, ...]:
    """What stands for step times where only a rate was told."""
    units = sorted({one.unit for one in series} - {"s"})
    return tuple(f"step times: throughput is told, and {unit} stands for them" for unit in units)


def _topology(name: str) -> Topology:
    return build([Layout(run=name[:256], attempt=0, rank=0, world_size=1)])


def _located(finding: Finding) -> dict[str, Any]:
    """The finding with the values of its series beside its steps."""
    places = {key: int(value) for key in (START, END) if (value := finding.measure(key)) is not None}
    return {**finding.to_json(), "series": finding.run, **places}


def _placed(incident: Incident) -> dict[str, Any]:
    places = {e.name: int(e.value) for e in incident.cause.evidence if e.name in (START, END)}
    return {**incident.to_json(), "series": incident.run, **places}
