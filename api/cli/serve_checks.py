"""What `argus serve` looks at before anybody connects: keys, the certificate, the agent's settings, the cluster's files."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

from argus.api.cli.errors import CliError, cannot_open
from argus.api.settings import Settings, SettingsError

SHORTEST_KEY = 16
"""Characters of a key that other machines may try."""


def check_key(settings: Settings) -> None:
    """Other machines may not reach a service without keys, nor one whose key can be guessed. Raises CliError."""
    from argus.api.keys import is_loopback

    if is_loopback(settings.host):
        return
    if settings.key and len(settings.key) < SHORTEST_KEY:
        raise CliError(
            f"ARGUS_KEY is shorter than {SHORTEST_KEY} characters; `openssl rand -hex 32` makes one"
        )
    if not settings.key and not _has_keys(settings):
        raise CliError(
            f"--host {settings.host} can be reached from other machines: set ARGUS_KEY to the key they must bear, "
            "or make one with `argus key create --scope admin`"
        )


def _has_keys(settings: Settings) -> bool:
    """Whether the database, if there is one, has keys. Raises CliError."""
    from sqlalchemy import inspect
    from sqlalchemy.exc import SQLAlchemyError

    from argus.analytics.store.damage import is_damage
    from argus.analytics.store.engine import StoreError, open_store
    from argus.analytics.store.key_tables import KEYS
    from argus.analytics.store.keys import has_keys

    if "://" not in settings.db and not Path(settings.db).exists():
        return False
    try:
        store = open_store(settings.db)
        try:
            with store.read() as connection:  # of whatever version: it is brought up to date later
                return inspect(connection).has_table(KEYS.name) and has_keys(connection)
        finally:
            store.close()
    except (StoreError, SQLAlchemyError) as error:
        if is_damage(error):  # it is looked at when it is opened; nobody comes in without a key in any case
            return True
        raise cannot_open(error) from None


def tls_of(settings: Settings) -> dict[str, str]:
    """What uvicorn needs for TLS; empty without a certificate. Raises CliError."""
    if not settings.tls_cert and not settings.tls_key:
        return {}
    if not settings.tls_cert or not settings.tls_key:
        raise CliError("TLS needs both --tls-cert and --tls-key")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            settings.tls_cert, settings.tls_key, password=""
        )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CliError(
            f"cannot use the certificate {settings.tls_cert} with the key {settings.tls_key}: {error}"
        ) from None
    return {"ssl_certfile": settings.tls_cert, "ssl_keyfile": settings.tls_key}


def check_agent(settings: Settings) -> None:
    """Say what is wrong with the agent's settings before anybody connects. Raises CliError."""
    from argus.api.agent import agent_of

    try:
        _, problems = agent_of(settings)
    except SettingsError as error:
        raise CliError(str(error)) from None
    for problem in problems:
        print(f"argus serve: {problem}", file=sys.stderr)


def check_callbacks(settings: Settings) -> None:
    """Say that nobody can be called back before anybody asks for it. Raises CliError."""
    from argus.api.notify.post import signed

    try:
        signed(settings.callback_secret, b"", id="", now_s=0.0)
    except ValueError as error:
        raise CliError(f"ARGUS_CALLBACK_SECRET: {error}") from None


def check_topology(settings: Settings) -> None:
    """Say what is wrong with the cluster's files before anybody connects. Raises CliError."""
    from argus.api.cluster import cluster_facts

    try:
        cluster_facts(settings)
    except SettingsError as error:
        raise CliError(str(error)) from None
