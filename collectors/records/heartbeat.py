"""Signs of life: what a rank says of itself each second, with what its host sees of the process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from argus.collectors.records.cost import Cost, costs_from_json, costs_to_json
from argus.collectors.records.errors import WireError
from argus.collectors.records.text import tame

MAX_RAISED = 200
MAX_GROUPS = 4096
"""Groups that a status tells of: as many as a layout may hold."""


COMPILING = "compile"
"""Mark of a rank whose compiler is at work, by its own word."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """What the rank's own writer thread reports once a second (frame kind STATUS).

    `groups` maps a process group's name to (calls entered, calls completed). `raised` = type and place of the
    exception that ends the process, in its last word.
    """

    ts_ns: int
    step: int
    phase: str = ""  # canonical phase that is open now, "" between phases
    phase_since_ns: int = 0
    step_since_ns: int = 0
    step_p50_ns: int = 0  # median of the last steps, 0 until known
    in_mark: str = ""  # open argus.mark: checkpoint, eval, …; else COMPILING
    groups: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    raised: str = ""

    def to_json(self) -> dict[str, Any]:
        """The status as JSON-ready dict."""
        # By hand: a service writes down two thousand a second, and asdict copies everything inside, deeply.
        return {
            "ts_ns": self.ts_ns,
            "step": self.step,
            "phase": self.phase,
            "phase_since_ns": self.phase_since_ns,
            "step_since_ns": self.step_since_ns,
            "step_p50_ns": self.step_p50_ns,
            "in_mark": self.in_mark,
            "groups": dict(self.groups),
            **({"raised": self.raised} if self.raised else {}),
        }

    @staticmethod
    def from_json(raw: object) -> Status:
        """Parse and check. Raises WireError."""
        raw = _object(raw, "status")
        try:
            groups = {
                str(k)[:256]: (int(v[0]), int(v[1]))
                for k, v in _object(raw.get("groups", {}), "groups").items()
            }
            return Status(
                ts_ns=int(raw["ts_ns"]),
                step=int(raw["step"]),
                phase=str(raw.get("phase", ""))[:64],
                phase_since_ns=int(raw.get("phase_since_ns", 0)),
                step_since_ns=int(raw.get("step_since_ns", 0)),
                step_p50_ns=int(raw.get("step_p50_ns", 0)),
                in_mark=str(raw.get("in_mark", ""))[:64],
                groups=groups,
                raised=tame(raw["raised"], MAX_RAISED) if raw.get("raised") else "",
            )
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise WireError(f"status: {error!r:.120}") from None


STATES = ("running", "exited", "lost", "ended")
"""running; exited = the process is gone without BYE or with a code other than 0; lost = its host went silent;
ended = BYE."""

CLOCK_STEP_S = 60.0
"""A heartbeat older than the kept one by more is no straggler: its host's clock was set back."""


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """One rank as its host's processor sees it now; times are Unix seconds of the host."""

    run: str
    attempt: int
    rank: int
    host: str
    ts_s: float
    state: str = "running"
    process_state: str = ""  # letter of /proc/PID/stat: R S D T Z, "" if gone
    status_age_s: float = 0.0  # how old `status` is: a rank that holds the GIL or is stopped goes silent
    status: Status
    exit_reason: str = ""  # "signal 9", "code 1", "oom", "" if unknown
    overhead: Mapping[str, Cost] = field(default_factory=dict)  # by channel, measured on this host
    channels_off: tuple[str, ...] = ()  # stepped down by the host's governor

    def to_json(self) -> dict[str, Any]:
        """The heartbeat as JSON-ready dict."""
        return {
            "run": self.run,
            "attempt": self.attempt,
            "rank": self.rank,
            "host": self.host,
            "ts_s": self.ts_s,
            "state": self.state,
            "process_state": self.process_state,
            "status_age_s": self.status_age_s,
            "status": self.status.to_json(),
            "exit_reason": self.exit_reason,
            "overhead": costs_to_json(self.overhead),
            "channels_off": list(self.channels_off),
        }

    def seen(self, *, status_age_s: float, state: str) -> Heartbeat:
        """The same beat with its status that old and the rank in that state."""
        # By hand: a service looks at ten thousand every five seconds, and `replace` takes ten times as long.
        made = object.__new__(Heartbeat)
        vars(made).update(vars(self), status_age_s=status_age_s, state=state)
        return made

    @staticmethod
    def from_json(raw: object) -> Heartbeat:
        """Parse and check. Raises WireError."""
        raw = _object(raw, "heartbeat")
        try:
            beat = Heartbeat(
                run=str(raw["run"])[:256],
                attempt=int(raw["attempt"]),
                rank=int(raw["rank"]),
                host=str(raw["host"])[:256],
                ts_s=float(raw["ts_s"]),
                state=str(raw.get("state", "running")),
                process_state=str(raw.get("process_state", ""))[:4],
                status_age_s=float(raw.get("status_age_s", 0.0)),
                status=Status.from_json(raw.get("status")),
                exit_reason=str(raw.get("exit_reason", ""))[:200],
                overhead=costs_from_json(raw.get("overhead")),
                channels_off=tuple(str(text)[:64] for text in list(raw.get("channels_off", ()))[:16]),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, WireError):
                raise
            raise WireError(f"heartbeat: {error!r:.120}") from None
        if beat.state not in STATES:
            raise WireError(f"heartbeat.state must be one of {', '.join(STATES)}, got {beat.state!r:.40}")
        if not (math.isfinite(beat.ts_s) and math.isfinite(beat.status_age_s)):
            raise WireError("heartbeat times must be finite")
        if not (0 <= beat.rank < 1 << 20 and 0 <= beat.attempt < 1 << 31):
            raise WireError(f"heartbeat of rank {beat.rank}, attempt {beat.attempt}: out of range")
        return beat


def is_newer(beat: Heartbeat, kept: Heartbeat) -> bool:
    """Whether `beat` takes the place of `kept`: it is no straggler of before."""
    return beat.ts_s >= kept.ts_s or beat.ts_s < kept.ts_s - CLOCK_STEP_S


def _object(raw: object, what: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise WireError(f"{what} must be an object, got {type(raw).__name__}")
    return raw
