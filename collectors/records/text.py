"""Text from outside: cut to length, without control characters."""

from __future__ import annotations


def tame(text: object, limit: int) -> str:
    r"""`text` as at most `limit` printable characters.

    >>> tame("gemm\x1b[2J" + "x" * 9, 8)
    'gemm�[2J'
    """
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text)[:limit])
    return clean.encode("utf-8", "replace").decode()
