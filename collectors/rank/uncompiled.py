"""Tells torch.compile that a function is none of the model's: its frame and all below run as they are."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def uncompiled(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, skipped by Dynamo; for what C++ calls while a compiled function runs.

    `torch.compiler.disable` would do, but imports Dynamo, which takes seconds and many jobs never need.
    """
    from torch._C._dynamo import eval_frame

    assert isinstance(function, FunctionType)
    if hasattr(eval_frame, "set_code_exec_strategy"):
        skip = eval_frame._FrameAction.SKIP
        strategy = eval_frame._FrameExecStrategy(skip, skip)
        eval_frame.set_code_exec_strategy(function.__code__, strategy)
    elif hasattr(eval_frame, "skip_code"):  # before torch 2.7: this frame only
        eval_frame.skip_code(function.__code__)
    return function
