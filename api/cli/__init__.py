"""The command line: a table of command to module, each imported only when it is used."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

from argus.agent.wording import printable
from argus.api.cli.errors import CliError
from argus.api.cli.interrupts import orderly_end

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("argus.api.cli.run", "run a training command under observation"),
    "processor": ("argus.api.cli.processor", "the host processor beside the ranks"),
    "serve": ("argus.api.cli.serve", "the service: ingest, analysis, HTTP"),
    "key": ("argus.api.cli.key", "keys of the service: make, list, revoke"),
    "status": ("argus.api.cli.status", "what every host, rank and part sees, what was lost"),
    "incident": ("argus.api.cli.incident", "incidents, one whole, and what helped against it"),
    "stacks": ("argus.api.cli.stacks", "what the threads of a run's ranks do"),
    "capture": ("argus.api.cli.capture", "raw records of some ranks as a Perfetto file"),
    "off": ("argus.api.cli.switch_off", "stop observing a run, at run time"),
    "on": ("argus.api.cli.switch_on", "observe it again"),
    "triage": ("argus.api.cli.triage", "traces or a recording in, a verdict out"),
    "replay": ("argus.api.cli.replay", "send a recording or a trace to a running service"),
    "report": ("argus.api.cli.report", "GPU-hours a run lost, by cause, and what every step pays for"),
    "probe": ("argus.api.cli.probe", "measure suspect hosts beside healthy ones"),
    "diff": ("argus.api.cli.diff", "what changed between two runs"),
    "tools": ("argus.api.cli.tools", "the agent's tools by hand: what each says, and evidence by id"),
    "mcp": ("argus.api.cli.mcp", "the agent's tools for an editor or assistant, by MCP on stdio"),
    "chat": ("argus.api.cli.chat", "talk about a run or an incident, with evidence"),
    "ask": ("argus.api.cli.ask", "one question, or a whole investigation"),
    "doctor": ("argus.api.cli.doctor", "whether the model's endpoint fits, and what to change"),
    "topology": ("argus.api.cli.topology", "who works with whom, on what hardware"),
    "dev": ("argus.api.cli.dev", "for developers: stand-ins for a language model and for Slack"),
    "demo": ("argus.evals.demo", "a real job, a real fault, the incident it makes"),
    "bench": ("argus.evals.bench", "measure what the product promises"),
    "eval": ("argus.evals.actions", "score detection on injected faults"),
}
"""Command: (module, help). A module has `add_arguments(parser)` and `run(args) -> exit code`."""

DEMO_DATA = "argus.evals.demo_data"
"""What `argus serve --demo` is filled with; a `DemoData`."""

EXTRA_OF: Mapping[str, str] = {
    "zstandard": "triage",
    "scipy": "triage",
    "networkx": "triage",
    "fsspec": "host",
    "yaml": "triage",
    "psutil": "host",
    "prometheus_client": "service",
    "fastapi": "service",
    "uvicorn": "service",
    "httptools": "service",
    "sqlalchemy": "service",
    "alembic": "service",
    "psycopg": "postgres",
    "openai": "service",
    "mcp": "mcp",
    "slack_sdk": "slack",
    "websockets": "slack",
    "opentelemetry": "otel",
    "torch": "demo",
    "ray": "ray",
}
"""Which extra brings a module that a command may find missing."""

USAGE_ERROR = 2
NOT_WRITTEN = 1
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF, errno.EIO})
"""A full disk, a stream that was opened for reading, a terminal that is gone."""

CLOSED_PIPE = 141  # what a shell shows for a process that SIGPIPE ended


class Command(Protocol):
    """What a command's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `argus`; every foreseeable failure is one sentence on stderr."""
    _open_closed_streams()
    _bear_any_text()
    try:
        try:
            with orderly_end():
                return _done(list(sys.argv[1:] if argv is None else argv))
        finally:
            print(end="", flush=True)  # a reader that has gone is met here, not when the interpreter ends
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        _write_nowhere()
        return CLOSED_PIPE
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not _is_somewhere():
            print("argus: the folder one stands in is gone: go to another with cd", file=sys.stderr)
            return USAGE_ERROR
        if error.errno not in UNWRITABLE:
            raise
        _write_nowhere()
        print(f"argus: not all could be written: {error.strerror}", file=sys.stderr)
        return NOT_WRITTEN


def _write_nowhere() -> None:
    """What is still kept for stdout is written again when the interpreter ends, where it would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_somewhere() -> bool:
    """Whether the current folder is there: what a relative path means is unknown without."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _done(words: list[str]) -> int:
    """What the words ask for, done; the exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0 if words else USAGE_ERROR
    if words[0] in ("-V", "--version"):
        print(_version())
        return 0
    if words[0] not in COMMANDS:
        print(f"argus: no command {words[0]!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return USAGE_ERROR
    try:
        command = load(words[0])
        args = build_parser(words[0], command).parse_args(words[1:])
        _check_words(args)
        return command.run(args)
    except CliError as error:
        print(f"argus {words[0]}: {printable(str(error))}", file=sys.stderr)
        return error.code
    except ModuleNotFoundError as error:
        extra = EXTRA_OF.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        print(
            f"argus {words[0]}: needs {error.name}; run: pip install 'argus-triage[{extra}]'", file=sys.stderr
        )
        return USAGE_ERROR


def _open_closed_streams() -> None:
    """A standard stream that was closed (`>&-`) leads nowhere: else the next file opened would be taken for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _bear_any_text() -> None:
    """What the encoding of a stream cannot hold is a question mark in it, not the end of a command half way."""
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _check_words(args: argparse.Namespace) -> None:
    """Names and questions go into addresses and databases, which take text alone; paths may be any bytes. Raises CliError."""
    for name, value in vars(args).items():
        if isinstance(value, str) and value != value.encode("utf-8", "replace").decode():
            raise CliError(f"{name} must be text in UTF-8, got {value!a:.80}")


def load(name: str) -> Command:
    """The module behind a command."""
    return cast(Command, import_module(COMMANDS[name][0]))


def build_parser(name: str, command: Command) -> argparse.ArgumentParser:
    """The command's parser, also used to check the command lines in the documentation."""
    parser = argparse.ArgumentParser(prog=f"argus {name}", description=COMMANDS[name][1])
    command.add_arguments(parser)
    return parser


def _overview() -> str:
    rows = "\n".join(f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items())
    return (
        "usage: argus COMMAND [options]\n\n"
        "Argus names the slow rank of a distributed training job, says why and what to do.\n\n"
        f"{rows}\n\n`argus COMMAND --help` tells more."
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"argus {version('argus-triage')}"
    except PackageNotFoundError:
        return "argus (not installed)"
