"""Reads the settings: argus.toml, overridden by ARGUS_* variables, overridden by the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path

from argus.api.settings import Settings, SettingsError

DEFAULT_FILE = Path("argus.toml")
SECTION = "serve"
NOTIFY_SECTION = "notify"
"""Tables of this section are the notifiers' own: `api.notify.settings`."""

JOB_VARIABLES = frozenset(
    {
        "ARGUS_LAUNCH_HOST",
        "ARGUS_LOG",
        "ARGUS_GOVERNOR",
        "ARGUS_KERNELS",
        "ARGUS_OFF",
        "ARGUS_OPERATOR_STEPS",
        "ARGUS_RANK_PID",
        "ARGUS_RECORD",
        "ARGUS_ROUND",
        "ARGUS_RUN",
        "ARGUS_SERVER",
        "ARGUS_SOCKET",
    }
)
"""Variables of the training side; they say nothing to the service and are no mistake."""


def notifier_variables() -> frozenset[str]:
    """The variables of the notifiers; their files say what each means."""
    from argus.api.notify.notifier import all_settings

    return frozenset(all_settings())


def load_settings(
    *,
    env: Mapping[str, str],
    path: Path | None = None,
    overrides: Mapping[str, str | int | float] | None = None,
) -> tuple[Settings, tuple[str, ...]]:
    """Settings and warnings. `path` None takes argus.toml of the working directory if there is one.

    Raises SettingsError with one sentence.
    """
    values = _from_file(path)
    known = {item.metadata["env"]: item for item in fields(Settings)}
    warnings = []
    for name in sorted(name for name in env if name.startswith("ARGUS_")):
        if name in known:
            # A key with the line's end of the file it came from could be in no request.
            text = env[name].strip() if known[name].metadata["secret"] else env[name]
            values[known[name].name] = _parse(known[name], text, where=name)
        elif name not in JOB_VARIABLES and name not in notifier_variables():
            warnings.append(f"{name} is not a variable of argus; it is ignored")
    values.update(overrides or {})
    for item in fields(Settings):
        _check(item, values.get(item.name, item.default))
    return Settings(**values), tuple(warnings)  # type: ignore[arg-type]


def _from_file(path: Path | None) -> dict[str, str | int | float]:
    if path is None and not DEFAULT_FILE.exists():
        return {}
    path = path or DEFAULT_FILE
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # also of a number or a nesting without end
        raise SettingsError(f"{path} cannot be read: {error}") from None
    section = raw.get(SECTION, {})
    if not isinstance(section, dict) or set(raw) - {SECTION, NOTIFY_SECTION}:
        got = ", ".join(sorted(set(raw) - {SECTION, NOTIFY_SECTION})) or SECTION
        raise SettingsError(f"{path}: expected only [{SECTION}] and [{NOTIFY_SECTION}.…], got {got}")
    secrets = {item.name: item.metadata["env"] for item in fields(Settings) if item.metadata["secret"]}
    known = {item.name: item for item in fields(Settings) if item.name not in secrets}
    for name in section:
        if name in secrets:
            raise SettingsError(
                f"{path}: {name} is a secret, which only the environment may hold: set {secrets[name]}"
            )
        if name not in known:
            raise SettingsError(
                f"{path}: no setting {name!r} in [{SECTION}]; there are {', '.join(sorted(known))}"
            )
    return {name: _typed(known[name], value, where=f"{path}: {name}") for name, value in section.items()}


def _typed(item: Field[object], value: object, *, where: str) -> str | int | float:
    want = type(item.default)
    if want is float and type(value) is int:
        return float(value)
    if type(value) is not want or item.default is MISSING:
        raise SettingsError(f"{where} must be {_WORD[want]}, got {value!r:.60}")
    assert isinstance(value, str | int | float)
    return value


_WORD: Mapping[type, str] = {str: "a string", int: "a whole number", float: "a number"}


def _parse(item: Field[object], text: str, *, where: str) -> str | int | float:
    want = type(item.default)
    if want is str:
        return text
    try:
        return int(text) if want is int else float(text)
    except ValueError:
        raise SettingsError(f"{where} must be {_WORD[want]}, got {text!r:.60}") from None


def _check(item: Field[object], value: object) -> None:
    low = item.metadata["low"]
    if isinstance(value, int | float) and not (low <= value < 1 << 53):
        raise SettingsError(f"{item.name} must be at least {low} and below 2^53, got {value}")
    if item.name == "investigate_from" and value not in ("off", "info", "warning", "critical"):
        raise SettingsError(f"investigate_from must be off, info, warning or critical, got {value!r:.40}")
    if item.name == "digest_hour" and not 0 <= int(str(value)) <= 23:
        raise SettingsError(f"digest_hour must be in [0, 23], got {value}")
    if item.name == "port" and not 0 <= int(str(value)) <= 65535:
        raise SettingsError(f"port must be in [0, 65535], got {value}")
    if item.name == "window_steps" and not 0 <= int(str(value)) <= 100_000:
        raise SettingsError(f"window_steps must be in [0, 100000], got {value}")
