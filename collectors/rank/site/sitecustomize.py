"""Runs first in every Python process under `argus run`: watch for torch, then run the user's own sitecustomize."""

import os
import sys


def _main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(here))))
    if os.environ.get("ARGUS_OFF", "") in ("", "0"):
        import argus_torch_hook  # type: ignore[import-not-found]

        if not _has_argus():
            sys.path.append(root)  # last: it must not shadow anything of the job's
        argus_torch_hook.watch(sys.meta_path)
    _chain(here)


def _has_argus() -> bool:
    """Whether `import argus` finds a package without our help."""
    inside = os.path.join("argus", "collectors", "rank", "attach.py")
    return any(os.path.isfile(os.path.join(entry or ".", inside)) for entry in sys.path)


def _chain(here: str) -> None:
    """Run the sitecustomize that Python would have found without us, under its own name."""
    from importlib.machinery import PathFinder

    rest = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_main()
