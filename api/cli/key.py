"""`argus key`: make, list and revoke keys, in the service's database or over HTTP with an admin key."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from argus.api.cli.errors import CliError, cannot_open
from argus.api.cli.over_http import ask
from argus.api.cli.paths import path, word
from argus.api.masking import mask
from argus.collectors.records.text import tame

if TYPE_CHECKING:
    from argus.api.keyring import Keyring

SCOPES = ("ingest", "read", "investigate", "approve", "admin")
MAX_LINE = 160
PAGE = 1000


class Keys(Protocol):
    """Where keys are made. Every method raises CliError."""

    def create(self, wish: Mapping[str, Any]) -> Mapping[str, Any]:
        """The new key, with its token."""

    def listed(self) -> list[dict[str, Any]]:
        """Every key that may be seen."""

    def revoke(self, key: str) -> None:
        """End one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a key; its token is printed once")
    create.add_argument(
        "--scope",
        action="append",
        required=True,
        choices=SCOPES,
        help="what it may do; may be repeated: investigate and approve include read, not one another; "
        "ingest is for training hosts and cannot read",
    )
    create.add_argument("--project", metavar="NAME", help="its project (default: yours, else default)")
    create.add_argument("--name", default="", metavar="TEXT", help="what it is for")
    create.add_argument(
        "--days", type=float, metavar="N", help="days it lives (default: until it is revoked)"
    )
    listed = actions.add_parser("list", help="keys without their secrets")
    revoke = actions.add_parser("revoke", help="have a key open nothing any more")
    revoke.add_argument("id", metavar="ID", help="the key's id, see argus key list")
    for action in (create, listed, revoke):
        _add_where(action)


def _add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--db", type=word, metavar="DB", help="the database (default: as argus serve finds it)"
    )
    where.add_argument("--server", metavar="URL", help="a running service instead; ARGUS_KEY is an admin key")
    parser.add_argument("--config", type=path, metavar="FILE", help="settings file (default argus.toml)")


def run(args: argparse.Namespace) -> int:
    """Do it and say what was done."""
    keys = keys_of(args)
    if args.action == "create":
        made = keys.create(
            {"scopes": args.scope, "name": args.name, "project": args.project, "days": args.days}
        )
        print(json.dumps(made) if args.json else made["token"])
    elif args.action == "list":
        found = keys.listed()
        print(json.dumps({"keys": found}) if args.json else "\n".join(map(_line, found)) or "no key yet")
    else:
        keys.revoke(args.id)
        print(json.dumps({"id": args.id, "revoked": True}) if args.json else f"{args.id} is revoked")
    return 0


def keys_of(args: argparse.Namespace) -> Keys:
    """Where the arguments point at. Raises CliError."""
    if args.server:
        url = args.server if "://" in args.server else f"http://{args.server}"
        return Served(url=url.rstrip("/"))
    return Stored(keyring=_open(args))


@dataclass(frozen=True, kw_only=True)
class Served:
    """The keys of a running service."""

    url: str

    def create(self, wish: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `Keys.create`."""
        body = {name: value for name, value in wish.items() if value is not None}
        return ask(f"{self.url}/v1/keys", method="POST", body=body)

    def listed(self) -> list[dict[str, Any]]:
        """See `Keys.listed`."""
        found: list[dict[str, Any]] = []
        while True:
            page = ask(f"{self.url}/v1/keys?limit={PAGE}&offset={len(found)}")
            found += page["items"]
            if not page["items"] or len(found) >= page["total"]:
                return found

    def revoke(self, key: str) -> None:
        """See `Keys.revoke`."""
        ask(f"{self.url}/v1/keys/{urllib.parse.quote(key, safe='')}", method="DELETE")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The keys in a database: who can write to it needs no key."""

    keyring: Keyring

    def create(self, wish: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `Keys.create`."""
        from argus.api.keys import Wish

        wanted = Wish(
            project=wish["project"] or "default",
            name=wish["name"],
            scopes=tuple(wish["scopes"]),
            lives_s=None if wish["days"] is None else wish["days"] * 86400.0,
        )
        try:
            token, row = self.keyring.create(wanted, by=_me())
        except ValueError as error:
            raise CliError(str(error)) from None
        return {**row.to_json(), "token": token}

    def listed(self) -> list[dict[str, Any]]:
        """See `Keys.listed`."""
        from argus.analytics.store.keys import list_keys

        with self.keyring.store.read() as connection:
            return list_keys(connection, project=None, limit=100 * PAGE, offset=0).items

    def revoke(self, key: str) -> None:
        """See `Keys.revoke`."""
        if not self.keyring.revoke(key, project=None, by=_me()):
            raise CliError(f"no key {key!a:.40}; argus key list shows them", code=1)


def _open(args: argparse.Namespace) -> Keyring:
    """The keys of the database that `argus serve` would use; only a first key makes it. Raises CliError."""
    from sqlalchemy.exc import SQLAlchemyError

    from argus.analytics.store.engine import StoreError, open_store
    from argus.api.keyring import Keyring
    from argus.api.migrate import is_newest, upgrade
    from argus.api.settings import SettingsError
    from argus.api.settings_sources import load_settings

    try:
        settings, _ = load_settings(env=os.environ, path=args.config)
        db = args.db or settings.db
        is_new = "://" not in db and not (
            os.path.exists(db) and os.stat(db).st_size
        )  # a full disk leaves nothing in it
        if is_new and args.action != "create":
            raise CliError(f"there is no database {db!a:.200}: is --db right?")
        store = open_store(db)
        if is_new:
            upgrade(store)
        elif not is_newest(store):
            raise CliError(f"the database {mask(db)} is of another version: start argus serve on it once")
    except SettingsError as error:
        raise CliError(str(error)) from None
    except (StoreError, SQLAlchemyError) as error:
        raise cannot_open(error) from None
    return Keyring(store=store, bootstrap="", is_exposed=True, clock=time.time)


def _me() -> str:
    try:
        return f"shell {getpass.getuser()}"
    except (KeyError, OSError):  # a container's user without a name
        return f"shell uid {os.getuid()}"


def _line(key: Mapping[str, Any]) -> str:
    scopes = ", ".join(key["scopes"])
    state = "revoked" if key["revoked_s"] else "used" if key["used_s"] else "not used yet"
    until = f", until {_day(key['expires_s'])}" if key["expires_s"] else ""
    return tame(
        f"{key['id']}  {key['project']:<12} {scopes:<24} {state}, made {_day(key['created_s'])}{until}  {key['name']}",
        MAX_LINE,
    )


def _day(time_s: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(time_s))
