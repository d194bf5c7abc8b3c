"""The language model that systems are measured on: the one that the settings name, and how it is asked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from argus.agent.loop.drive import Asked
from argus.agent.loop.limits import Limits
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, Reply
from argus.api.agent import endpoint_of, limits_of
from argus.api.cli.errors import CliError
from argus.api.settings import SettingsError
from argus.api.settings_sources import load_settings

NOT_MEASURED = "not measured"
NO_ENDPOINT_SET = "set ARGUS_MODEL_URL"


@dataclass(frozen=True, kw_only=True)
class AskedModel:
    """Where it is, and what one question may use up."""

    endpoint: Endpoint
    limits: Limits


def model_of_settings() -> AskedModel | None:
    """The endpoint of the settings with its budgets, None if none is set up. Raises CliError."""
    try:
        settings, _ = load_settings(env=os.environ)
        endpoint = endpoint_of(settings)
        return None if endpoint is None else AskedModel(endpoint=endpoint, limits=limits_of(settings))
    except SettingsError as error:
        raise CliError(str(error)) from None


@contextmanager
def asking(endpoint: Endpoint) -> Iterator[Asked]:
    """A way to ask it that waits for the reply; its connections are closed at the end."""
    from argus.agent.model.client import Model  # brings openai: a second that only a model is worth

    with asyncio.Runner() as runner:
        model = Model(endpoint)

        def ask(request: Ask) -> Reply:
            return runner.run(model.ask(request))

        try:
            yield ask
        finally:
            runner.run(model.close())
