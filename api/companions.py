"""What works beside the analysis of a project: its desk."""

from __future__ import annotations

from collections.abc import Sequence

from argus.analytics.store.audit import Deed
from argus.api.auditing import Auditor
from argus.api.desk import desk_of
from argus.api.notify.settings import NO_NOTIFIERS, NotifySettings
from argus.api.projects import Companion, Project
from argus.api.slack.switchboard import Switchboard


def companions_of(
    project: Project,
    *,
    notify: NotifySettings = NO_NOTIFIERS,
    auditor: Auditor | None = None,
    switchboard: Switchboard | None = None,
) -> Sequence[Companion]:
    """Everything a project needs beside its analysis, not started yet; projects share one `switchboard`.

    Raises NotifierError.
    """

    def note(who: str, action: str, target: str) -> None:
        """What people do outside of a request goes into the audit, too."""
        if auditor is not None:
            deed = Deed(
                project=project.name, who=f"slack {who}", action=action, target=target, outcome="done"
            )
            auditor.note(deed)

    desk = desk_of(
        project.service,
        project.toolbox,
        project=project.name,
        notify=notify,
        note=note,
        switchboard=switchboard,
    )
    return (desk,)
