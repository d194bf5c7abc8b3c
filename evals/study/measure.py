"""One condition of the study: raw durations in, errors and detections of every method out."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import hypergeom, spearmanr

from argus.analytics.kernels.digest import KEPT, KernelDigest, digest_table
from argus.analytics.kernels.distance import Profile, cdf_profile, matrix, mean_w1, quantile_profile
from argus.analytics.kernels.paper import ALPHA, paper_flags
from argus.analytics.kernels.peers import Peers, classes
from argus.analytics.kernels.scan import MAD_TO_SIGMA
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.table import KernelTable
from argus.analytics.kernels.votes import vote
from argus.collectors.host.split import Rule
from argus.evals.study.families import DEVICE_SPREAD, FAMILIES, Samples, sample
from argus.evals.study.tables import STUDIED, place_of, shape_of, table_of

WINDOWS = 3
"""A fault must show within three windows; the last one is measured."""

LATER = "default, later"
"""The default after all windows of a condition that has more than `WINDOWS`."""

NAMED = "default, by then"
"""What it has named in any of these windows: an incident once opened stays open."""

OTHERS = 5
"""Healthy kernels beside the one under study: what the rank's common factor is read from."""

FULL_MATRIX = 512
SAMPLED_RANKS = 128
"""Above `FULL_MATRIX` ranks distances are compared on this many of them."""

PUBLISHED = "triple"
"""The published summary under the published rule."""

DRAWS = 2000
"""Draws of trials for an interval: its ends are good to a tenth of its width."""

BUDGETED = "raw mean, same budget"
"""What all raw durations tell a detector that may raise no more false flags than the default."""

STEPS = 10
VALUES_PER_CLUSTER = 5
U_NODES = 512


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A point of the design; `share` of ranks are sick, at least one; 0 = healthy. Seeds from `first_seed` on.

    Everything is measured on the last `WINDOWS` of the `windows`, but for `LATER` and `NAMED`.
    """

    family: str
    count: int = 200
    ranks: int = 64
    factor: float = 1.2
    share: float = 0.0157
    seeds: int = 3
    first_seed: int = 0
    windows: int = WINDOWS

    @property
    def num_sick(self) -> int:
        """Sick ranks."""
        return max(1, round(self.share * self.ranks)) if self.share else 0


@dataclass(kw_only=True)
class Tally:
    """Hits and misses over seeds; `by_luck` (hits,) is the chance of each number of hits for blind flags.

    `trials` holds (hits, false flags, misses) of each seed.
    """

    hit: int = 0
    false: int = 0
    missed: int = 0
    by_luck: Samples = field(default_factory=lambda: np.ones(1))
    trials: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, flags: NDArray[np.bool_], sick: NDArray[np.bool_]) -> None:
        """Count one trial's ranks."""
        one = int((flags & sick).sum()), int((flags & ~sick).sum()), int((~flags & sick).sum())
        self.trials.append(one)
        self.hit, self.false, self.missed = self.hit + one[0], self.false + one[1], self.missed + one[2]
        num_sick = int(sick.sum())
        blind = hypergeom.pmf(np.arange(num_sick + 1), len(sick), num_sick, int(flags.sum()))
        self.by_luck = np.convolve(self.by_luck, blind)

    @property
    def luck(self) -> float:
        """Chance that as many flags, put on ranks blindly, hit as many of the sick or more."""
        return float(min(self.by_luck[self.hit :].sum(), 1.0))

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 1 where there was nothing to find and nothing was."""
        return float(_f1(np.array([self.hit, self.false, self.missed])))

    @property
    def blind_f1(self) -> float:
        """F1 that as many flags reach on average when they are put on ranks blindly."""
        hit = float(self.by_luck @ np.arange(len(self.by_luck)))
        flags, sick = self.hit + self.false, self.hit + self.missed
        return 2.0 * hit / (flags + sick) if flags + sick else 1.0

    @property
    def recall(self) -> float:
        """Part of the sick that was found."""
        return self.hit / max(self.hit + self.missed, 1)


@dataclass(kw_only=True)
class Result:
    """Errors by method, rank correlation by method, F1 by method."""

    condition: Condition
    error: dict[str, list[float]] = field(default_factory=dict)
    spearman: dict[str, list[float]] = field(default_factory=dict)
    tally: dict[str, Tally] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Medians and scores, JSON-ready."""
        return {
            **asdict(self.condition),
            "error": {k: float(np.median(v)) for k, v in self.error.items()},
            "error_p95": {k: float(np.quantile(v, 0.95)) for k, v in self.error.items()},
            "spearman": {k: float(np.median(v)) for k, v in self.spearman.items()},
            "f1": {k: tally.f1 for k, tally in self.tally.items()},
            "recall": {k: tally.recall for k, tally in self.tally.items()},
            "false": {k: tally.false for k, tally in self.tally.items()},
            "luck": {k: tally.luck for k, tally in self.tally.items()},
            "blind_f1": self.tally[PUBLISHED].blind_f1,
            "lead": list(lead(self.tally["default"], self.tally[PUBLISHED])),
        }


