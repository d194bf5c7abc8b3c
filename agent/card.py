"""The verdict card: one screen that says who, why, what it is not, what it costs and what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from argus.agent.why import evidence_of, reasons, step_of
from argus.agent.wording import per, printable, quantity, ranks, scope_name, versus
from argus.analytics.classes import ON_DEVICE, cause_classes
from argus.analytics.incident import Cause, Incident
from argus.analytics.peers import across_models
from argus.topology.layout import Topology

WIDTH = 80
MAX_LINES = 25
MOST_NOT = 4
"""Causes that are ruled out on the card: all that speaks for the one comes before the last of them."""

_LABEL = 10

_COLORS = {"CONFIRMED": "1;31", "LIKELY": "1;33", "INCONCLUSIVE": "1;36", "NO_FAULT": "1;32"}

USUAL = "non-communication slow"
"""The syndrome that the class says already."""

SLOWED = 1.2
"""A transfer this many times its usual length is not called as fast as ever."""


def render(
    incident: Incident | None,
    diagnosis: Mapping[str, Any],
    *,
    topology: Topology | None = None,
    width: int = WIDTH,
    color: bool = False,
) -> str:
    """The card as text of at most `MAX_LINES` lines; `topology` adds host and device."""
    head = _title(incident, diagnosis, width=width, color=color)
    rule = [" " + "─" * (width - 2)]
    room = MAX_LINES - len(head) - len(rule)
    lines: list[str] = []
    for most_not in range(MOST_NOT, 0, -1):
        rows = list(_rows(incident, diagnosis, topology=topology, most_not=most_not))
        lines = list(_laid_out(rows, width))
        if len(lines) <= room:
            break
    if len(lines) > room:
        lines = [*lines[: room - 1], " " * (_LABEL + 1) + "…"]
    return "\n".join([*head, *(rule if lines else []), *map(printable, lines)])


def _rows(
    incident: Incident | None, diagnosis: Mapping[str, Any], *, topology: Topology | None, most_not: int
) -> Iterator[tuple[str, str]]:
    """Label and text of each row; at most so many say what it is not."""
    if incident is not None:
        yield "Suspect", _suspect(incident, topology)
        yield from (("Why", line) for line in reasons(incident.cause))
        yield from _model_rows(incident.cause, topology)
        yield from _victim_rows(incident.cause)
        yield from (("Not", line) for line in islice(_not(incident.cause), most_not))
        yield "Cost", _cost(incident, topology)
        yield from (("Before", str(item["text"])) for item in diagnosis.get("past", ()))
        yield from _action_rows(diagnosis)
        yield from _second_rows(incident.cause)
    yield from _missing_rows(diagnosis)


def _title(incident: Incident | None, diagnosis: Mapping[str, Any], *, width: int, color: bool) -> list[str]:
    verdict = str(diagnosis["verdict"])
    right = f"{incident.cause.fault_class} · {incident.severity} · {incident.status}" if incident else ""
    space = max(width - len(verdict) - len(right) - 2, 1)
    painted = f"\x1b[{_COLORS[verdict]}m{verdict}\x1b[0m" if color else verdict
    headline = textwrap.wrap(printable(str(diagnosis["headline"])), width - 2)
    if color:
        headline = [f"\x1b[1m{line}\x1b[0m" for line in headline]
    return [f" {painted}{' ' * space}{right}".rstrip(), *(f" {line}" for line in headline)]


def _laid_out(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Rows with their label in a column of its own; a label is shown once, commands are never wrapped."""
    shown = ""
    for label, text in rows:
        first = "" if label == shown else label
        shown = label
        if text.startswith("$ "):
            lines = [text]
        else:
            lines = textwrap.wrap(text, width - _LABEL - 1, break_long_words=False) or [""]
        for i, line in enumerate(lines):
            yield f" {(first if i == 0 else ''):<{_LABEL}}{line}"


def _suspect(incident: Incident, topology: Topology | None) -> str:
    cause = incident.cause
    who = ranks(cause.suspects) if cause.suspects else scope_name(cause.scope)
    if cause.scope.startswith("group:"):
        who = f"the path of {cause.scope.removeprefix('group:')} ({who})"
    parts = [who]
    if topology is not None and not cause.scope.startswith("group:"):
        hosts = sorted({topology.host_of(rank) for rank in cause.suspects} - {""})
        named = f"{', '.join(hosts[:3])}{'…' if len(hosts) > 3 else ''}"
        parts += [f"host{'s' if len(hosts) > 1 else ''} {named}"] if hosts else []
        if len(cause.suspects) == 1:
            rank = cause.suspects[0]
            device, model = topology.devices.get(rank, ""), topology.gpu_models.get(rank, "")
            parts += [f"GPU {device} {model}".strip()] if device or model else []
    last = "" if incident.end_step is None else f" to {incident.end_step}"
    since = "since the first step seen," if cause.from_start_s is not None else "since"
    parts.append(f"{'steps' if last else f'{since} step'} {incident.onset_step}{last}")
    if cause.syndrome not in (None, USUAL):
        parts.append(str(cause.syndrome))
    return " · ".join(parts)


