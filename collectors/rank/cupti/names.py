"""Kernel names as CUPTI gives them to names as they are shown: demangled, without template and signature."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

from argus.collectors.records.kernel_names import short_name

Demangle = Callable[[str], str]


def cxx_demangler() -> Demangle:
    """The C++ runtime's demangler; names stay as they are where it is not there."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        demangle, free = library.__cxa_demangle, ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return lambda name: name
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    demangle.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p]

    def plain(name: str) -> str:
        if not name.startswith("_Z"):
            return name
        status = ctypes.c_int(0)
        text = demangle(name.encode(), None, None, ctypes.byref(status))
        if status.value or not text:
            return name
        try:
            return ctypes.string_at(text).decode("utf-8", "replace")
        finally:
            free(text)

    return plain


def shortener(demangle: Demangle) -> Callable[[str], str]:
    """`short_name` of the demangled name, remembered: a job has thousands of names, not more."""

    @lru_cache(maxsize=16384)
    def shorten(name: str) -> str:
        return short_name(demangle(name))

    return shorten
