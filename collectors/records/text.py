"""Text from outside: cut to length, without control characters."""

from __future__ import annotations


def tame(text: object, limit: int) -> str:
    r"""`text` as at most `limit` printable characters.

    >>> tame("gemm\x1b[2J" + "x" * 9, 8)
    'gemm�[2J'
    """
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text)[:limit])
    return clean.encode("utf-8", "replace").decode()


def has_page(name: str) -> bool:
    """Whether an address can hold a name: browsers and proxies drop `.` and `..` between its slashes (RFC 3986, 5.2.4).

    >>> [has_page(name) for name in ("night", "team/night", "..", "team/../night")]
    [True, True, False, False]
    """
    return not any(part in (".", "..") for part in name.split("/"))
