"""Act once torch has been imported; standard library only, for it runs in every Python of the job."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class TorchFinder:
    """First on `sys.meta_path`: finds torch as everybody else does, and attaches when it has run."""

    def __init__(self, meta_path: list[object], arm: bool) -> None:
        self._meta_path = meta_path
        self._arm = arm

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The real spec of torch with one call added behind its execution; None for everything else."""
        if name != "torch":
            return None
        if self in self._meta_path:
            self._meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        loader = spec.loader if spec is not None else None
        run = getattr(loader, "exec_module", None)
        if run is None:
            return spec

        def exec_module(module: ModuleType) -> None:
            run(module)
            attach(self._arm)

        try:
            vars(loader)["exec_module"] = exec_module
        except TypeError:
            return spec  # a loader without attributes of its own: leave torch alone
        return spec


def watch(meta_path: list[object], arm: bool = False) -> None:
    """Attach when torch is imported, now if it is; with `arm`, record at once where a rank is known."""
    if "torch" in sys.modules:
        attach(arm)
    elif not any(isinstance(finder, TorchFinder) for finder in meta_path):
        meta_path.insert(0, TorchFinder(meta_path, arm))


def attach(arm: bool) -> None:
    """Hand over to argus; whatever goes wrong is one line in the log."""
    try:
        _require_ours()
        from argus.collectors.rank.attach import prepare

        prepare(arm=arm)
    except Exception as error:  # noqa: BLE001 training must start whatever we meet
        import logging

        logging.getLogger("argus").warning("argus: not observing this process: %r", error)


def _require_ours() -> None:
    """ImportError if `argus` is a package of the job's: importing it would run code the job did not ask for."""
    import os
    from importlib.util import find_spec

    spec = find_spec("argus")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    if not any(os.path.isfile(os.path.join(place, "collectors", "rank", "attach.py")) for place in places):
        raise ImportError(f"'argus' is a package of the job's own: {spec and spec.origin}")
