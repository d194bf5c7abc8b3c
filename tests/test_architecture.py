"""The shape of the code, read with `ast`: who may import whom, nothing at import, sizes, honest handlers."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("collectors", "topology", "analytics", "agent", "api", "evals")
MAX_FUNCTION_LINES = 40
MAX_FILE_LINES = 400

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "collectors": ("collectors",),
    "topology": ("topology", "collectors.records"),
    "analytics": ("analytics", "topology", "collectors.records"),
    "agent": ("agent", "analytics", "topology", "collectors.records"),
    "api": ("api", "agent", "analytics", "topology", "collectors"),
    "evals": FOLDERS,
    "argus": ("api.cli", "collectors.rank"),
}
"""What each folder may import of `argus.`; `argus` itself holds the in-job names and `__main__`."""

IN_TRAINING = ("collectors/rank", "collectors/hooks", "collectors/records", "collectors/launch.py")
TRAINING_LIBRARIES = ("numpy", "torch", "cupti", "zstandard")
LAZY_IN_TRAINING = ("torch", "cupti", "zstandard")
"""Imported inside a function only: a training image may lack them, and importing torch is for the user."""

SITE = "collectors/rank/site/"
"""A directory on the path of a training process: its files see each other by their bare names."""

WIRE_COMPRESSION = "collectors/records/upload.py"
"""The one wire module that compresses; only the host processor and the service call it."""

IO_MODULES = frozenset({"sqlalchemy", "alembic", "socket", "http", "urllib", "requests", "httpx", "sqlite3"})


@dataclass(frozen=True, kw_only=True)
class Source:
    """One parsed file; `path` is relative to the repository."""

    path: str
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        return self.path.split("/")[0]

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node, found once for all rules."""
        return tuple(ast.walk(self.tree))


def sources(*folders: str) -> Iterator[Source]:
    """Every file of the folders, one parsed at a time: to hold the trees of all costs more than to parse them."""
    for folder in folders:
        yield from map(_parse, sorted(_python_files(ROOT / folder)))


def _python_files(folder: Path) -> list[Path]:
    """Files below `folder`, not through the links under argus/."""
    found = [file for file in folder.iterdir() if file.suffix == ".py"]
    for below in folder.iterdir():
        if below.is_dir() and not below.is_symlink() and below.name != "__pycache__":
            found += _python_files(below)
    return found


def _parse(file: Path) -> Source:
    text = file.read_text(encoding="utf-8")
    return Source(path=str(file.relative_to(ROOT)), text=text, tree=ast.parse(text))


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Dotted names of what is imported by `nodes`; `from a import b` counts as `a.b`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((f"{node.module}.{name.name}", node.lineno) for name in node.names)


