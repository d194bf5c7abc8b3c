"""`argus processor`: the host processor beside the ranks."""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from argus.api.cli.errors import CliError
from argus.api.cli.processor_options import add_arguments
from argus.collectors.host.aside import Aside
from argus.collectors.host.client import HttpPost, parse_server
from argus.collectors.host.counters import Counters
from argus.collectors.host.delivery import Delivery, tell_losses
from argus.collectors.host.governor import Governor
from argus.collectors.host.gpus import open_gpus
from argus.collectors.host.host_sampler import HostSampler
from argus.collectors.host.kernel_log import KernelLog
from argus.collectors.host.launchers import Launchers
from argus.collectors.host.leftovers import sweep
from argus.collectors.host.listener import Listener, Target, listen
from argus.collectors.host.metrics import serve_metrics
from argus.collectors.host.notices import Notices
from argus.collectors.host.observers import HostWatch, Observers
from argus.collectors.host.open_pages import OpenPages
from argus.collectors.host.orders import WAIT_S, Lines, Orders
from argus.collectors.host.priority import give_way
from argus.collectors.host.processor import STOP_FLUSH_S, Processor
from argus.collectors.host.pyspy import find_pyspy
from argus.collectors.host.ranks import Ranks
from argus.collectors.host.raw_ring import RawRing
from argus.collectors.host.recorder import Recorder
from argus.collectors.host.reporting import product_version
from argus.collectors.host.spool import Spool, SpoolInUse
from argus.collectors.host.stack_taker import StackTaker
from argus.collectors.host.switches import Switches
from argus.collectors.host.uploader import Uploader
from argus.collectors.records.endpoint import private_directory, socket_path
from argus.collectors.records.upload import own_key

__all__ = ["add_arguments", "run"]

SPOOL_RETRY_S = 0.1


def run(args: argparse.Namespace) -> int:
    """Run until stopped or no longer needed."""
    path = args.socket or socket_path(os.environ)
    server = _server(args.server or os.environ.get("ARGUS_SERVER", ""), os.environ)
    launchers = _note_launcher(path, args.launcher_pid)
    while _serve(args, path, server=server, launchers=launchers):
        # A launcher that came while we were ending found us listening, and so started none that stays.
        if launchers is None or not launchers.any_alive():
            break
    return 0


def _serve(
    args: argparse.Namespace, path: Path, *, server: HttpPost | None, launchers: Launchers | None
) -> bool:
    """Listen and work until nobody needs it; False if it was stopped, or if another one listens."""
    try:
        listener = listen(path, target=_target(args, server))
    except (ValueError, OSError) as error:
        raise CliError(f"cannot listen on {path}: {error}") from None
    if listener is None:
        _say(f"another processor listens on {path}")
        return False
    give_way()
    with ExitStack() as stack:
        with ExitStack() as unless_composed:
            unless_composed.callback(listener.close)
            counters, notices = Counters(), Notices(_say)
            metrics = _metrics(args.metrics_port, counters, notices, stack)
            processor = _compose(
                args, listener, server=server, launchers=launchers, counters=counters, notices=notices
            )
            unless_composed.pop_all()
        sweep(path.parent, now_s=time.time())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: processor.stop())
        target = f"reports to {server.url}" if server else "reports to no service"
        record = f", records into {args.record}" if args.record else ""
        _say(f"listens on {path}, {target}{record}{metrics}")
        return processor.run()


def _compose(
    args: argparse.Namespace,
    listener: Listener,
    *,
    server: HttpPost | None,
    launchers: Launchers | None,
    counters: Counters,
    notices: Notices,
) -> Processor:
    ring = _ring(args, listener, counters=counters, notices=notices) if server else None
    recorder = _recorder(args.record, args.record_bytes, counters=counters, notices=notices)
    governor = Governor(counters=counters, budget=args.overhead_budget)
    delivery = _deliver_to(server, args, listener=listener, counters=counters, notices=notices)
    return Processor(
        listener,
        _ranks(args, counters=counters),
        delivery=delivery,
        recorder=recorder,
        launchers=launchers,
        ring=ring,
        aside=_aside(
            args,
            listener,
            server=server,
            ring=ring,
            recorder=recorder,
            governor=governor,
            counters=counters,
            notices=notices,
        ),
        governor=governor,
        counters=counters,
        notices=notices,
        clock=time.monotonic,
        wall_clock=time.time,
    )


def _ranks(args: argparse.Namespace, *, counters: Counters) -> Ranks:
    return Ranks(
        host=host_of(args),
        first_steps=args.window_steps,
        counters=counters,
        is_host_given=bool(args.host),
    )


def _aside(
    args: argparse.Namespace,
    listener: Listener,
    *,
    server: HttpPost | None,
    ring: RawRing | None,
    recorder: Recorder | None,
    governor: Governor,
    counters: Counters,
    notices: Notices,
) -> Aside:
    """What observes, switches and follows orders; nobody would read observations of neither service nor recording."""
    host, observers, orders = host_of(args), None, None
    if server is not None or recorder is not None:
        observers = _observers(args, listener, governor=governor, counters=counters, notices=notices)
    if server is not None:
        orders = _orders(server, ring, host=host, counters=counters, notices=notices)
    return Aside(
        host=host,
        started_s=time.time(),
        switches=Switches(listener.path, notices=notices),
        observers=observers,
        orders=orders,
        counters=counters,
        recorder=recorder,
    )


def host_of(args: argparse.Namespace) -> str:
    """What this host is called."""
    return str(args.host or socket.gethostname())


