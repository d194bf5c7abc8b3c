"""`argus run`: an environment in which training ranks report, a processor to report to, then the command itself."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import argus
from argus.collectors.rank.identity import LAUNCH_HOST, run_name, run_of
from argus.collectors.rank.sink import connect_to
from argus.collectors.records.endpoint import check_socket_path, private_directory, socket_path

ANSWER_S = 5.0  # to wait for a new processor to listen; the command runs anyway
POLL_S = 0.02
MAX_SLUG = 40  # of a run's name in a socket's path, which the system limits to 107 bytes

START_SCRIPT = '"$@" </dev/null >>"$ARGUS_LOG" 2>&1 &'
"""The shell ends at once, so the processor is nobody's child: no launcher waits for it or kills it."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What `argus run` was asked for. `record` is None when a service gets the windows."""

    run: str
    socket: Path
    server: str | None = None
    record: Path | None = None
    has_processor: bool = True


def make_plan(
    env: Mapping[str, str],
    *,
    run: str | None,
    socket: str | None,
    server: str | None,
    record: str | None,
    has_processor: bool,
    generated: str,
) -> Plan:
    """Options first, then the environment, then defaults; `generated` names a run nobody named.

    A processor serves one service and one folder: only jobs that share both share its socket.
    """
    name = run_name(run) if run else run_of(env) or generated
    server = server or env.get("ARGUS_SERVER") or None
    wanted = record or env.get("ARGUS_RECORD") or (None if server else f"argus-recording-{slug(name)}")
    path = Path(socket) if socket else socket_path(env)
    if not socket and not env.get("ARGUS_SOCKET"):
        path = path.with_name(f"{_socket_stem(name, server=server, record=wanted)}.sock")
    return Plan(
        run=name,
        socket=path.absolute(),
        server=server,
        record=Path(wanted).absolute() if wanted else None,
        has_processor=has_processor,
    )


def _socket_stem(run: str, *, server: str | None, record: str | None) -> str:
    """The socket's name: one per service, or per service and folder; one per run and folder without a service."""
    target = "\n".join([server or "", str(Path(record).absolute()) if record else ""])
    digest = hashlib.sha256(os.fsencode(target)).hexdigest()[:8]
    return f"processor-{digest}" if server else f"{slug(run)}-{digest}"


def plan_from(env: Mapping[str, str]) -> Plan:
    """The plan `argus run` left in the environment of its command."""
    return make_plan(
        env, run=None, socket=None, server=None, record=None, has_processor=True, generated="run"
    )


def slug(name: str) -> str:
    """A run's name as a file name.

    >>> slug("llama-70b")
    'llama-70b'
    """
    safe = re.sub(r"[^A-Za-z0-9._-]", "-", name).strip("-.") or "run"
    if safe == name and len(safe) <= MAX_SLUG:
        return safe
    return f"{safe[:MAX_SLUG]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"


def package_root() -> Path:
    """The directory that `import argus` is found in."""
    return Path(argus.__file__).absolute().parent.parent


def own_env(env: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process of ours: no hook, and our package ahead of what the job puts on its path."""
    root = str(package_root())
    hook = os.path.join(root, "argus", "collectors", "rank", "site")
    rest = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != hook]
    return {**env, "PYTHONPATH": os.pathsep.join([root, *rest])}


def rank_env(env: Mapping[str, str], plan: Plan) -> dict[str, str]:
    """The command's environment: ours plus one directory, first on PYTHONPATH."""
    site = str(package_root() / "argus" / "collectors" / "rank" / "site")
    rest = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != site]
    made = {
        **env,
        "PYTHONPATH": os.pathsep.join([site, *rest]),
        "ARGUS_RUN": plan.run,
        "ARGUS_SOCKET": str(plan.socket),
    }
    if plan.server:
        made["ARGUS_SERVER"] = plan.server
    if plan.record:
        made["ARGUS_RECORD"] = str(plan.record)
    if plan.has_processor:
        made[LAUNCH_HOST] = socket.gethostname()
    return made


def ensure_processor(
    plan: Plan, *, launcher_pid: int, env: Mapping[str, str], wait_s: float = ANSWER_S
) -> str:
    """Start a processor on this host if none answers; what came of it, in a few words.

    Where one answers, a second is started all the same: it notes its launcher with the first and ends,
    so that the first does not leave while this job has yet to bring its ranks. OSError, ValueError: no
    processor can be started.
    """
    check_socket_path(plan.socket)
    private_directory(plan.socket.parent)
    lock = os.open(plan.socket.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(lock, within_s=wait_s)
        log = plan.socket.with_suffix(".log")
        is_there = answers(plan.socket)
        if plan.record and not is_there:  # one that is there records where it was told to
            _make_folder(plan.record)
        start_processor(plan, launcher_pid=launcher_pid, env=env, log=log)
        if is_there:
            return "joined the processor of this host"
        end_s = time.monotonic() + wait_s
        while time.monotonic() < end_s:
            if answers(plan.socket):
                return "processor started"
            time.sleep(POLL_S)
        return f"no processor answers yet, see {log}"
    finally:
        os.close(lock)


def _lock(fd: int, *, within_s: float) -> None:
    """Wait until no other launcher starts a processor here; one that was stopped in the middle is not waited for.

    Two that start one at once do no harm: the processors themselves see to it that one stays.
    """
    end_s = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end_s:
                return
            time.sleep(POLL_S)


def _make_folder(path: Path) -> None:
    """Make it if it is not there. OSError says in words why nothing can be written into it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(f"cannot record into {path}: a file is in its place") from None
    except OSError as error:
        raise OSError(f"cannot record into {path}: {error.strerror}") from None
    if not os.access(path, os.W_OK):
        raise PermissionError(f"cannot write into {path}")


def processor_command(plan: Plan, *, launcher_pid: int) -> list[str]:
    """The processor's command line for this plan; -P, for the job's folder may hold an `argus` too."""
    words = [sys.executable, "-P", "-m", "argus", "processor", "--socket", str(plan.socket)]
    words += ["--launcher-pid", str(launcher_pid)]
    if plan.server:
        words += ["--server", plan.server]
    if plan.record:
        words += ["--record", str(plan.record)]
    return words


def start_processor(plan: Plan, *, launcher_pid: int, env: Mapping[str, str], log: Path) -> None:
    """Start it detached: own session, no terminal, output to `log`."""
    quiet = {**own_env(env), "ARGUS_OFF": "1", "ARGUS_LOG": str(log)}
    command = processor_command(plan, launcher_pid=launcher_pid)
    subprocess.run(
        ["/bin/sh", "-c", START_SCRIPT, "sh", *command],
        env=quiet,
        start_new_session=True,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def answers(path: Path) -> bool:
    """Whether a processor of this user listens on `path`."""
    try:
        connect_to(path).close()
    except OSError:
        return False
    return True


def replace_process(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Become the command: same PID, so signals, exit code and output are its own. OSError if it cannot run."""
    os.execvpe(command[0], list(command), dict(env))
