"""`argus bench`: one file per measured promise; figures go to docs/benchmarks.md with their command."""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal, Protocol, cast

from argus.api.cli.errors import CliError
from argus.api.cli.late import LateParser
from argus.api.cli.paths import path, write_whole
from argus.evals.interrupts import orderly_end

Size = Literal["smoke", "default", "full"]


class Bench(Protocol):
    """What a benchmark module offers; its docstring says what is measured."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its own options."""

    def bench(self, args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
        """Measure; the figures, JSON-ready, with `ok` false if a promise is missed."""

    def table(self, result: Mapping[str, Any]) -> str:
        """The figures as a Markdown table."""


def benches() -> Mapping[str, str]:
    """What every benchmark measures, by name: the files of this folder; their imports together take seconds."""
    files = {module.name: Path(__path__[0], f"{module.name}.py") for module in iter_modules(__path__)}
    return {name: _first_line(files[name]) for name in sorted(files)}


def _first_line(file: Path) -> str:
    """Of a module's docstring."""
    return (ast.get_docstring(ast.parse(file.read_bytes())) or "").split("\n")[0]


def bench_called(name: str) -> Bench:
    """One of them."""
    return cast(Bench, import_module(f"{__name__}.{name}"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `argus bench`; one sub-command per benchmark, and `all`."""
    commands = parser.add_subparsers(dest="bench", required=True, metavar="NAME", parser_class=LateParser)
    for name, measures in benches().items():
        other = [name.replace("_", "-")] if "_" in name else []
        sub = commands.add_parser(name, aliases=other, help=measures.replace("%", "%%"))
        sub.declare = partial(_declare, name)
    every = commands.add_parser("all", help="every benchmark in turn")
    _common(every)
    every.add_argument(
        "--skip", action="append", default=[], metavar="NAME", help="but for this one; may be repeated"
    )


def _declare(name: str, parser: argparse.ArgumentParser) -> None:
    _common(parser)
    bench_called(name).add_arguments(parser)


def _common(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--smoke", dest="size", action="store_const", const="smoke", help="seconds; proves it runs"
    )
    size.add_argument("--full", dest="size", action="store_const", const="full", help="the long form")
    parser.set_defaults(size="default")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--write", type=path, metavar="FILE", help="put the table into this Markdown file")


def run(args: argparse.Namespace) -> int:
    """Run one benchmark or all; 1 if a promise was missed."""
    if args.write and not os.path.isfile(args.write):  # unlike `Path.is_file` also of a name that is too long
        raise CliError(f"{args.write} does not exist; name the Markdown file to write into")
    if args.write and not os.access(args.write, os.R_OK | os.W_OK):
        raise CliError(f"{args.write} cannot be read and written; name another Markdown file")
    bench = args.bench.replace("-", "_")
    names = _all_but(args.skip) if bench == "all" else [bench]
    results = {}
    for name in names:
        print(f"bench {name} ({args.size}) …", file=sys.stderr, flush=True)
        with orderly_end():
            results[name] = _run_one(name, args, alone=bench != "all")
    if args.json:
        print(json.dumps(results if bench == "all" else results[bench]))
    else:
        print("\n\n".join(f"{name}\n{bench_called(name).table(result)}" for name, result in results.items()))
    return 0 if all(result.get("ok", True) for result in results.values()) else 1


def _all_but(skipped: Sequence[str]) -> list[str]:
    unwanted = {name.replace("-", "_") for name in skipped}
    if unknown := sorted(unwanted - set(benches())):
        raise CliError(f"--skip {unknown[0]}: no such benchmark; there are {', '.join(benches())}")
    left = [name for name in benches() if name not in unwanted]
    if not left:
        raise CliError("--skip: no benchmark is left to run")
    return left


def _run_one(name: str, args: argparse.Namespace, *, alone: bool) -> dict[str, Any]:
    module = bench_called(name)
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    defaults = vars(parser.parse_args([]))
    if not alone:
        args = argparse.Namespace(**defaults, **vars(args))
    result = module.bench(args, size=args.size)
    if args.write:
        size = [] if args.size == "default" else [f"--{args.size}"]
        changed = [
            f"--{key.replace('_', '-')} {value}"
            for key, value in vars(args).items()
            if defaults.get(key, value) != value
        ]
        _write(
            args.write, name, module.table(result), command=" ".join(["argus bench", name, *size, *changed])
        )
    return result


NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")
"""One folder a GPU, of NVIDIA's driver."""


def machine_class() -> str:
    """The machine in words a reader can compare with theirs."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    name = model.group(1).strip() if model else platform.machine()
    num_gpus = len(list(NVIDIA_GPUS.iterdir())) if NVIDIA_GPUS.is_dir() else 0
    gpus = "no GPU" if not num_gpus else f"{num_gpus} GPU{'s' if num_gpus > 1 else ''}"
    return f"{os.cpu_count()} cores of {name}, {memory_gib:.0f} GiB, {gpus}"


def _write(path: Path, name: str, table: str, *, command: str) -> None:
    """Replace the benchmark's section, or append it."""
    begin, end = f"<!-- bench {name} -->", f"<!-- end {name} -->"
    day = datetime.now(UTC).date().isoformat()
    head = f"{begin}\n## {name}\n\n`{command}` · {day} · {machine_class()}\n"
    section = f"{head}\n{table}\n{end}"
    text = path.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    text = pattern.sub(lambda _: section, text) if pattern.search(text) else f"{text.rstrip()}\n\n{section}\n"
    write_whole(path, text)