def at_import(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported: not function bodies, not `if __name__` or TYPE_CHECKING."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and any(
            isinstance(n, ast.Name) and n.id in ("__name__", "TYPE_CHECKING") for n in ast.walk(node.test)
        ):
            continue
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def import_faults(source: Source) -> list[str]:
    """Imports of `argus.` that the folder may not have, and bare or relative ones."""
    allowed = ALLOWED[source.folder]
    faults = [
        f"{source.path}:{node.lineno}: relative import"
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    for name, line in imports(source.nodes):
        top, _, rest = name.partition(".")
        if top in FOLDERS:
            faults.append(f"{source.path}:{line}: import argus.{name}, not {name}")
        if top == "argus" and rest and not any(_within(rest, part) for part in allowed):
            faults.append(f"{source.path}:{line}: {source.folder} may not import {name}")
    return faults


def _within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def training_faults(source: Source) -> list[str]:
    """What code inside a training process may not import."""
    faults = []
    eager = {name for node in at_import(source.tree) for name, _ in imports([node])}
    for name, line in imports(source.nodes):
        top = name.split(".")[0]
        if top == "zstandard" and source.path != WIRE_COMPRESSION:
            faults.append(f"{source.path}:{line}: only {WIRE_COMPRESSION} compresses")
        is_beside = source.path.startswith(SITE) and (ROOT / SITE / f"{top}.py").exists()
        if top not in (*sys.stdlib_module_names, "argus", *TRAINING_LIBRARIES) and not is_beside:
            faults.append(f"{source.path}:{line}: {top} is not there in a training image")
        if top in LAZY_IN_TRAINING and name in eager:
            faults.append(f"{source.path}:{line}: import {top} inside the function that uses it")
    return faults


def io_faults(source: Source) -> list[str]:
    """I/O in analytics outside its store."""
    names = [name for name, _ in imports(source.nodes)]
    faults = [f"{source.path}: imports {name}" for name in names if name.split(".")[0] in IO_MODULES]
    calls = [node for node in source.nodes if isinstance(node, ast.Call)]
    return faults + [
        f"{source.path}:{node.lineno}: open()"
        for node in calls
        if isinstance(node.func, ast.Name) and node.func.id == "open"
    ]


AT_IMPORT_CALLS = frozenset({"open", "print", "input", "exec", "eval"})
AT_IMPORT_METHODS = frozenset(
    {
        "getenv",
        "start",
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "mkdir",
        "connect",
        "urlopen",
        "basicConfig",
    }
)


def work_at_import(source: Source) -> list[str]:
    """Environment reads, files, threads and output that happen when the module is imported."""
    faults = []
    for node in at_import(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb"):
            faults.append(f"{source.path}:{node.lineno}: reads the environment at import")
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in AT_IMPORT_CALLS:
            faults.append(f"{source.path}:{node.lineno}: {node.func.id}() at import")
        if isinstance(node.func, ast.Attribute) and node.func.attr in AT_IMPORT_METHODS:
            faults.append(f"{source.path}:{node.lineno}: .{node.func.attr}() at import")
    return faults


def size_faults(source: Source) -> list[str]:
    """Functions and files that are too long. A function's lines start at its `def`."""
    faults = []
    num_lines = len(source.text.splitlines())
    if num_lines > MAX_FILE_LINES:
        faults.append(f"{source.path}: {num_lines} lines, at most {MAX_FILE_LINES}")
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                faults.append(
                    f"{source.path}:{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION_LINES}"
                )
    return faults


def handler_faults(source: Source) -> list[str]:
    """Handlers without a type, and those that take everything and do nothing."""
    faults = []
    for node in source.nodes:
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            faults.append(f"{source.path}:{node.lineno}: except without a type")
            continue
        names = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)}
        idle = all(isinstance(part, ast.Pass | ast.Continue) or _is_constant(part) for part in node.body)
        if names & {"Exception", "BaseException"} and idle:
            faults.append(f"{source.path}:{node.lineno}: swallows every error")
    return faults


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def names_of_evals(source: Source) -> list[str]:
    """Texts that name a module of evals."""
    return [
        f"{source.path}:{node.lineno}: {node.value}"
        for node in source.nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("argus.evals")
    ]


