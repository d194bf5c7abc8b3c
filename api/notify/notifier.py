"""What a notifier is: a plug-in file that tells one kind of receiver of incidents."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from argus.analytics.store.silences import Silence
from argus.api import notifiers
from argus.api.notify.decide import Rules
from argus.api.notify.matter import DEFAULT, Matter, Origin
from argus.api.notify.post import Http

Json = dict[str, Any]
Keep = Callable[[Json], None]


class Later(Exception):
    """The receiver cannot take it now; `after_s` is when it may, None if it did not say.

    `is_doubtful`: it may have taken it all the same.
    """

    def __init__(self, why: str, *, after_s: float | None = None, is_doubtful: bool = False) -> None:
        super().__init__(why)
        self.after_s, self.is_doubtful = after_s, is_doubtful


class Refused(Exception):
    """The receiver will not take it until somebody changes something; the message says what."""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One thing to tell. `news`: see `decide`. `is_doubtful`: an earlier try may have gone out.

    `times`: how often this cause has come, this time included. `is_quiet`: nobody may be woken by it.
    """

    matter: Matter
    news: str
    now_s: float
    times: int = 1
    is_doubtful: bool = False
    is_quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class DigestLine:
    """One incident of a digest, or several of one kind."""

    run: str
    text: str
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Digest:
    """Several incidents in one message."""

    topic: str
    title: str
    lines: tuple[DigestLine, ...]
    now_s: float
    is_doubtful: bool = False
    project: str = DEFAULT


class Notifier(Protocol):
    """Tells one receiver. `held` is what it kept before (where its message is); it calls `keep` as soon as that
    changes, so that a service killed in between goes on from there.
    """

    @property
    def rules(self) -> Rules:
        """What it wants to hear."""

    @property
    def is_paced(self) -> bool:
        """People read it: messages are limited, and what is too much becomes a digest."""

    @property
    def can_edit(self) -> bool:
        """A message that was sent can still be changed."""

    @property
    def obeys_alertmanager(self) -> bool:
        """Silences taken from Alertmanager hold for it."""

    def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
        """Tell of one matter. Raises Later, Refused."""

    def tell_digest(self, digest: Digest, *, held: Json, keep: Keep) -> None:
        """Tell of several at once; only where `is_paced`. Raises Later, Refused."""


@runtime_checkable
class SilenceSource(Protocol):
    """A notifier whose receiver has silences of its own that others are to obey."""

    def read_silences(self) -> Sequence[Silence] | None:
        """Those that last; None where they cannot be read now."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """What a notifier is given besides its settings; `has_agent`: a model looks at what is posted."""

    http: Http
    origin: Origin = field(default_factory=Origin)
    has_agent: bool = False


class NotifierError(ValueError):
    """A notifier's setting that cannot be taken; the message names it."""


def modules() -> dict[str, ModuleType]:
    """Every notifier's module by name, found by walking the folder."""
    names = sorted(one.name for one in iter_modules(notifiers.__path__) if not one.name.startswith("_"))
    return {name: import_module(f"{notifiers.__name__}.{name}") for name in names}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One keyword-only parameter of a notifier; secrets come from the environment only."""

    notifier: str
    name: str
    default: str | int | float
    is_secret: bool

    @property
    def env(self) -> str:
        """Its environment variable."""
        return f"ARGUS_{self.notifier}_{self.name}".upper()


def settings_of(name: str, module: ModuleType) -> list[Setting]:
    """The settings of a notifier."""
    secret = getattr(module, "SECRETS", ())
    parameters = list(inspect.signature(module.notifier).parameters.values())[1:]
    return [
        Setting(notifier=name, name=one.name, default=one.default, is_secret=one.name in secret)
        for one in parameters
    ]


def all_settings() -> dict[str, Setting]:
    """The settings of every notifier by environment variable."""
    return {one.env: one for name, module in modules().items() for one in settings_of(name, module)}


def notifiers_of(
    means: Means, *, values: Mapping[str, Mapping[str, str | int | float]]
) -> dict[str, Notifier]:
    """The notifiers that are set up, by what is set of each. Raises NotifierError."""
    made = {}
    for name, module in modules().items():
        if not values.get(name):
            continue
        try:
            made[name] = module.notifier(means, **values[name])
        except ValueError as error:
            raise NotifierError(f"notifier {name}: {error}") from None
        except ModuleNotFoundError as error:
            needs = f"notifier {name} needs {error.name}"
            raise NotifierError(f"{needs}; run: pip install 'argus-triage[slack]'") from None
    return made


def values_of(
    name: str, module: ModuleType, *, env: Mapping[str, str], table: Mapping[str, object]
) -> dict[str, str | int | float]:
    """What is set of a notifier by its table of the file and by the environment; empty if nothing is.

    Raises NotifierError.
    """
    known = {one.name: one for one in settings_of(name, module)}
    values: dict[str, str | int | float] = {}
    for key, value in table.items():
        if key not in known:
            raise NotifierError(f"[notify.{name}]: no setting {key!r}; there are {', '.join(known)}")
        if known[key].is_secret:
            raise NotifierError(f"[notify.{name}]: {key} comes from {known[key].env} only")
        values[key] = _typed(known[key], value)
    for one in known.values():
        if one.env in env:
            values[one.name] = _parsed(one, env[one.env])
    return values


def _typed(one: Setting, value: object) -> str | int | float:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(one.default, float) and isinstance(value, int) and is_whole:
        return float(value)
    if not isinstance(value, str | int | float) or type(value) is not type(one.default):
        raise NotifierError(
            f"[notify.{one.notifier}]: {one.name} must be like {one.default!r}, got {value!r:.60}"
        )
    return value


def _parsed(one: Setting, text: str) -> str | int | float:
    try:
        return type(one.default)(text)
    except ValueError:
        raise NotifierError(f"{one.env} must be a number such as {one.default}") from None
