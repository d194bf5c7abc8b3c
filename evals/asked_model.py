"""The language model that systems are measured on: the one that the settings name, and how it is asked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from argus.agent.loop.drive import Asked
from argus.agent.loop.limits import Limits
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, ModelError, Reply
from argus.api.agent import endpoint_of, limits_of
from argus.api.cli.errors import CliError
from argus.api.settings import SettingsError
from argus.api.settings_sources import load_settings

if TYPE_CHECKING:
    from argus.agent.model.client import Model

NOT_MEASURED = "not measured"
NO_ENDPOINT_SET = "set ARGUS_MODEL_URL"
REACHED_WITHIN_S = 10.0


@dataclass(frozen=True, kw_only=True)
class AskedModel:
    """Where it is, and what one question may use up."""

    endpoint: Endpoint
    limits: Limits


def model_of_settings() -> AskedModel | None:
    """The endpoint of the settings with its budgets, None if none is set up.

    Raises CliError, also where nothing answers there or the key is refused: a trial each would only repeat it.
    """
    try:
        settings, _ = load_settings(env=os.environ)
        endpoint = endpoint_of(settings)
        if endpoint is None:
            return None
        _reach(endpoint)
        return AskedModel(endpoint=endpoint, limits=limits_of(settings))
    except SettingsError as error:
        raise CliError(str(error)) from None


def _reach(endpoint: Endpoint) -> None:
    """CliError if no trial can be asked there. A server that lists no models, or slowly, may still answer."""
    with _opened(endpoint) as (runner, model):
        try:
            runner.run(asyncio.wait_for(model.models(), REACHED_WITHIN_S))
        except TimeoutError:
            return
        except ModelError as error:
            if error.kind in ("unreachable", "auth"):
                raise CliError(f"{error}; nothing was measured") from None


@contextmanager
def _opened(endpoint: Endpoint) -> Iterator[tuple[asyncio.Runner, Model]]:
    from argus.agent.model.client import Model  # brings openai: a second that only a model is worth

    with asyncio.Runner() as runner:
        model = Model(endpoint)
        try:
            yield runner, model
        finally:
            runner.run(model.close())


@contextmanager
def asking(endpoint: Endpoint) -> Iterator[Asked]:
    """A way to ask it that waits for the reply; its connections are closed at the end."""
    with _opened(endpoint) as (runner, model):

        def ask(request: Ask) -> Reply:
            return runner.run(model.ask(request))

        yield ask