def _ring(
    args: argparse.Namespace, listener: Listener, *, counters: Counters, notices: Notices
) -> RawRing | None:
    """The raw ring; the processor does its work without one if it must."""
    if not args.ring_bytes:
        return None
    directory = args.ring or Path(f"{listener.path}.ring")
    try:
        return RawRing(
            directory,
            max_bytes=args.ring_bytes,
            max_age_s=args.ring_age_s,
            counters=counters,
            notices=notices,
            clock=time.monotonic,
        )
    except (ValueError, OSError) as error:
        notices.once("ring", f"no raw ring: {error}")
        return None


def _orders(
    server: HttpPost, ring: RawRing | None, *, host: str, counters: Counters, notices: Notices
) -> Orders:
    lines = Lines(get=replace(server, timeout_s=2 * WAIT_S).get, send=server.send)
    orders = Orders(lines, ring, host=host, counters=counters, notices=notices, rng=random.Random())
    orders.start()
    return orders


def _observers(
    args: argparse.Namespace,
    listener: Listener,
    *,
    governor: Governor,
    counters: Counters,
    notices: Notices,
) -> Observers:
    """Stacks and host samples, as far as they are wanted: for the service, for the recording or for both."""
    stacks = watch = None
    host, pages = host_of(args), OpenPages(listener.path)
    if not args.no_stacks:
        stacks = StackTaker(host=host, counters=counters, program=find_pyspy(), wall_clock=time.time)
    if not args.no_host_samples:
        uptime = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
        sampler = HostSampler(host=host, gpus=open_gpus(), log=KernelLog(), uptime_clock=uptime)
        watch = HostWatch(sampler, counters=counters, wall_clock=time.time)
    observers = Observers(
        host=host,
        stacks=stacks,
        watch=watch,
        pages=pages,
        counters=counters,
        notices=notices,
        is_taped=args.record is not None,
        on_dump=governor.dumped,
    )
    observers.start()
    return observers


def _deliver_to(
    server: HttpPost | None,
    args: argparse.Namespace,
    *,
    listener: Listener,
    counters: Counters,
    notices: Notices,
) -> Delivery | None:
    """The delivery to the service, at work; None without one."""
    if server is None:
        return None
    directory = args.spool or Path(f"{listener.path}.spool")
    host = host_of(args)
    delivery = _delivery(
        server, directory, max_bytes=args.spool_bytes, host=host, counters=counters, notices=notices
    )
    delivery.start()
    return delivery


def _delivery(
    server: HttpPost,
    directory: Path,
    *,
    max_bytes: int,
    host: str,
    counters: Counters,
    notices: Notices,
) -> Delivery:
    if find_spec("zstandard") is None:
        raise CliError("needs zstandard to send; run: pip install 'argus-triage[host]'")

    lost = tell_losses(directory, counters=counters, notices=notices)
    waiting = _spool(directory, max_bytes=max_bytes, lost=lost)
    uploader = Uploader(
        server,
        waiting,
        host=host,
        counters=counters,
        notices=notices,
        clock=time.monotonic,
        rng=random.Random(),
    )
    return Delivery(waiting, uploader, counters=counters, notices=notices)


def _spool(directory: Path, *, max_bytes: int, lost: Callable[[str, int, str], None]) -> Spool:
    """Open the spool; a processor that is just ending may hold it some seconds longer than the socket."""
    deadline_s = time.monotonic() + STOP_FLUSH_S + 2.0
    while True:
        try:
            return Spool(directory, max_bytes=max_bytes, lost=lost)
        except SpoolInUse as error:
            if time.monotonic() > deadline_s:
                raise CliError(f"{error}; name another directory with --spool") from None
            time.sleep(SPOOL_RETRY_S)
        except (ValueError, OSError) as error:
            raise CliError(f"cannot use the spool {directory}: {error}") from None


def _recorder(
    directory: Path | None, max_bytes: int, *, counters: Counters, notices: Notices
) -> Recorder | None:
    if directory is None:
        return None
    try:
        return Recorder(directory, max_bytes=max_bytes, counters=counters, notices=notices)
    except (FileExistsError, NotADirectoryError):
        raise CliError(f"cannot record into {directory}: a file is in its place") from None
    except OSError as error:
        raise CliError(f"cannot record into {directory}: {error.strerror}") from None


def _metrics(port: int, counters: Counters, notices: Notices, stack: ExitStack) -> str:
    """Start `/metrics`; the processor does its work without them if it must. Returns where they are."""
    if port < 0:
        return ""
    try:
        server = serve_metrics(counters, port=port, version=product_version(), cpu_s=time.process_time)
    except ModuleNotFoundError:
        notices.once("metrics", "no /metrics without prometheus_client: pip install 'argus-triage[host]'")
        return ""
    except (OSError, OverflowError) as error:
        notices.once("metrics", f"no /metrics on port {port}: {error}")
        return ""
    stack.callback(server.close)
    return f", metrics on http://127.0.0.1:{server.port}/metrics"


def _server(url: str, env: Mapping[str, str]) -> HttpPost | None:
    if not url:
        return None
    try:
        return parse_server(url, key=own_key(env))
    except ValueError as error:
        raise CliError(f"--server: {error}") from None


def _target(args: argparse.Namespace, server: HttpPost | None) -> Target:
    record = str(Path(args.record).absolute()) if args.record else ""
    return Target(server=server.url if server else "", record=record)


def _note_launcher(path: Path, pid: int | None) -> Launchers | None:
    if pid is None:
        return None
    try:
        private_directory(path.parent)
        launchers = Launchers(Path(f"{path}.launchers"))
        launchers.add(pid)
    except (ValueError, OSError) as error:
        raise CliError(f"cannot listen on {path}: {error}") from None
    return launchers


def _say(text: str) -> None:
    print(f"argus processor: {text}", file=sys.stderr, flush=True)