def _model_rows(cause: Cause, topology: Topology | None) -> Iterator[tuple[str, str]]:
    """That a rank said to compute slower has another GPU model than those it is compared with."""
    if topology is None or len(cause.suspects) != 1 or not cause.fault_class.startswith(ON_DEVICE):
        return
    if others := across_models(topology).get(cause.suspects[0]):
        shown = f"{', '.join(others[:2])}{', …' if len(others) > 2 else ''}"
        yield "Why", f"its peers have another GPU model ({shown}): that may be the whole difference"


def _victim_rows(cause: Cause) -> Iterator[tuple[str, str]]:
    if not cause.victims:
        return
    waited = evidence_of(cause, "victims_wait_s")
    how = f" waited {quantity(waited.value, 's')} a step" if waited is not None and waited.value > 0 else ""
    where = f" in {cause.group}" if cause.group else ""
    for_whom = (
        f" for {ranks(cause.suspects)}" if cause.suspects and not cause.scope.startswith("group:") else ""
    )
    yield "Victims", f"{ranks(cause.victims)}{how or ' waited'}{for_whom}{where}"


def _not(cause: Cause) -> Iterator[str]:
    for other in cause.ruled_out:
        transfer = next((item for item in other.evidence if item.name == "transfer_s"), None)
        if other.fault_class != "link.slow" or transfer is None:
            yield f"{other.fault_class}: {other.why}"
        elif transfer.baseline is None:
            yield (
                f"the network: once it has entered a transfer takes no longer than {quantity(transfer.value, 's')}"
                " a step; its own collective is the shortest"
            )
        elif transfer.value > SLOWED * transfer.baseline:
            yield (
                f"the network: transfers grew with it ({quantity(transfer.value, 's')} against "
                f"{quantity(transfer.baseline, 's')} a step), as they do when a member stands still; "
                "its own collective is the shortest"
            )
        else:
            yield (
                f"the network: transfers {versus(transfer.value, transfer.baseline, name='against')} a step; "
                "its own collective is the shortest"
            )


def _cost(incident: Incident, topology: Topology | None) -> str:
    cost, step = incident.cost, step_of(incident.cause)
    if not (cost.s_per_step or cost.gpu_hours_so_far or cost.gpu_hours_per_day):
        return "not seen: no wait of another rank is recorded"
    on_gpu = topology is not None and any(topology.gpu_models.values())
    unit = "GPU-hours" if on_gpu else "rank-hours"
    parts = []
    if cost.s_per_step > 0 and not incident.cause.fault_class.startswith("stop."):
        whole = f" of {quantity(step.value, 's')}" if step is not None else ""
        each = per(step.unit if step is not None else "s")
        parts.append(
            f"{quantity(cost.s_per_step, 's')}{whole} {each} ({quantity(cost.share_of_step, 'share')})"
        )
    if cost.gpu_hours_so_far >= 0.005:
        parts.append(f"{quantity(cost.gpu_hours_so_far)} {unit} so far")
    parts.append(f"{quantity(cost.gpu_hours_per_day)} {unit} a day if it lasts")
    return " · ".join(parts)


def _action_rows(diagnosis: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for label, action in zip(("Next", "Then"), diagnosis["remediation"], strict=False):
        yield label, str(action["action"])
        if action["command"]:
            yield label, f"$ {action['command']}"


def _second_rows(cause: Cause) -> Iterator[tuple[str, str]]:
    if cause.second_best is None:
        return
    apart = cause_classes()[cause.fault_class].near_miss.get(cause.second_best)
    if cause.separation is not None:
        yield "Else", f"{cause.second_best}, if {cause.separation.second_if}"
        yield "Else", f"$ {cause.separation.command}"
    elif apart:
        yield "Else", f"{cause.second_best}, if {apart}"
    elif cause.verdict == "INCONCLUSIVE":
        yield "Else", f"{cause.second_best} is the best guess"


def _missing_rows(diagnosis: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    missing = diagnosis["missing_evidence"]
    if missing:
        yield "Unseen", "; ".join(map(str, missing[:4])) + ("; …" if len(missing) > 4 else "")
