"""The verdict card: one screen that says who, why, what it is not, what it costs and what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from argus.agent.claims import LOST
from argus.agent.wording import counted, per, phase_name, printable, quantity, ranks, versus
from argus.analytics.classes import ON_DEVICE, cause_classes
from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause, Incident
from argus.analytics.peers import across_models
from argus.topology.layout import Topology

WIDTH = 80
MAX_LINES = 25
_LABEL = 10

NOT_IT = 0.1
"""Own work whose excess is below a tenth of the waiting does not explain it."""

_COLORS = {"CONFIRMED": "1;31", "LIKELY": "1;33", "INCONCLUSIVE": "1;36", "NO_FAULT": "1;32"}
_CPU = {
    "host.cpu_starved": "it was not running, not computing more",
    "compute.slow": "it was computing all the while",
}
"""What the CPU time beside the wall time means for the class that `fuse` decided."""

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
    if incident is None:
        rows = list(_missing_rows(diagnosis))
    else:
        rows = [
            ("Suspect", _suspect(incident, topology)),
            *(("Why", line) for line in _why(incident.cause)),
            *_model_rows(incident.cause, topology),
            *_victim_rows(incident.cause),
            *(("Not", line) for line in _not(incident.cause)),
            ("Cost", _cost(incident, topology)),
            *(("Before", str(item["text"])) for item in diagnosis.get("past", ())),
            *_action_rows(diagnosis),
            *_second_rows(incident.cause),
            *_missing_rows(diagnosis),
        ]
    lines = list(_laid_out(rows, width))
    rule = [" " + "─" * (width - 2)] if lines else []
    room = MAX_LINES - len(head) - len(rule)
    if len(lines) > room:
        lines = [*lines[: room - 1], " " * (_LABEL + 1) + "…"]
    return "\n".join([*head, *rule, *map(printable, lines)])


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


def _evidence(cause: Cause, name: str) -> Evidence | None:
    return next((item for item in cause.evidence if item.name == name), None)


def _suspect(incident: Incident, topology: Topology | None) -> str:
    cause = incident.cause
    who = ranks(cause.suspects) if cause.suspects else cause.scope
    if cause.scope.startswith("group:"):
        who = f"the path of {cause.scope.removeprefix('group:')} ({who})"
    parts = [who]
    if topology is not None and not cause.scope.startswith("group:"):
        hosts = sorted({topology.host_of(rank) for rank in cause.suspects} - {""})
        parts += [f"host {', '.join(hosts[:3])}{'…' if len(hosts) > 3 else ''}"] if hosts else []
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


def _why(cause: Cause) -> Iterator[str]:
    """The suspect's own time against its peers', then what it did to the others."""
    own, total = _evidence(cause, "self_s"), _evidence(cause, "own_self_s")
    if own is not None and own.baseline is not None:
        clock = ", GPU time" if "GPU" in own.note else ""
        yield f"{phase_name(cause.phase) if cause.phase else 'own work'} {versus(own.value, own.baseline)} a step{clock}"
    elif total is not None and total.baseline is None:
        yield f"own work {quantity(total.value, total.unit)} a step: no peer to compare with"
    cpu = _evidence(cause, "cpu_s")
    is_gpu = own is not None and "GPU" in own.note
    if cpu is not None and cpu.baseline is not None and max(cpu.value, cpu.baseline) > 0 and not is_gpu:
        meaning = _CPU.get(cause.fault_class, "")
        yield f"CPU time {versus(cpu.value, cpu.baseline)}{': ' if meaning else ''}{meaning}"
    pause = _evidence(cause, "gc_pause_s")
    if pause is not None and pause.value > 0 and cause.fault_class == "host.gc":
        yield f"garbage collection {versus(pause.value, pause.baseline or 0.0)} a step"
    if own is None and total is not None and total.baseline is not None:
        waited = _evidence(cause, "victims_wait_s")
        is_it = waited is None or total.value - total.baseline >= NOT_IT * waited.value
        yield f"own work {versus(total.value, total.baseline)} a step{'' if is_it else ': that is not it'}"
    step = _evidence(cause, "step_s")
    if cause.fault_class == "step.slower" and step is not None and step.baseline is not None:
        yield f"a step takes {versus(step.value, step.baseline, unit=step.unit, name='after')}"
    gain = _evidence(cause, "replay_gain_s")
    if gain is not None:
        yield from _replay(gain, _evidence(cause, "by_itself_s"))
    lag = _evidence(cause, "start_lag_s")
    if lag is not None:
        yield f"{quantity(lag.value, 's')} behind the median rank when {lag.note} began: look before the trace"
    yield from _lateness(cause)
    yield from _path(cause)
    yield from _stop(cause)


def _model_rows(cause: Cause, topology: Topology | None) -> Iterator[tuple[str, str]]:
    """That a rank said to compute slower has another GPU model than those it is compared with."""
    if topology is None or len(cause.suspects) != 1 or not cause.fault_class.startswith(ON_DEVICE):
        return
    if others := across_models(topology).get(cause.suspects[0]):
        shown = f"{', '.join(others[:2])}{', …' if len(others) > 2 else ''}"
        yield "Why", f"its peers have another GPU model ({shown}): that may be the whole difference"


def _replay(gain: Evidence, by_itself: Evidence | None) -> Iterator[str]:
    """What a step would gain; of several causes that delay the same steps its part of that."""
    if by_itself is None:
        yield f"replay of the step: it would be {quantity(gain.value, 's')} shorter if this were healthy"
    else:
        yield (
            f"replay of the step: its part of the delay is {quantity(gain.value, 's')}, and "
            f"{quantity(by_itself.value, 's')} if the other causes were healed"
        )


def _lateness(cause: Cause) -> Iterator[str]:
    last = _evidence(cause, "last_share")
    if last is not None and last.value > 0:
        yield f"last to enter {quantity(last.value, 'share')} of its collectives"


def _path(cause: Cause) -> Iterator[str]:
    transfer = _evidence(cause, "transfer_s")
    if transfer is not None and transfer.baseline is not None:
        yield f"transfers of {transfer.note} {versus(transfer.value, transfer.baseline, name='against')} a step"
    clean = _evidence(cause, "own_ratio")
    if clean is not None:
        yield f"its members' own work is {quantity(clean.value, 'x')} of before, and nobody enters late"


def _stop(cause: Cause) -> Iterator[str]:
    unlike = _evidence(cause, "call_differs") or _evidence(cause, "call_not_started")
    if unlike is not None:
        yield unlike.note
    stalled, usual = _evidence(cause, "stalled_s"), _evidence(cause, "median_step_s")
    if stalled is not None:
        against = f", a step usually takes {quantity(usual.value, 's')}" if usual else ""
        yield f"no step ended for {quantity(stalled.value, 's')}{against}"
    lost = [item for item in cause.evidence if item.name == LOST]
    for note in dict.fromkeys(item.note for item in lost):
        yield f"{ranks([int(item.value) for item in lost if item.note == note])} {note}"
    for item in cause.evidence:
        if item.name == "left":
            yield f"rank {item.value:.0f} {item.note}"
        elif item.name in ("entered", "completed") and item.baseline is not None:
            yield f"{item.name} {counted(round(item.value), 'calls')}, the furthest member {item.baseline:,.0f} ({item.note})"


def _victim_rows(cause: Cause) -> Iterator[tuple[str, str]]:
    if not cause.victims:
        return
    waited = _evidence(cause, "victims_wait_s")
    how = f" waited {quantity(waited.value, 's')} a step" if waited is not None and waited.value > 0 else ""
    where = f" in {cause.group}" if cause.group else ""
    for_whom = (
        f" for {ranks(cause.suspects)}" if cause.suspects and not cause.scope.startswith("group:") else ""
    )
    yield "Victims", f"{ranks(cause.victims)}{how or ' waited'}{for_whom}{where}"


def _not(cause: Cause) -> Iterator[str]:
    for other in cause.ruled_out[:4]:
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
    cost, step = incident.cost, _evidence(incident.cause, "step_s")
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
