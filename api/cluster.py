"""What files say of the cluster: hosts and the switches they hang on, as the settings name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from argus.api.settings import Settings, SettingsError
from argus.topology.facts import Facts, LoaderError, kind_of_id, name_of_id
from argus.topology.hosts import host_in_id
from argus.topology.loaders import load_file


def cluster_facts(settings: Settings) -> tuple[Facts, ...]:
    """Facts of the file, or of every file of the folder. Raises SettingsError if one cannot be used."""
    if not settings.topology:
        return ()
    path = Path(settings.topology)
    files = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
    try:
        return tuple(load_file(one) for one in files)
    except LoaderError as error:
        raise SettingsError(f"topology: {error}") from None


def leaves_of(facts: Iterable[Facts]) -> Mapping[str, str]:
    """The switch each host hangs on, several joined by a plus sign: its own edge, else those of its NICs."""
    found: dict[str, dict[str, None]] = {}
    for part in facts:
        for edge in part.edges:
            if edge.kind != "attached" or kind_of_id(edge.target) != "leaf":
                continue
            host = host_in_id(edge.source)
            if host:
                found.setdefault(host, {})[name_of_id(edge.target)] = None
    return {host: " + ".join(leaves) for host, leaves in found.items()}
