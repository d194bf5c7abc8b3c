"""Attach to this process: two triggers at first, everything else once it proves to be a training rank."""

from __future__ import annotations

import atexit
import math
import os
import pkgutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from socket import gethostname, socket
from subprocess import CalledProcessError
from typing import cast

from argus.collectors import hooks
from argus.collectors.rank import state
from argus.collectors.rank.channels import channels_of
from argus.collectors.rank.clock import anchored_clock
from argus.collectors.rank.elastic import tell_rounds
from argus.collectors.rank.gpu import cuda_clock
from argus.collectors.rank.guard import Part
from argus.collectors.rank.identity import (
    LAUNCH_HOST,
    RANK_PID,
    Place,
    is_elastic_launcher,
    may_attach,
    place_of,
    run_name,
    run_of,
)
from argus.collectors.rank.layout import LayoutWatch, place_in_group
from argus.collectors.rank.optimizer_events import optimizer_events
from argus.collectors.rank.raised import last_raised
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.session import Hook, Session
from argus.collectors.rank.sink import Connect, Sink, connect_to
from argus.collectors.rank.user import UserMarks
from argus.collectors.rank.writer import Stream, Writer
from argus.collectors.records.endpoint import socket_path
from argus.collectors.records.switch import is_off

INIT_HOLDERS = ("torch.distributed", "torch.distributed.distributed_c10d", "torch.distributed.device_mesh")
"""Modules that hold a reference to `init_process_group`."""

SETTLE_S = 0.1
"""At the end, for the calls in flight: a work's thread is late by milliseconds, one that hangs is not waited for."""

START_AGAIN_S = 60.0
"""Between two starts of a processor by one rank: one that does not live must not be fed to it for ever."""


class Attachment:
    """This process's one attachment. `pid` is the process it belongs to: a forked child is not it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.triggers = Part("attach", ring=Ring(), on_off=lambda _text: None)
        self.is_forked = False
        self.is_wanted = True  # False once detached: then only an explicit start records again
        self.session: Session | None = None
        self.writer: Writer | None = None
        self.lock = threading.RLock()


_attachment: Attachment | None = None


def prepare(*, arm: bool = False) -> None:
    """Called after torch was imported: put the triggers in if this process may be a rank.

    With `arm` it records at once if its rank is known, as `argus.init()` asks for.
    """
    global _attachment
    if not may_attach(os.environ, command=_command(), pid=os.getpid()):
        if is_elastic_launcher(os.environ, command=_command()):
            tell_rounds()
        return
    if _attachment is None:
        _attachment = Attachment()
        os.register_at_fork(after_in_child=_in_child)
        _attachment.triggers.guard(_install_triggers)(_attachment.triggers)
        state.arm = arm_on_step
    if arm and (place_in_group() or place_of(os.environ)):
        start()


def current_session() -> Session | None:
    """What records in this process, None if nothing does."""
    return None if _attachment is None else _attachment.session


def _install_triggers(part: Part) -> None:
    """The first optimizer step and `init_process_group` tell a training rank from everything else."""
    import torch

    state.is_compiling = torch.compiler.is_compiling

    def first_step(_instance: object, _args: object, _kwargs: object) -> None:
        if not state.is_compiling():
            arm_on_step()

    optimizer_events().before(first_step, part)
    if not torch.distributed.is_available():
        return
    original = torch.distributed.init_process_group

    @wraps(original)
    def init_process_group(*args: object, **kwargs: object) -> None:
        original(*args, **kwargs)  # type: ignore[arg-type]
        start()

    for name in INIT_HOLDERS:
        module = sys.modules.get(name)
        if module is not None and getattr(module, "init_process_group", None) is original:
            part.patch(module, "init_process_group", init_process_group)


def arm_on_step() -> None:
    """A step was made: that is a rank, but a forked or spawned child only if it joined a process group."""
    if _attachment is None or _attachment.session is not None or not _attachment.is_wanted:
        return
    process = sys.modules.get("multiprocessing.process")
    is_child = _attachment.is_forked or (process is not None and process.parent_process() is not None)
    if not is_child or place_in_group() is not None:
        start()
        if _attachment.session is not None:
            _attachment.session.recorder.begin_steps()


def start() -> None:
    """Start recording in this process; nothing if it records already or may not."""
    attachment = _attachment
    if attachment is None:
        return
    with attachment.lock:
        attachment.is_wanted = True
        if attachment.session is None and attachment.triggers.is_on:
            attachment.triggers.guard(_arm)(attachment)


def _arm(attachment: Attachment) -> None:
    env = os.environ
    if not may_attach(env, command=_command(), pid=os.getpid()):
        attachment.triggers.off()
        return
    place = place_in_group() or place_of(env) or Place(rank=0, world_size=1, local_rank=0)
    now_ns = anchored_clock()
    run = run_of(env) or run_name(f"{os.path.basename(_command()[0] or 'python')}-{os.getppid()}")
    recorder = Recorder(
        ring=Ring(),
        now_ns=now_ns,
        cpu_ns=time.thread_time_ns,
        gpu=cuda_clock(now_ns),
        channels=channels_of(run, env),
    )
    session = Session(recorder)
    session.run = run
    watch = _layout_watch(session, place, dict(env))
    path = socket_path(env)
    stream = Stream(
        session,
        layout=watch,
        sink=lambda stream: Sink(
            connect=_connector(path, dict(env), now_s=time.monotonic),
            prelude=stream.prelude,
            now_s=time.monotonic,
            on_control=session.control,
        ),
        is_off=partial(is_off, path, run),
    )
    attachment.session, attachment.writer = session, Writer(stream, session)
    env[RANK_PID] = str(os.getpid())
    for name, hook in find_hooks():
        session.add(name, hook)
    marks = Part("user", ring=recorder.ring, on_off=session.part_failed)
    state.user = UserMarks(recorder, marks)
    _start_writing(attachment.writer)
    _at_exit(_leave)


def _start_writing(writer: Writer) -> None:
    """Without a writer the patches would cost time for nobody. RuntimeError if there is no thread for it."""
    try:
        writer.start()
    except RuntimeError as error:
        detach()
        raise RuntimeError(f"this rank is not observed, there is no thread for it: {error}") from None


def _layout_watch(session: Session, place: Place, env: Mapping[str, str]) -> LayoutWatch:
    gpu = session.recorder.gpu
    return LayoutWatch(
        run=session.run,
        place=place,
        env=env,
        on_change=session.groups_changed,
        pipelines=session.pipelines,
        began_ns=session.recorder.now_ns(),
        gpu_index=lambda: None if gpu is None else gpu.device,
    )


def _connector(path: Path, env: Mapping[str, str], *, now_s: Callable[[], float]) -> Connect:
    """Connects; starts the processor on a host that `argus run` did not reach, and again where it was killed."""
    is_elsewhere = env.get(LAUNCH_HOST, "") not in ("", gethostname())
    # On the launch host one is being started: only that it answered and does so no more is a reason to.
    may_start_s = [now_s() if is_elsewhere else math.inf]

    def connect() -> socket:
        try:
            connection = connect_to(path)
        except OSError:
            if now_s() < may_start_s[0]:
                raise
            may_start_s[0] = now_s() + START_AGAIN_S
            _start_processor(env)
            connection = connect_to(path)
        if env.get(LAUNCH_HOST) and may_start_s[0] == math.inf:
            may_start_s[0] = now_s()
        return connection

    return connect


def _start_processor(env: Mapping[str, str]) -> None:
    """Start the host's processor if none answers. OSError if that cannot be."""
    from argus.collectors import launch

    try:
        launch.ensure_processor(launch.plan_from(env), launcher_pid=os.getpid(), env=env)
    except (ValueError, CalledProcessError) as error:
        raise OSError(str(error)) from None


