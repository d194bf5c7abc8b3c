"""What a service remembers of incidents like one, looked up once when it opens."""

from __future__ import annotations

from argus.agent.past import past_of
from argus.analytics.incident import Incident
from argus.analytics.store.engine import Store
from argus.api.store_facts import StoreFacts
from argus.api.watch import Watch


def past_now(store: Store, watch: Watch, incident: Incident, *, now_s: float) -> list[dict[str, object]]:
    """Earlier incidents of the class on the same hardware and elsewhere, and what helped, as JSON-ready rows."""
    if incident.id not in watch.past:
        found = past_of(incident, StoreFacts.of(store), now_s=now_s)
        watch.past[incident.id] = [one.to_json() for one in found]
    return watch.past[incident.id]
