"""What a key is: how it is written, what it may do, who bears it."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from argus.analytics.store.keys import KeyRow
from argus.analytics.store.projects import DEFAULT

Scope = Literal["ingest", "read", "investigate", "approve", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

IMPLIED: Mapping[Scope, frozenset[Scope]] = {
    "ingest": frozenset({"ingest"}),  # for training hosts: it tells and cannot read
    "read": frozenset({"read"}),
    "investigate": frozenset({"investigate", "read"}),
    "approve": frozenset({"approve", "read"}),
    "admin": frozenset(SCOPES),
}
"""What each scope allows."""

SECRET_BYTES = 32
PROJECT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
TOKEN = re.compile(r"argus_([0-9a-f]{12})_([0-9a-f]{64})")

BOOTSTRAP, OPEN = "bootstrap", "open"
"""Ids of those who bear no key of the table: the key of the environment, and anybody where no key is set."""


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who asks. `key` is an id, `via` how it was shown: key, session or open."""

    key: str
    name: str
    project: str
    scopes: frozenset[Scope]
    via: str = "key"
    csrf: str = ""

    def may(self, scope: Scope) -> bool:
        """Whether the scope is among what it may do."""
        return scope in self.scopes

    @property
    def is_operator(self) -> bool:
        """Whether it may make keys of every project and read everybody's audit."""
        return self.project == DEFAULT and "admin" in self.scopes

    @property
    def who(self) -> str:
        """How the audit names it."""
        return f"{self.key} {self.name}".strip()


def allowed(scopes: Iterable[str]) -> frozenset[Scope]:
    """All that `scopes` allow; names that are none allow nothing.

    >>> sorted(allowed(["investigate", "ingest"]))
    ['ingest', 'investigate', 'read']
    """
    return frozenset(got for scope in SCOPES if scope in scopes for got in IMPLIED[scope])


def open_principal() -> Principal:
    """Anybody, where no key is set and nobody but this machine can ask."""
    return Principal(key=OPEN, name="", project=DEFAULT, scopes=frozenset(SCOPES), via="open")


def bootstrap_principal() -> Principal:
    """The bearer of the key of the environment."""
    return Principal(key=BOOTSTRAP, name="", project=DEFAULT, scopes=frozenset(SCOPES))


def principal_of(row: KeyRow) -> Principal:
    """The bearer of a key of the table."""
    return Principal(key=row.id, name=row.name, project=row.project, scopes=allowed(row.scopes))


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A key that is wanted."""

    project: str
    name: str
    scopes: tuple[str, ...]
    lives_s: float | None = None


def new_key(wish: Wish, *, created_by: str, now_s: float) -> tuple[str, KeyRow]:
    """The token, which nothing can show again, and the row to keep. Raises ValueError."""
    check_wish(wish)
    key_id, secret = secrets.token_hex(6), secrets.token_hex(SECRET_BYTES)
    row = KeyRow(
        id=key_id,
        project=wish.project,
        name=wish.name,
        scopes=tuple(sorted(set(wish.scopes))),
        digest=digest(secret),
        created_s=now_s,
        created_by=created_by[:128],
        expires_s=None if wish.lives_s is None else now_s + wish.lives_s,
    )
    return f"argus_{key_id}_{secret}", row


def check_wish(wish: Wish) -> None:
    """Raises ValueError with one sentence."""
    if not PROJECT.fullmatch(wish.project):
        raise ValueError(
            f"a project's name is up to 32 of a-z, 0-9 and -, not beginning with -, got {wish.project!a:.40}"
        )
    if not wish.name.isprintable() or len(wish.name) > 128:
        raise ValueError("a key's name is printable text of at most 128 characters")
    unknown = sorted(set(wish.scopes) - set(SCOPES))
    if unknown or not wish.scopes:
        raise ValueError(f"scopes are {', '.join(SCOPES)}; got {', '.join(unknown) or 'none'}"[:200])
    if wish.lives_s is not None and not 0 < wish.lives_s < 1e10:
        raise ValueError("a key lives longer than no time at all")


def parse_token(token: str) -> tuple[str, str] | None:
    """Id and secret of a token of the table; None if it is written otherwise."""
    found = TOKEN.fullmatch(token)
    return None if found is None else (found[1], found[2])


def digest(secret: str) -> str:
    """What is kept of a secret.

    One round of SHA-256: the secret is 256 random bits, which nobody finds by trying, so a slow hash (scrypt,
    argon2) would protect nothing here and cost its time at each of a thousand requests a second.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def is_secret(given: str, kept_digest: str) -> bool:
    """Whether a secret is the one of a digest, in the same time whatever it is."""
    return hmac.compare_digest(digest(given), kept_digest)


def proof(secret: str, token: str) -> str:
    """Binds a session to a key: without the session's token nothing can be learnt of the key from it."""
    return hmac.new(token.encode(), secret.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def csrf_of(token: str) -> str:
    """What a page must repeat in a header to act with the cookie: no other page can read it."""
    return hmac.new(token.encode(), b"csrf", hashlib.sha256).hexdigest()[:32]


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def names_this_machine(host: str, *, allowed_hosts: Collection[str] = ("localhost",)) -> bool:
    """Whether a Host header can only have been meant for this machine.

    A name without a dot is nobody's in the DNS, so no foreign page can be served under it (DNS rebinding).

    >>> names_this_machine("127.0.0.1:8321"), names_this_machine("evil.example:8321")
    (True, False)
    """
    name = host.rsplit(":", 1)[0] if not host.endswith("]") and host.count(":") != 0 else host
    name = name.strip("[]").lower()
    return name in allowed_hosts or is_loopback(name) or (bool(name) and "." not in name and ":" not in name)
