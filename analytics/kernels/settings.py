"""Gates of the default detector of kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Gates of the default detector.

    `effect`: least slowdown worth a finding, at 0.6 of the 5 % that is to be found; `clear`: the same of a large
    kernel whose peers lie close together, five times `scale_floor`. `tail_effect`: the same for
    means that rise without medians, at 0.6 of what one launch in a thousand at eight times its duration adds;
    `tail_top`: their maximum must rise too. `share`: least part
    of the step a kernel must take. `small_ratio`, `small_group`: fewer peers have no spread to speak of, so
    only a ratio counts. `gross`: slow enough to be told at once. `false_per_day`: findings a healthy job may
    bring; `floor`: and per rank-kernel-window at most. `needed` of the last `of` windows must agree.
    `history_windows`: windows before a device's own past is trusted. `scale_floor`: least spread of log
    effects, twice the packing's precision. `gap`: two populations are told apart when their means differ by
    this many spreads within and more of few ranks, one normal population cut at its best place reaching 2.7, and the
    slower is at least `least_population` of them.
    """

    effect: float = 0.03
    clear: float = 0.01
    tail_effect: float = 0.004
    tail_top: float = 1.3
    share: float = 0.005
    small_ratio: float = 1.2
    small_group: int = 8
    gross: float = 1.5
    false_per_day: float = 0.1
    floor: float = 3e-11
    needed: int = 2
    of: int = 3
    history_windows: int = 3
    scale_floor: float = 0.002
    gap: float = 5.0
    least_population: float = 0.2