def circles(imported: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Modules that import each other in a circle, by file; `imported` has the dotted names that each file imports.

    Imports for types alone and inside functions count: what reads in a circle cannot be understood piece by piece.
    """
    of_module = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in imported
    }
    graph: nx.DiGraph[str] = nx.DiGraph()
    for path, names in imported.items():
        for name in (name.removeprefix("argus.") for name in names if name.startswith("argus.")):
            target = of_module.get(name) or of_module.get(name.rpartition(".")[0])
            graph.add_edges_from([(path, target)] if target not in (None, path) else [])
    return sorted(sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1)


def in_training(source: Source) -> bool:
    return any(source.path == part or source.path.startswith(part + "/") for part in IN_TRAINING)


def bare_imports(source: Source) -> list[str]:
    """Imports of a folder by its bare name."""
    names = [(name, line) for name, line in imports(source.nodes) if name.split(".")[0] in FOLDERS]
    return [f"{source.path}:{line}: {name}" for name, line in names]


def without_duty(source: Source) -> list[str]:
    """A module that does not say what it is for."""
    return [source.path] if source.text.strip() and not ast.get_docstring(source.tree) else []


OUTSIDE = ("collectors/rank/site/", "api/migrations/")
"""Run by the interpreter's start and by Alembic, not imported."""


def rules_of(source: Source) -> Iterator[tuple[str, list[str]]]:
    """What each rule that holds for a file finds in it."""
    yield "every module says its duty", without_duty(source)
    yield "functions and files stay small", size_faults(source)
    yield "handlers name a type and do something", handler_faults(source)
    if source.folder == "tests":
        yield "tests import absolutely", bare_imports(source)
        return
    yield "imports point one way", import_faults(source)
    if in_training(source):
        yield "training processes need only what they have", training_faults(source)
    if source.folder == "analytics" and not source.path.startswith("analytics/store"):
        yield "the store is the only I/O of analytics", io_faults(source)
    if not source.path.startswith(OUTSIDE):
        yield "nothing happens at import", work_at_import(source)
    if source.folder in FOLDERS and source.folder != "evals":
        yield "only the command table names evals", names_of_evals(source)


@pytest.mark.slow
def test_the_code_keeps_its_rules() -> None:
    """In one test, for to parse all files takes seconds, and every process that has one of several would do it."""
    checked, faults = set(), dict[str, list[str]]()
    imported: dict[str, list[str]] = {}
    for source in sources(*FOLDERS, "argus", "tests"):
        imported[source.path] = [name for name, _ in imports(source.nodes)]
        for rule, found in rules_of(source):
            checked.add((rule, source.folder))
            faults.setdefault(rule, []).extend(found)
    named = faults.pop("only the command table names evals")
    assert {fault.partition(":")[0] for fault in named} == {"api/cli/__init__.py"}
    assert {rule: found for rule, found in faults.items() if found} == {}
    assert {folder for _, folder in checked} == {*FOLDERS, "argus", "tests"}
    assert len({rule for rule, _ in checked}) == 9
    assert circles(imported) == []


def test_a_circle_is_seen() -> None:
    straight = {"api/a.py": ["argus.api.b.B", "numpy"], "api/b.py": ["argus.api.c"], "api/c/__init__.py": []}
    assert circles(straight) == []
    assert circles({**straight, "api/c/__init__.py": ["argus.api.a.A"]}) == [
        ["api/a.py", "api/b.py", "api/c/__init__.py"]
    ]


def test_the_links_lead_to_the_folders() -> None:
    for folder in FOLDERS:
        link = ROOT / "argus" / folder
        assert link.is_symlink() and str(link.readlink()) == f"../{folder}"


def made(path: str, text: str) -> Source:
    return Source(path=path, text=text, tree=ast.parse(text))


@pytest.mark.parametrize(
    ("path", "text", "num_faults"),
    [
        ("collectors/host/x.py", "from argus.topology import layout", 1),
        ("collectors/host/x.py", "def f():\n    import argus.api.settings", 1),
        ("topology/x.py", "from argus.collectors.records.layout import Layout", 0),
        ("topology/x.py", "from argus.collectors.host import window", 1),
        ("topology/x.py", "from argus.collectors import host", 1),
        ("api/x.py", "import argus.evals.demo", 1),
        ("agent/x.py", "from . import card", 1),
        ("evals/x.py", "import collectors.records", 1),
        ("evals/x.py", "from argus.api import settings", 0),
    ],
)
def test_the_import_rule_is_read_right(path: str, text: str, num_faults: int) -> None:
    assert len(import_faults(made(path, text))) == num_faults


@pytest.mark.parametrize(
    ("text", "num_faults"),
    [
        ("import torch", 1),
        ("def f():\n    import torch", 0),
        ("if TYPE_CHECKING:\n    import torch", 0),
        ("import scipy", 1),
        ("def f():\n    import zstandard", 1),
        ("import json, numpy", 0),
    ],
)
def test_the_training_rule_is_read_right(text: str, num_faults: int) -> None:
    assert len(training_faults(made("collectors/rank/x.py", text))) == num_faults


@pytest.mark.parametrize(
    ("text", "num_faults"),
    [
        ("import os\nHOME = os.environ['HOME']", 1),
        ("import os\ndef f():\n    return os.environ['HOME']", 0),
        ("import os\ndef f(home=os.getenv('HOME')):\n    return home", 1),
        ("T = open('x').read()", 1),
        ("class A:\n    t = threading.Thread(target=f).start()", 1),
        ("if __name__ == '__main__':\n    print(1)", 0),
    ],
)
def test_work_at_import_is_seen(text: str, num_faults: int) -> None:
    assert len(work_at_import(made("api/x.py", text))) == num_faults


@pytest.mark.parametrize(
    ("body", "num_faults"),
    [
        ("except Exception:\n    pass", 1),
        ("except:\n    raise", 1),
        ("except OSError:\n    pass", 0),
        ("except Exception as e:\n    log(e)", 0),
    ],
)
def test_idle_handlers_are_seen(body: str, num_faults: int) -> None:
    assert len(handler_faults(made("api/x.py", f"try:\n    f()\n{body}"))) == num_faults
