"""What the name of a table's column says: a step's time, a clock, a rate, a counter, or whose row it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

Kind = Literal["step", "whose", "duration", "time", "clock", "rate", "rank", "other"]
"""`duration` is a step's for sure; `time` may also be a clock, which its values tell; `rank` is one rank's column."""

SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "usec", "usecs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("minutes", "mins"), 60.0),
}
"""Words for units, in seconds. `min` is none of them: it is as often the least of several."""

_STEPS = {"step", "steps", "iteration", "iterations", "iter", "iters", "it", "batch", "batches", "minibatch"}
_COUNTERS = {"step", "iteration", "iter", "index", "globalstep"}
_WHOSE = {
    *("rank", "globalrank", "rankid", "worldrank", "localrank", "worker", "workerid"),
    *("host", "hostname", "run", "runid", "runname", "job", "jobid"),
}
_TIMES = {
    "time",
    "times",
    "timing",
    "timings",
    "duration",
    "durations",
    "elapsed",
    "latency",
    "took",
    "dt",
    "dur",
}
_MOMENTS = {"timestamp", "timestamps", "datetime", "date", "runtime", "relative"}
_FILLERS = {"in", "train", "training", "trainer", "perf", "total", "mean", "avg", "wall", "walltime"}
_PARTS = {
    *("optimizer", "optim", "opt", "eval", "evaluation", "val", "valid", "validation", "test"),
    *("data", "dataset", "dataloader", "loader", "load", "loading", "fetch", "io", "disk", "net", "network"),
    *("forward", "fwd", "backward", "bwd", "comm", "communication", "allreduce", "wait", "sync"),
    *("checkpoint", "checkpointing", "ckpt", "save", "eta", "remaining", "std", "stddev", "var"),
    *("gb", "mb", "kb", "bytes", "byte", "gbps", "mbps"),
}
"""Words of times that are no step's: of a part of it, of what is still to come, of how widely it spreads."""

_MEASURE = re.compile(
    r"(?:(?:lm|mtp|moe|aux|z|load|balancing|train|training|val|valid|validation|eval|test|total|mean|avg|per) )*"
    r"(?:loss(?:es)?|perplexity|ppl|accuracy|lr|learning rate|(?:grad|gradient|params?) norm|num zeros|mem [a-z ]*bytes)"
)
"""The whole name of something that training logs beside its step times; a run may be called `low-lr` or `qk-norm`."""

_TOKENS = {"tokens", "token", "tok", "toks", "tps", "tgs"}
_SAMPLES = {"samples", "sample", "sps", "examples", "seqs", "sequences", "images", "imgs", "ips", "frames"}
_WORK = {"throughput", "tflops", "tflop", "flops"}
_COUNTED = SECONDS.keys() | _TIMES | _TOKENS | _SAMPLES
"""What stands before the slash of `s/it` or `tokens/step`, which are no counters of steps."""

_PER_SECOND = {"tps", "tgs", "sps", "ips", "throughput", "tflops"}


def words(name: str) -> list[str]:
    """Words of a name without the run it is of (W&B's `run - tag`); a slash is a `per`.

    >>> words("my-run-7 - train/stepTime (ms)"), words("it/s")
    (['train', 'per', 'step', 'time', 'ms'], ['it', 'per', 's'])
    """
    tag = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.rsplit(" - ", 1)[-1])
    return re.findall(r"[a-zµ]+|\d+", tag.replace("/", " per ").lower())


def kind_of(name: str) -> Kind:
    """What a column of this name holds.

    >>> [kind_of(name) for name in ("_step", "iter_time", "Wall time", "it/s", "rank0", "loss")]
    ['step', 'duration', 'clock', 'rate', 'rank', 'other']
    """
    said = words(name)
    path, _, tail = name.rpartition("/")
    whole = "".join(words(tail))
    if whole in _COUNTERS and not _COUNTED & set(words(path)[-1:]):
        return "step"
    if whole in _WHOSE:
        return "whose"
    if re.fullmatch(r"(rank|worker|trainer)\d+", whole):
        return "rank"
    if not said or _PARTS & set(said) or re.search(r"__(min|max)$", name.lower()):
        return "other"
    return _kind_of_time(said)


def is_measure(name: str) -> bool:
    """Whether a series of this name holds a loss or the like, which is told beside step times and is none.

    >>> [is_measure(name) for name in ("lm loss", "train/loss", "learning-rate", "qk-norm", "iteration-time")]
    [True, True, True, False, False]
    """
    return _MEASURE.fullmatch(" ".join(words(name))) is not None


def _kind_of_time(said: Sequence[str]) -> Kind:
    has_unit, has_time = bool(SECONDS.keys() & set(said)), bool(_TIMES & set(said))
    if _MOMENTS & set(said) or (has_time and {"start", "began"} & set(said)):
        return "clock"
    if any(one == "per" and other in _STEPS for one, other in pairwise(said)) and (has_unit or has_time):
        return "duration"
    if _is_rate(said):
        return "rate"
    if (_STEPS & set(said) and (has_unit or has_time)) or list(said[-4:-1]) == ["end", "to", "end"]:
        return "duration"
    if "walltime" in said or {"wall", "time"} <= set(said):
        return "clock"
    rest = set(said) - _TIMES - SECONDS.keys() - _FILLERS - {"per"}
    return "time" if (has_unit or has_time) and not rest else "other"


def _is_rate(said: Sequence[str]) -> bool:
    if _PER_SECOND & set(said):
        return True
    work = _STEPS | _TOKENS | _SAMPLES | _WORK
    for place, (one, other) in enumerate(pairwise(said)):
        if one == "per" and SECONDS.get(other) == 1.0 and work & set(said[:place]):
            return True
    return False


def scale_of(name: str) -> float:
    """Seconds of one unit of a column of this name; 1 where it names none."""
    return next((SECONDS[word] for word in reversed(words(name)) if word in SECONDS), 1.0)


def unit_of_rate(name: str) -> str:
    """Unit of the inverse of a rate of this name: seconds a step, or of the work it counts."""
    said = set(words(name))
    if said & _TOKENS:
        return "s a token"
    if said & _SAMPLES:
        return "s a sample"
    return "s a unit of work" if said & (_WORK | _PER_SECOND) else "s"
