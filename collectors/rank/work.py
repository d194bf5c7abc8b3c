"""How much a step has to do, read off what the model is called with: shapes only, never values."""

from __future__ import annotations

from collections.abc import Iterable

PACKED = ("cu_seq", "position_ids")
"""Arguments of calls that pack sequences: their lengths are values on the GPU, reading them would wait."""


def work_of(args: Iterable[object], kwargs: dict[str, object]) -> dict[str, float]:
    """Samples, and tokens with their squared lengths where the input is a batch of token numbers.

    >>> import torch
    >>> work_of((torch.zeros(2, 8, dtype=torch.long),), {})
    {'samples': 2.0, 'tokens': 16.0, 'sum_len2': 128.0}
    """
    if any(name.startswith(PACKED) and value is not None for name, value in kwargs.items()):
        return {}
    first: tuple[int, ...] = ()
    for value in (*args, *kwargs.values()):
        shape = getattr(value, "shape", None)
        dtype = getattr(value, "dtype", None)
        if shape is None or dtype is None or not len(shape):
            continue
        if len(shape) == 2 and str(dtype) in ("torch.int64", "torch.int32"):
            num, length = int(shape[0]), int(shape[1])
            return {
                "samples": float(num),
                "tokens": float(num * length),
                "sum_len2": float(num * length**2),
            }
        first = first or tuple(shape)
    return {"samples": float(first[0])} if first else {}
