"""The desk of the caller's project, for the routes that ask it for something."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request
from pydantic import AfterValidator, Field

from argus.agent.guard import question_of
from argus.api.desk import Desk
from argus.api.http.guard import PrincipalOf, the_project
from argus.api.projects import Project


def desk_at(project: Project) -> Desk:
    """A project's desk. Raises HTTPException 503 where it has none."""
    for companion in project.companions:
        if isinstance(companion, Desk):
            return companion
    raise HTTPException(503, "this service runs without investigations and notices")


def the_desk(request: Request) -> Desk:
    """The desk, on a route that says its scope."""
    return desk_at(the_project(request))


MAX_BY = 128
"""Characters of a name that is kept beside what somebody asked or decided."""


def who_asks(principal: PrincipalOf) -> str:
    """How whoever asks is named in what is kept."""
    return principal.who[:MAX_BY]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable text")
    return text


Word = Annotated[str, Field(max_length=256), AfterValidator(_printable)]
"""A name somebody gives, in a body."""

Prose = Annotated[str, Field(max_length=4000), AfterValidator(question_of)]
"""Something somebody writes, on lines of its own, without control characters."""

By = Annotated[str, Depends(who_asks)]
DeskOf = Annotated[Desk, Depends(the_desk)]