def lead(mine: Tally, theirs: Tally) -> tuple[float, float]:
    """95 % interval of what F1 `mine` is ahead of `theirs`, by drawing trials with replacement."""
    both = np.array([mine.trials, theirs.trials])
    drawn = np.random.default_rng(0).integers(0, both.shape[1], (DRAWS, both.shape[1]))
    ahead = _f1(both[0][drawn].sum(axis=1)) - _f1(both[1][drawn].sum(axis=1))
    low, high = np.quantile(ahead, [0.025, 0.975])
    return float(low), float(high)


def _f1(counts: NDArray[np.int64]) -> Samples:
    """F1 of (…, 3) hits, false flags and misses."""
    hit, false, missed = np.moveaxis(counts, -1, 0)
    total = 2 * hit + false + missed
    return np.where(total > 0, 2.0 * hit / np.maximum(total, 1), 1.0)


def run_condition(
    condition: Condition, *, rule: Rule | None = None, settings: Settings | None = None, alpha: float = ALPHA
) -> Result:
    """All seeds of a condition."""
    result = Result(condition=condition)
    for seed in range(condition.first_seed, condition.first_seed + condition.seeds):
        _one(result, seed, rule=rule, settings=settings or Settings(), alpha=alpha)
    return result


def _one(result: Result, seed: int, *, rule: Rule | None, settings: Settings, alpha: float) -> None:
    condition = result.condition
    rng = np.random.default_rng(
        [seed, condition.ranks, condition.count, zlib.crc32(condition.family.encode())]
    )
    family = FAMILIES[condition.family]
    device = np.exp(DEVICE_SPREAD * rng.normal(size=condition.ranks))
    sick = np.zeros(condition.ranks, np.bool_)
    sick[rng.choice(condition.ranks, condition.num_sick, replace=False)] = True
    windows = [
        [
            sample(
                family if kernel == 0 else FAMILIES["log-normal"],
                rng,
                num_ranks=condition.ranks,
                count=condition.count,
                device=device,
                sick=sick if kernel == 0 else np.zeros_like(sick),
                factor=condition.factor,
            )
            for kernel in range(1 + OTHERS)
        ]
        for _ in range(condition.windows)
    ]
    peers = classes(np.arange(condition.ranks), np.zeros(condition.ranks, np.int64))
    tables = [table_of(window, rule=rule) for window in windows]
    if condition.windows > WINDOWS:
        named = default_flags(tables, peers, windows[0], settings)
        result.tally.setdefault(LATER, Tally()).add(named[-1], sick)
        result.tally.setdefault(NAMED, Tally()).add(np.asarray(named.any(axis=0)), sick)
    windows, ours = windows[-WINDOWS:], tables[-WINDOWS:]
    profiles = _profiles(windows[-1][0], ours[-1], rule=rule)
    _compare(result, profiles, sick=sick, rng=rng)
    for method, scores in _scores(profiles).items():
        flags = paper_flags(scores, peers, alpha=alpha)
        result.tally.setdefault(method, Tally()).add(flags, sick)
    result.tally.setdefault(BUDGETED, Tally()).add(budgeted_flags([window[0] for window in windows]), sick)
    result.tally.setdefault("default", Tally()).add(
        default_flags(ours, peers, windows[0], settings)[-1], sick
    )


def budgeted_flags(windows: Sequence[Samples]) -> NDArray[np.bool_]:
    """Ranks whose raw mean over all windows stands out, at the default detector's false-alarm budget. (rank,)"""
    mean = np.log(np.mean([window.mean(axis=1) for window in windows], axis=0))
    away = mean - np.median(mean)
    spread = max(float(np.median(np.abs(away))) * MAD_TO_SIGMA, 1e-12)
    return np.asarray(away > -float(ndtri(Settings().floor)) * spread)


