"""What the analysis thread shows the other threads: whole values, replaced and never changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from argus.analytics.incident import Incident
from argus.api.run_gauges import RunNow


class Published:
    """The last state the analysis thread left behind; read by scrapes and probes."""

    def __init__(self) -> None:
        self._runs: tuple[RunNow, ...] = ()
        self._incidents: tuple[Incident, ...] = ()
        self._backlog: tuple[int, float] = (0, 0.0)
        self._troubles: tuple[str, ...] = ()
        self._beside: tuple[Callable[[], str], ...] = ()
        self._leads = False
        self._mixed: Mapping[int, str] = {}

    def watch(self, trouble: Callable[[], str]) -> None:
        """Also tell what `trouble` says, "" while it is well: of what works beside the analysis."""
        self._beside = (*self._beside, trouble)

    def show(self, *, runs: tuple[RunNow, ...], incidents: tuple[Incident, ...]) -> None:
        """Replace what is known of the jobs."""
        self._runs, self._incidents = runs, incidents

    def show_backlog(self, count: int, lag_s: float) -> None:
        """Replace how far the analysis lags."""
        self._backlog = (count, lag_s)

    def show_troubles(self, troubles: tuple[str, ...]) -> None:
        """Replace the reasons why the analysis is degraded, none if it is well."""
        self._troubles = troubles

    def show_mixed(self, mixed: Mapping[int, str]) -> None:
        """Replace what is said of attempts, by id, that are two jobs under one name."""
        self._mixed = mixed

    def mixed_now(self, attempt_id: int) -> str:
        """That the attempt is two jobs under one name; "" if it is one, or another replica analyses."""
        return self._mixed.get(attempt_id, "")

    def show_leading(self, leads: bool) -> None:
        """Replace whether this replica analyses."""
        self._leads = leads

    def leads_now(self) -> bool:
        """Whether this replica analyses."""
        return self._leads

    def runs_now(self) -> tuple[RunNow, ...]:
        """The live attempts, the newest of each run."""
        return self._runs

    def open_now(self) -> tuple[Incident, ...]:
        """The open incidents of live attempts."""
        return self._incidents

    def backlog_now(self) -> tuple[int, float]:
        """Closed windows that wait, and how long the oldest has, in seconds."""
        return self._backlog

    def troubles_now(self) -> tuple[str, ...]:
        """Why the analysis, or what works beside it, is degraded."""
        return (*self._troubles, *filter(None, [trouble() for trouble in self._beside]))