def find_hooks() -> list[tuple[str, Hook]]:
    """Every module of `collectors/hooks`, by name."""
    names = sorted(info.name for info in pkgutil.iter_modules(hooks.__path__))
    return [(name, cast(Hook, import_module(f"{hooks.__name__}.{name}"))) for name in names]


def detach(*, in_order: bool = True, raised: str = "") -> None:
    """Take everything out, flush what was recorded, say goodbye if all went well; at most a second."""
    attachment = _attachment
    if attachment is None or attachment.pid != os.getpid():
        return
    attachment.is_wanted = False
    if attachment.session is None:
        return
    state.user = None
    session, writer = attachment.session, attachment.writer
    attachment.session = attachment.writer = None
    Part("finish", ring=session.ring, on_off=session.unseen).guard(_finish)(session)
    session.stop()
    if os.environ.get(RANK_PID) == str(os.getpid()):
        del os.environ[RANK_PID]
    if writer is not None:
        writer.close(in_order=in_order, raised=raised)


def _finish(session: Session) -> None:
    """Close what is open; works that are over may still wait for a thread that tells us so."""
    end_s = time.monotonic() + SETTLE_S
    while session.calls.in_flight() and time.monotonic() < end_s:
        time.sleep(SETTLE_S / 50)
    session.recorder.finish()


def _leave() -> None:
    """The process ends, on its own accord or by an exception nobody caught: that is no goodbye.

    The code of a `SystemExit` cannot be seen here: the host reads it from the process.
    """
    detach(in_order=not hasattr(sys, "last_type") and sys.exc_info()[0] is None, raised=last_raised())


def _at_exit(call: Callable[[], None]) -> None:
    """`atexit`, and multiprocessing's own way, whose children end without it."""
    atexit.register(call)
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, call, exitpriority=100)


def _in_child() -> None:
    """In a forked child: it is no rank unless it joins a process group of its own."""
    attachment = _attachment
    if attachment is None:
        return
    attachment.lock = threading.RLock()
    attachment.is_forked = True
    attachment.pid = os.getpid()
    if attachment.session is not None:
        state.user = None
        attachment.session.ring.renew_lock()
        attachment.session.stop()
        if attachment.writer is not None:
            attachment.writer.abandon()
        attachment.session = attachment.writer = None
        attachment.triggers.off()


def _command() -> list[str]:
    return list(getattr(sys, "orig_argv", sys.argv)) or [""]
