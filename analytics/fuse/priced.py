"""The price of a pipeline's incident: what the step would gain if the suspects were healthy, by replay of its calls."""

from __future__ import annotations

from dataclasses import replace

from argus.analytics.call_replay import has_pipeline, step_gain
from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause
from argus.analytics.view import View
from argus.analytics.whatif.shares import MAX_ERROR

GAIN = "replay_gain_s"
"""Evidence whose value is the price."""


def price(cause: Cause, view: View) -> Cause:
    """The cause with its gain by replay, and the share of the step that it is; as it was where nothing tells it.

    Bubbles hide most of what one late stage costs from a sum of waits, and a path is no rank's own work.
    """
    window, waits, digest = view.window, view.waits, view.digest
    if window is None or waits is None or digest is None or not digest.typical_step_s > 0:
        return cause
    known = any(item.name == GAIN for item in cause.evidence)
    if known or not cause.suspects or cause.fault_class.partition(".")[0] in ("link", "stop"):
        return cause
    if not has_pipeline(waits.calls):
        return cause
    found = step_gain(window, waits, cause.suspects)
    if found is None or found.error > MAX_ERROR or found.gain_s <= 0:
        return cause
    note = f"{found.num_steps} steps replayed, {found.error:.1%} off"
    gain = Evidence(name=GAIN, value=found.gain_s, unit="s", note=note)
    share = min(found.gain_s / digest.typical_step_s, 1.0)
    return replace(cause, evidence=(*cause.evidence, gain), share_of_step=share)
