"""The agent's part of the demo: an investigation by the model that is set up, else by the scripted stand-in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from argus.agent.answer import outcome_lines
from argus.agent.stub_llm.scripts import confirm
from argus.agent.stub_llm.server import MODEL, StubServer
from argus.api.agent import agent_of
from argus.api.cli.errors import CliError
from argus.api.cli.face import stored
from argus.api.settings import Settings, SettingsError
from argus.api.settings_sources import load_settings

STAND_IN = "The model here is a script on loopback that looks and confirms; ARGUS_MODEL_URL names a real one."


def asked_about(db: Path, incident: str) -> list[str]:
    """What an agent says of an incident of a service's database. Raises CliError."""
    try:
        settings, _ = load_settings(env=os.environ)
        with _model(settings) as (ready, notes):
            agent, _ = agent_of(ready)
            box = stored(str(db))
            outcome = asyncio.run(agent.investigate(box, agent.case(box, incident=incident)))
    except SettingsError as error:
        raise CliError(str(error)) from None
    return [*outcome_lines(outcome, book=box.book), *notes]


@contextmanager
def _model(settings: Settings) -> Iterator[tuple[Settings, list[str]]]:
    if settings.model_url:
        yield settings, []
        return
    with StubServer(confirm) as server:
        yield replace(settings, model_url=server.url, model=MODEL), [STAND_IN]
