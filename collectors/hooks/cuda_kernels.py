"""GPU kernels, copies and sets through CUPTI, where there is a GPU and cupti-python (extra `gpu`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from argus.collectors.rank.cupti.anchor import Anchor
from argus.collectors.rank.cupti.api import Unavailable
from argus.collectors.rank.cupti.channel import Channel
from argus.collectors.rank.cupti.join import Joiner
from argus.collectors.rank.guard import Part
from argus.collectors.rank.layout import process_groups
from argus.collectors.rank.session import Session
from argus.collectors.rank.timeline import CallSpans, Timeline
from argus.collectors.records.kernel_names import group_kind

NEEDS = "torch.cuda"

KERNELS = "ARGUS_KERNELS"
"""`off` collects no kernels, `objects` reads cupti-python's records instead of raw buffers."""


def install(session: Session, part: Part) -> None:
    """Start once the job has initialised CUDA, on the writer thread; nothing on a job without a GPU."""
    wanted = os.environ.get(KERNELS, "")
    if session.recorder.gpu is None or wanted == "off":
        return
    attach(session, part, is_raw=wanted != "objects", is_ready=is_cuda_initialized)


def is_cuda_initialized() -> bool:
    """Whether the job uses its GPU already; asking does not make it."""
    return bool(sys.modules["torch"].cuda.is_initialized())


def attach(session: Session, part: Part, *, is_raw: bool, is_ready: Callable[[], bool]) -> None:
    """Have the writer thread open the channel once it `is_ready`, and keep it."""

    def tick() -> None:
        if session.kernels is not None:
            session.kernels.tick()
        elif is_ready():
            made = open_channel(session, is_raw=is_raw)
            if made is None:
                part.off()
                return
            session.kernels = made
            session.pause_kernels()
            part.on_undo(made.stop)
            part.on_undo(session.claims.on_claim(part.guard(made.step_aside)))
            part.on_undo(lambda: forget(session))
            made.start_parsing(part)

    session.on_tick(part.guard(tick))


def open_channel(session: Session, *, is_raw: bool = True) -> Channel | None:
    """The channel of this process, or None with the reason in the rank's notes."""
    from argus.collectors.rank.cupti import process

    try:
        api = process.shared_api()
    except Unavailable as error:
        session.unseen(f"kernels: {error}")
        return None
    path, remark = process.best_path() if is_raw else (process.shared_objects(), "")
    if remark:
        session.unseen(remark)
    recorder, calls = session.recorder, session.calls
    timeline = recorder.timeline = Timeline()
    spans = calls.spans = CallSpans()
    joiner = Joiner(
        ring=session.ring,
        timeline=timeline,
        calls=spans,
        shorten=process.shared_shortener(),
        group_kind=lambda index: kind_of_group(session.ring.names[index]),
    )
    return Channel(
        api=api,
        path=path,
        fallback=process.shared_objects,
        joiner=joiner,
        recorder=recorder,
        claims=session.claims,
        unseen=session.unseen,
        anchor=Anchor(now_ns=recorder.now_ns, cupti_ns=api.now_ns),
    )


def forget(session: Session) -> None:
    """Nobody looks up phases and calls by time any more."""
    session.kernels = None
    session.recorder.timeline = None
    session.calls.spans = None


def kind_of_group(name: str) -> str:
    """Kind of the process group that the runtime calls `name`."""
    descs = {group.name: group.desc for group in process_groups()}
    return group_kind(descs.get(name, ""))
