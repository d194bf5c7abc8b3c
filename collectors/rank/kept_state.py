"""Keeps what Python knows of a thread that is not its own between two calls into Python.

Python makes a thread state at each call from a foreign thread and frees it afterwards, with the page its frames
lie on: half of what such a call costs. A backend has few threads and they last as long as its group.
"""

from __future__ import annotations

import threading


class _Kept(threading.local):
    is_kept = False


_kept = _Kept()


def keep_state() -> None:
    """Keep the calling thread's state until the process ends; nothing where this Python cannot.

    The call that is never given back is the one a foreign thread makes to enter Python (PyGILState_Ensure).
    """
    if _kept.is_kept:
        return
    _kept.is_kept = True
    try:
        import ctypes
    except ImportError:
        return
    ctypes.pythonapi.PyGILState_Ensure()
