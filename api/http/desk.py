"""The desk of the caller's project, for the routes that ask it for something."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request

from argus.api.desk import Desk
from argus.api.http.guard import the_project
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


DeskOf = Annotated[Desk, Depends(the_desk)]
