"""YAML as plain values with the line of every field, for errors that name it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from argus.topology.facts import LoaderError

Path = tuple[str | int, ...]

PIP_LINE = "reading YAML needs PyYAML; run: pip install 'argus-triage[triage]'"


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A parsed document; `lines` maps the path of each field to its line, from 1."""

    value: Any
    lines: Mapping[Path, int] = field(default_factory=dict)

    def line(self, *path: str | int) -> int:
        """Line of a field, of its nearest parent if it is not there, 0 if nothing is known."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)


def parse_yaml(text: str, *, origin: str) -> Marked:
    """The document. LoaderError with the line for bad syntax, aliases and repeated keys."""
    try:
        import yaml
    except ImportError:
        raise LoaderError(PIP_LINE, origin=origin) from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # An alias can make a small file a huge value; no topology needs one.
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.AliasEvent):
                raise LoaderError("uses an alias (*), which is not taken", origin=origin, line=_line(event))
        root = yaml.compose(text, Loader=loader)
        value = yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark.line + 1 if error.problem_mark else 0
        raise LoaderError(f"is not YAML: {error.problem}", origin=origin, line=at) from None
    except yaml.reader.ReaderError as error:
        at = text.count("\n", 0, error.position) + 1
        raise LoaderError("is not YAML: it holds a control character", origin=origin, line=at) from None
    except ValueError as error:  # a date or number that only looks like one
        raise LoaderError(f"is not YAML: {error!s:.100}", origin=origin) from None
    lines: dict[Path, int] = {}
    for path, at in _walk(root, ()):
        if path in lines:
            raise LoaderError(f"repeats the key {path[-1]!r}", origin=origin, line=at)
        lines[path] = at
    return Marked(value=value, lines=lines)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _walk(node: Any, path: Path) -> Iterator[tuple[Path, int]]:
    if node is None or not isinstance(node.value, list):
        return
    for i, item in enumerate(node.value):
        key, child = (item[0].value, item[1]) if isinstance(item, tuple) else (i, item)
        at = item[0] if isinstance(item, tuple) else item
        here = (*path, key if isinstance(key, str | int) else str(key))
        yield here, _line(at)
        yield from _walk(child, here)