def default_flags(
    tables: Sequence[KernelTable], peers: Peers, kernels: Sequence[Samples], settings: Settings
) -> NDArray[np.bool_]:
    """Ranks the default detector names for the studied kernel after `WINDOWS` windows and after each more. (window, rank)"""
    digests: list[KernelDigest] = []
    named = []
    for number, table in enumerate(tables):
        one = _digest(table, peers, kernels, settings=settings).after(digests, settings=settings)
        digests = [*(before.slim() for before in digests[-KEPT:]), one]
        if number >= WINDOWS - 1:
            votes, place = vote(one, digests[:-1], settings=settings), place_of(table, STUDIED)
            named.append(votes.shift[place] | votes.tail[place] | votes.device)
    return np.array(named)


def _digest(
    table: KernelTable, peers: Peers, kernels: Sequence[Samples], *, settings: Settings
) -> KernelDigest:
    """One window as the service digests it, at a step as long as its kernels."""
    step_ns = float(sum(samples.sum() / len(samples) for samples in kernels)) / STEPS
    return digest_table(table, peers, step_ns=step_ns, num_steps=STEPS, settings=settings)


def _profiles(raw: Samples, ours: KernelTable, *, rule: Rule | None) -> Mapping[str, Profile]:
    """The studied kernel as each method keeps it; raw first."""
    count = raw.shape[1]
    ordered = np.sort(raw, axis=1)
    paper = table_of([raw], mode="paper")
    shape = shape_of(ours)
    num_values = VALUES_PER_CLUSTER * max(1, round(float((shape.weight > 0).sum(axis=1).mean())))
    quantiles = (np.arange(num_values) + 0.5) / num_values
    u = (np.arange(U_NODES) + 0.5) / U_NODES
    kept = np.quantile(ordered, quantiles, axis=1).T
    sketch = np.array([np.interp(u, quantiles, row) for row in kept])
    return {
        "raw": Profile(value=ordered, weight=np.full(count, 1.0 / count)),
        "triple": cdf_profile(shape_of(paper, is_paper=True)),
        "triple+max+sum": quantile_profile(shape),
        "sketch": Profile(value=sketch, weight=np.full(U_NODES, 1.0 / U_NODES)),
    }


def _compare(
    result: Result, profiles: Mapping[str, Profile], *, sick: NDArray[np.bool_], rng: np.random.Generator
) -> None:
    """Relative error over pairs of a sick and a healthy rank, and rank correlation over all pairs."""
    num = len(sick)
    some = np.arange(num)
    if num > FULL_MATRIX:
        some = np.sort(
            np.concatenate([np.flatnonzero(sick)[: SAMPLED_RANKS // 2], rng.choice(num, SAMPLED_RANKS // 2)])
        )
    distances = {
        name: matrix(Profile(value=one.value[some], weight=one.weight)) for name, one in profiles.items()
    }
    upper = np.triu_indices(len(some), 1)
    between = sick[some][:, None] != sick[some][None, :]
    true = distances["raw"]
    for name, mine in distances.items():
        if name == "raw":
            continue
        pairs = between & (true > 0)
        if pairs.any():
            error = np.abs(mine[pairs] / true[pairs] - 1.0)
            result.error.setdefault(name, []).extend(error[:: max(1, len(error) // 500)].tolist())
        correlation = spearmanr(true[upper], mine[upper]).statistic
        result.spearman.setdefault(name, []).append(float(np.nan_to_num(correlation)))


def _scores(profiles: Mapping[str, Profile]) -> Mapping[str, Samples]:
    """Mean distance of each rank to its peers by method; KS and KL stand in for W₁ on the triple."""
    scores = {name: mean_w1(profile) for name, profile in profiles.items()}
    value = profiles["triple"].value
    if len(value) <= FULL_MATRIX:
        scores["KS"] = np.array([np.abs(value - row).max(axis=1).mean() for row in value])
        mass = np.maximum(np.diff(value, axis=1), 0.0) + 1e-9
        mass /= mass.sum(axis=1, keepdims=True)
        logs = np.log(mass)
        own = (mass * logs).sum(axis=1)
        both = own[:, None] + own[None, :] - mass @ logs.T - (mass @ logs.T).T
        scores["KL"] = both.mean(axis=1)
    return scores
