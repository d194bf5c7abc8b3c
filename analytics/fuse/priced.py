"""The price of a pipeline's incident: what the step would gain if the suspects were healthy, by replay of its calls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argus.analytics.baseline import path_history
from argus.analytics.call_replay import has_pipeline, step_gain, wire_gain
from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause
from argus.analytics.robust import median_of_columns
from argus.analytics.view import Digest, View
from argus.analytics.whatif.shares import MAX_ERROR

GAIN = "replay_gain_s"
"""Evidence whose value is the price."""


def price(cause: Cause, view: View) -> Cause:
    """The cause with its gain by replay, and the share of the step that it is; as it was where nothing tells it.

    Bubbles hide most of what one late stage costs from a sum of waits, and most of what a slow path does.
    """
    window, waits, digest = view.window, view.waits, view.digest
    if window is None or waits is None or digest is None or not digest.typical_step_s > 0:
        return cause
    known = any(item.name == GAIN for item in cause.evidence)
    if known or not cause.suspects or cause.fault_class.startswith("stop.") or not has_pipeline(waits.calls):
        return cause
    if cause.fault_class.startswith("link."):
        found = wire_gain(window, waits, _usual_parts(cause, view, digest))
    else:
        found = step_gain(window, waits, cause.suspects)
    if found is None or found.error > MAX_ERROR or found.gain_s <= 0:
        return cause
    note = f"{found.num_steps} steps replayed, {found.error:.1%} off"
    gain = Evidence(name=GAIN, value=found.gain_s, unit="s", note=note)
    share = min(found.gain_s / digest.typical_step_s, 1.0)
    return replace(cause, evidence=(*cause.evidence, gain), share_of_step=share)


def _usual_parts(cause: Cause, view: View, digest: Digest) -> dict[str, float]:
    """What part of the time a call takes on each slow path it used to take; paths without a past are left out."""
    usual_s = median_of_columns(path_history(view.past, cause.paths, pick=lambda old: old.transfer_s))
    now_s = dict(zip(digest.paths, digest.transfer_s.tolist(), strict=True))
    parts = {
        path: usual / now_s.get(path, np.nan)
        for path, usual in zip(cause.paths, usual_s.tolist(), strict=True)
    }
    return {path: min(part, 1.0) for path, part in parts.items() if np.isfinite(part)}
