"""Argus and simpler systems on the same trials, in one go; a book of marks makes a long run resumable."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from argus.api.cli.errors import CliError
from argus.evals.answers import compare
from argus.evals.asked_model import NO_ENDPOINT_SET, NOT_MEASURED, AskedModel
from argus.evals.marks import Mark, from_json
from argus.evals.moments import BEATING_RANKS
from argus.evals.score import Trial
from argus.evals.semi import suite as semi
from argus.evals.systems import OURS, asked_systems, peers, systems

ALL = "all"

LINE_START = b'{"system'
"""How every line of a book begins, also one that was cut short: a line is one write."""


def chosen(
    names: Sequence[str], *, reads_traces: bool = False, model: AskedModel | None = None
) -> tuple[str, ...]:
    """The systems to run, ours first, with traces to read the peers that are installed, with a model those that ask it.

    CliError for a name that is none, of a peer that cannot be run, or of a system that has no model to ask.
    """
    there = {name: peer.why_not() for name, peer in peers().items()}
    named = sorted(set(names) & set(there))
    if named and not reads_traces:
        raise CliError(f"{named[0]} reads traces, which --suite semi alone has")
    if named and there[named[0]]:
        raise CliError(there[named[0]])
    for reason in there.values() if reads_traces and ALL in names else ():
        if reason:
            print(f"argus eval: skipped: {reason}", file=sys.stderr)
    peers_there = (name for name, reason in there.items() if reads_traces and not reason)
    # What a recording says is kept as marks alone, and a model is asked about findings.
    asked = () if reads_traces else tuple(asked_systems())
    if model is None:
        _check_asked(set(names) & set(asked))
    known = (OURS, *systems(), *(asked if model else ()), *peers_there)
    wrong = sorted(set(names) - {*known, ALL})
    if wrong:
        raise CliError(
            f"no system {wrong[0]!r}; there are {', '.join(known)}, and {ALL} for every one of them"
        )
    return known if ALL in names else tuple(name for name in known if name in names)


def _check_asked(named: Collection[str]) -> None:
    if named:
        raise CliError(f"{min(named)} asks a language model, and none is set up: {NO_ENDPOINT_SET}")


def not_measured(names: Sequence[str], *, reads_traces: bool, model: AskedModel | None) -> tuple[str, ...]:
    """Systems that were wanted and have no model to ask, each to be shown as not measured; said once on stderr."""
    if ALL not in names or reads_traces or model is not None:
        return ()
    lacking = tuple(asked_systems())
    print(f"argus eval: {' and '.join(lacking)}: {NOT_MEASURED} ({NO_ENDPOINT_SET})", file=sys.stderr)
    return lacking


def sliced(trials: Sequence[Trial], part: str) -> list[Trial]:
    """The i-th of n parts of the trials, `i/n`, in their order. CliError if it is not such a part.

    >>> sliced([1, 2, 3, 4, 5], "2/3")
    [2, 3]
    """
    number, _, of = part.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise CliError(f"--slice takes a part i/n, for instance 1/4, got {part!r:.40}")
    first, end = ((len(trials) * at) // int(of) for at in (int(number) - 1, int(number)))
    return list(trials[first:end])


def run_all(
    trials: Sequence[Trial],
    *,
    names: Sequence[str],
    data: Path | None = None,
    model: AskedModel | None = None,
    book: Path | None = None,
    jobs: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> list[Mark]:
    """Marks of every trial and every system that can read it; what the book holds is not run again, what is run is
    added to it. `data` holds the recordings of those trials that are made of some, `model` is for those who ask one.
    """
    if book:
        _mend(book)
    known = {one.key: one for one in read_book(book)} if book else {}
    pairs = [(t, name) for t in trials for name in names if _takes(t, name)]
    lacking: dict[Trial, list[str]] = {}
    for trial, name in pairs:
        if (name, *vars(trial).values()) not in known:
            lacking.setdefault(trial, []).append(name)
    todo = [(trial, missing, data, model) for trial, missing in lacking.items()]
    started, last = clock(), 0.0
    for done, marks in enumerate(_marks(todo, jobs=jobs or os.cpu_count() or 1), start=1):
        new = [one for one in marks if one.key not in known]
        known |= {one.key: one for one in new}
        if book and new:
            _add(book, new)
        if done == len(todo) or clock() - started > last + 5.0:
            last = clock() - started
            print(f"argus eval: {done} of {len(todo)} trials, {last:.0f} s", file=sys.stderr)
    return [known[name, trial.scenario, trial.seed, trial.ranks, trial.severity] for trial, name in pairs]


def _mend(book: Path) -> None:
    """Take off a line that was cut short by a stop: its trial is played again. What is no book is left as it is."""
    if not book.is_file() or (content := book.read_bytes()).endswith(b"\n") or not content:
        return
    whole = content[: content.rfind(b"\n") + 1]
    if not content[len(whole) :].startswith(LINE_START):
        raise CliError(f"{book} is no book of marks (its last line begins otherwise): name a new file")
    _marks_of(whole, book)
    book.write_bytes(whole)
    print(f"argus eval: the last line of {book} was cut short and is taken off", file=sys.stderr)


def _add(book: Path, marks: Sequence[Mark]) -> None:
    """One write a trial: what was written before a stop is whole lines."""
    try:
        with book.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(one.to_json()) + "\n" for one in marks))
    except OSError as error:
        raise CliError(f"{book} cannot be written: {error.strerror}") from None


def read_book(path: Path) -> list[Mark]:
    """The marks of earlier runs, none if there is no file yet. CliError if it is no book."""
    if not path.exists():
        return []
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CliError(f"{path} cannot be read: {error.strerror}") from None
    return _marks_of(content, path)


def _marks_of(content: bytes, path: Path) -> list[Mark]:
    try:
        return [from_json(json.loads(line)) for line in content.decode().splitlines()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CliError(f"{path} is no book of marks ({error!r:.100}): name a new file") from None


def _takes(trial: Trial, name: str) -> bool:
    """Whether a system can answer a trial; tools of a model look into windows, which those of a large job have no room for."""
    if name in asked_systems() and trial.ranks > BEATING_RANKS:
        return False
    return semi.takes(trial.scenario, name)


Work = tuple[Trial, list[str], Path | None, AskedModel | None]
"""A trial, the systems to play it, where recordings are, and the model to ask."""


def _marks(todo: Sequence[Work], *, jobs: int) -> Iterator[list[Mark]]:
    if jobs == 1 or len(todo) < 2 * jobs:
        yield from map(_compared, todo)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(_compared, todo)
        except BrokenProcessPool:
            raise CliError(
                "a process that played a trial was killed, for want of memory perhaps: try --jobs 1; "
                "what a --book holds is not lost"
            ) from None


def _compared(work: Work) -> list[Mark]:
    trial, names, data, model = work
    if trial.scenario in semi.SOURCES and data is not None:
        return semi.compare(trial, names=names, data=data)
    return compare(trial, names=names, model=model)
