"""The documentation runs: doctests, command lines, settings, metrics."""

from __future__ import annotations

import ast
import doctest
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from argus.analytics.classes import cause_classes
from argus.api.cli import COMMANDS, build_parser, load
from argus.api.reference import stale_pages
from argus.collectors.readers import readers

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("collectors", "topology", "analytics", "agent", "api", "evals")
NOT_IMPORTED = ("argus.api.migrations", "argus.collectors.rank.site")
"""Run by Alembic and by the interpreter's start, not by import."""

SHELL_WORDS = ("|", "||", "&&", ";", ">", ">>", "2>", "<", "&")
PLACEHOLDER = re.compile(r"…|\.\.\.|[\[\]<>{}]|\bCOMMAND\b")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(argus [^`]+)`(?!`)")
SHELLS = ("", "sh", "bash", "console", "shell")


@cache
def modules() -> dict[str, list[str]]:
    """Dotted names of every module of the product, by the folder they lie in."""
    files = (file.relative_to(ROOT) for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")))
    found: dict[str, list[str]] = {}
    for file in files:
        name = ".".join(("argus", *file.with_suffix("").parts)).removesuffix(".__init__")
        if not name.startswith(NOT_IMPORTED):
            found.setdefault(str(file.parent), []).append(name)
    return found


def has_examples(name: str) -> bool:
    """Whether a module's text has any: to look through one that has none takes as long as to run some."""
    found = find_spec(name)
    assert found is not None and found.origin is not None, name
    return ">>> " in Path(found.origin).read_text(encoding="utf-8")


def documents() -> list[Path]:
    return sorted(file for file in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))


def command_lines(text: str) -> Iterator[list[str]]:
    """Words after `argus` of every command line in Markdown, without what only stands for something."""
    blocks = [body for lang, body in FENCE.findall(text) if lang in SHELLS]
    lines = [line for body in blocks for line in body.replace("\\\n", " ").splitlines()]
    prose = FENCE.sub("", text)
    spans = [span for span in INLINE.findall(prose) if not PLACEHOLDER.search(span)]
    for line in (*lines, *spans):
        match = re.match(r"\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/bin/)?argus (?=\S)(.*)", line)
        if match and not PLACEHOLDER.search(re.sub(r"\d?>+ ?\S+| #.*", "", line)):
            yield _until_shell(shlex.split(match[1], comments=True))


def _until_shell(words: list[str]) -> list[str]:
    ends = [at for at, word in enumerate(words) if word in SHELL_WORDS]
    return words[: ends[0]] if ends else words


def constants(*folders: str, like: str) -> set[str]:
    """Every text constant in the code of `folders` that is as the pattern says."""
    seldom = re.compile(like)
    texts = (
        file.read_text(encoding="utf-8")
        for folder in folders
        for file in sorted((ROOT / folder).rglob("*.py"))
    )
    return {
        node.value
        for text in texts
        if seldom.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and seldom.fullmatch(node.value)
    }


@pytest.mark.slow
@pytest.mark.parametrize("folder", list(modules()))
def test_the_examples_in_docstrings_hold(folder: str) -> None:
    imported = [(name, import_module(name)) for name in modules()[folder]]
    wrong = [name for name, module in imported if has_examples(name) and doctest.testmod(module).failed]
    assert not wrong


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    named = [name for names in modules().values() for name in names if has_examples(name)]
    some = [name for name in named if "workload" not in name][:20]
    assert sum(bool(test.examples) for name in some for test in finder.find(import_module(name))) >= 5


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_line_in_the_documentation_parses(document: Path) -> None:
    wrong = [
        problem
        for words in command_lines(document.read_text(encoding="utf-8"))
        if (problem := _problem(words))
    ]
    assert not wrong


def _problem(words: list[str]) -> str:
    """What is wrong with a command line; the bare name of a command only has to exist."""
    if words[0] in ("-h", "--help", "-V", "--version"):
        return ""
    if words[0] not in COMMANDS:
        return f"argus {words[0]}: no such command"
    if len(words) == 1:
        return ""
    try:
        build_parser(words[0], load(words[0])).parse_args(words[1:])
    except SystemExit as end:
        return "" if end.code == 0 else f"argus {shlex.join(words)} does not parse"
    return ""


def test_the_reference_tables_are_as_the_code_has_them() -> None:
    """`argus dev docs` writes them."""
    assert not stale_pages(ROOT / "docs")


def test_every_environment_variable_is_documented() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    used = constants(*FOLDERS, "argus", like=r"ARGUS_[A-Z][A-Z_]*[A-Z]")
    assert used and not {name for name in used if f"`{name}`" not in text}


def test_every_option_of_the_processor_is_documented() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(--[a-z-]+)", text, flags=re.MULTILINE))
    options = re.findall(r"--[a-z-]+", build_parser("processor", load("processor")).format_usage())
    assert told == set(options)


def test_the_readme_names_every_cause_that_is_found() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## What it finds")[2]
    rows = [
        line.split(" | ")[0] for line in text.partition("\n## ")[0].splitlines() if line.startswith("| `")
    ]
    told = {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)}
    assert told == cause_classes().keys() - {"unknown"}


def test_every_door_is_documented() -> None:
    text = (ROOT / "docs" / "readers.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z_]+)` \|", text, flags=re.MULTILINE)) >= readers().keys()


def test_every_metric_is_documented() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    kinds = r"argus_[a-z_]+_(total|seconds|ratio|bytes|windows|ranks|active|lost|info|build)|argus_build|argus_collector_[a-z_]+"
    used = constants("collectors", "api", like=kinds)
    assert used and not {name for name in used if name not in text}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("```bash\nargus demo --json > out.json\n```", [["demo", "--json"]]),
        ("```\n$ argus triage DIR  # a folder\nverdict: argus is right\n```", [["triage", "DIR"]]),
        ("```sh\nARGUS_KEY=x .venv/bin/argus serve \\\n  --port 0 &\n```", [["serve", "--port", "0"]]),
        ("use `argus demo` or `argus run [options] -- CMD …`", [["demo"]]),
        ("```python\nargus demo\n```", []),
        ("`argus run -- torchrun train.py --lr 1`", [["run", "--", "torchrun", "train.py", "--lr", "1"]]),
    ],
)
def test_command_lines_are_found(text: str, words: list[list[str]]) -> None:
    assert list(command_lines(text)) == words


def test_a_wrong_command_line_is_a_problem() -> None:
    assert _problem(["eval", "run", "--smoke"]) == ""
    assert "no such command" in _problem(["evaluate"])
    assert "does not parse" in _problem(["eval", "run", "--smokes"])
