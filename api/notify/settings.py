"""The notifiers' settings: [notify.NAME] of argus.toml, overridden by their environment variables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from argus.api.notify.notifier import NotifierError, modules, values_of
from argus.api.settings_sources import DEFAULT_FILE, NOTIFY_SECTION

Value = str | int | float


@dataclass(frozen=True, kw_only=True)
class NotifySettings:
    """What is set of each notifier that is set up; it may hold secrets."""

    values: Mapping[str, Mapping[str, Value]] = field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Everything that must not be shown."""
        known = modules()
        return tuple(
            str(value)
            for name, values in self.values.items()
            for key, value in values.items()
            if value and key in getattr(known[name], "SECRETS", ())
        )


NO_NOTIFIERS = NotifySettings()


def load_notify(*, env: Mapping[str, str], path: Path | None = None) -> NotifySettings:
    """The settings of the notifiers; file as in `load_settings`. Raises NotifierError with one sentence."""
    tables = _tables(path)
    known = modules()
    if unknown := sorted(set(tables) - set(known)):
        raise NotifierError(f"no notifier for [notify.{unknown[0]}]; there are {', '.join(known)}")
    read = {
        name: values_of(name, module, env=env, table=tables.get(name, {})) for name, module in known.items()
    }
    return NotifySettings(values={name: values for name, values in read.items() if values})


def _tables(path: Path | None) -> dict[str, dict[str, object]]:
    if path is None and not DEFAULT_FILE.exists():
        return {}
    try:
        raw = tomllib.loads((path or DEFAULT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # also of a number or a nesting without end
        raise NotifierError(f"{path or DEFAULT_FILE} cannot be read: {error}") from None
    section = raw.get(NOTIFY_SECTION, {})
    if not isinstance(section, dict) or not all(isinstance(table, dict) for table in section.values()):
        raise NotifierError(f"{path or DEFAULT_FILE}: [{NOTIFY_SECTION}] holds tables such as [notify.slack]")
    return section
