"""Runbooks: one for each cause class from the class table, and the user's own in a folder of Markdown files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from argus.agent.runbooks.catalogue import RISKS, Remedy, of_class
from argus.analytics.classes import CauseClass, cause_classes

FENCE = "+++"
"""Opens and closes the TOML head of a user's runbook."""

MAX_BYTES = 200_000
MAX_FIELD = 2000

_WORD = re.compile(r"[\w-]{1,64}")

_REMEDY_KEYS = {"id", "title", "owner", "command", "risk", "read_only", "reversible", "targets", "verify_by"}


class RunbookError(ValueError):
    """A file that is no runbook; the message names it and says why."""


@dataclass(frozen=True, kw_only=True)
class Runbook:
    """Markdown for some classes, with the actions it adds to the catalogue; `source` "" = ships with us."""

    name: str
    title: str
    classes: tuple[str, ...]
    text: str
    remedies: tuple[Remedy, ...] = ()
    source: str = ""


def built_in_books() -> tuple[Runbook, ...]:
    """One runbook a class."""
    return tuple(_of_class(known) for known in cause_classes().values())


def _of_class(known: CauseClass) -> Runbook:
    look, act = of_class(known)
    near = [f"- `{other}`: {apart}" for other, apart in known.near_miss.items()]
    lines = [f"# {known.id}", "", known.definition, "", f"Owner: {known.owner}", ""]
    lines += ["## Look first (changes nothing)", "", look.title, "", f"```\n{look.command}\n```", ""]
    lines += [f"Verify: {look.verify_by}", ""]
    lines += [
        f"## If it returns (changes something, risk {act.risk})",
        "",
        act.title,
        "",
        f"Verify: {act.verify_by}",
        "",
    ]
    lines += ["## Looks like it and is not", "", *near] if near else []
    return Runbook(
        name=known.id,
        title=known.id,
        classes=(known.id,),
        text="\n".join(lines).rstrip() + "\n",
        remedies=(look, act),
    )


def read_books(folder: Path) -> tuple[tuple[Runbook, ...], tuple[str, ...]]:
    """The user's runbooks in name order, and a sentence for each file that is none."""
    books, warnings = [], []
    for path in sorted(folder.glob("*.md")):
        try:
            books.append(read_book(path))
        except RunbookError as error:
            warnings.append(str(error))
    if not folder.is_dir():
        warnings.append(f"{folder} is no folder of runbooks")
    return tuple(books), tuple(warnings)


def read_book(path: Path) -> Runbook:
    """One file: a TOML head with `classes` and `[[actions]]` between lines of +++, then Markdown. Raises RunbookError."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunbookError(f"{path.name} cannot be read: {str(error)[:120]}") from None
    if len(raw) > MAX_BYTES:
        raise RunbookError(f"{path.name} is larger than {MAX_BYTES // 1000} kB")
    head, body = _parted(path.name, text)
    classes = head.get("classes", [path.stem])
    known = cause_classes()
    if not isinstance(classes, list) or not classes or not all(_is_of(item, known) for item in classes):
        raise RunbookError(f"{path.name}: classes must be of {', '.join(known)}, got {classes!r:.80}")
    title = next((line.lstrip("# ").strip() for line in body.splitlines() if line.startswith("#")), path.stem)
    rows = head.get("actions", [])
    if not isinstance(rows, list):
        raise RunbookError(f"{path.name}: actions must be a list of tables")
    remedies = tuple(_remedy(path.name, row, tuple(classes)) for row in rows)
    return Runbook(
        name=path.stem,
        title=title,
        classes=tuple(classes),
        text=body.strip() + "\n",
        remedies=remedies,
        source=path.name,
    )


def _parted(name: str, text: str) -> tuple[dict[str, object], str]:
    lines = text.splitlines()
    if not lines or lines[0].strip() != FENCE:
        return {}, text
    try:
        end = next(at for at, line in enumerate(lines[1:], start=1) if line.strip() == FENCE)
        return tomllib.loads("\n".join(lines[1:end])), "\n".join(lines[end + 1 :])
    except StopIteration:
        raise RunbookError(f"{name}: its head is not closed by a line {FENCE}") from None
    except (ValueError, RecursionError) as error:  # also of a number or a nesting without end
        raise RunbookError(f"{name}: its head is no TOML: {error}") from None


def _is_of(item: object, known: Container[str]) -> bool:
    return isinstance(item, str) and item in known


def _is_text(value: object) -> bool:
    """Printable, of a sane length; a command may have several lines."""
    if not isinstance(value, str) or len(value) > MAX_FIELD:
        return False
    return all(c.isprintable() or c == "\n" for c in value)


def _remedy(name: str, row: object, classes: tuple[str, ...]) -> Remedy:
    if not isinstance(row, dict) or set(row) - _REMEDY_KEYS or not {"id", "title"} <= set(row):
        raise RunbookError(
            f"{name}: an action has id and title, and may have {', '.join(sorted(_REMEDY_KEYS))}"
        )
    risk = row.get("risk", "none" if row.get("read_only", False) else "medium")
    texts = [row.get(key, "") for key in ("id", "title", "owner", "command", "verify_by")]
    targets = row.get("targets", ["any"])
    if not _is_of(risk, RISKS) or not all(map(_is_text, texts)) or not isinstance(targets, list):
        raise RunbookError(
            f"{name}: action {row['id']!r:.40}: risk is one of {', '.join(RISKS)}, the rest are texts of at most "
            f"{MAX_FIELD} printable characters"
        )
    if not all(isinstance(word, str) and _WORD.fullmatch(word) for word in (row["id"], *targets)):
        raise RunbookError(
            f"{name}: action {row['id']!r:.40}: its id and targets are words of letters, digits, - and _"
        )
    if not all(isinstance(row.get(key, False), bool) for key in ("read_only", "reversible")):
        raise RunbookError(f"{name}: action {row['id']!r:.40}: read_only and reversible are true or false")
    return Remedy(
        id=f"{Path(name).stem}/{row['id']}",
        title=row["title"],
        owner=row.get("owner", "on-call"),
        classes=classes,
        command=row.get("command", ""),
        risk=risk,
        is_read_only=bool(row.get("read_only", False)),
        reversible=bool(row.get("reversible", True)),
        targets=tuple(targets),
        verify_by=row.get("verify_by", ""),
    )
