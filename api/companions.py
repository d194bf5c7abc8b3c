"""What works beside the analysis of a project."""

from __future__ import annotations

from collections.abc import Sequence

from argus.api.projects import Companion, Project


def companions_of(_project: Project) -> Sequence[Companion]:
    """Everything a project needs beside its analysis, not started yet."""
    return ()
