"""Arithmetic over named numbers, read by hand: no name, call or attribute beyond the ones listed."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

MAX_EXPRESSION = 200
MAX_DEPTH = 20

CONSTANTS = (0, 1, 2, 7, 8, 24, 60, 100, 1000, 3600, 86400, 1_000_000, 1_000_000_000)
"""Numbers that may stand in an expression: what turns units into others. Any other number is a claim."""

_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "sum": lambda *v: sum(v),
}


class NotComputable(ValueError):
    """The expression is none, or has no finite value; the message says where."""


def compute(expression: str, values: Mapping[str, float]) -> float:
    """Value of an expression of + − × ÷, min, max, abs and sum over `values`. Raises NotComputable.

    >>> compute("(slow - fast) / fast * 100", {"slow": 3.0, "fast": 2.0})
    50.0
    """
    if len(expression) > MAX_EXPRESSION:
        raise NotComputable(f"an expression has at most {MAX_EXPRESSION} characters, got {len(expression)}")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotComputable(f"no expression: {expression[:60]!r} ({type(error).__name__})") from None
    try:
        result = float(_value(tree.body, values, depth=0))
    except ZeroDivisionError:
        raise NotComputable("it divides by zero") from None
    except OverflowError:
        raise NotComputable("the value is not finite") from None
    if not math.isfinite(result):
        raise NotComputable("the value is not finite")
    return result


def names_in(expression: str) -> frozenset[str]:
    """Names of values an expression uses; none if it cannot be read."""
    try:
        tree = ast.parse(expression[:MAX_EXPRESSION].strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)) - _FUNCTIONS.keys()


def _value(node: ast.expr, values: Mapping[str, float], *, depth: int) -> float:
    if depth > MAX_DEPTH:
        raise NotComputable(f"more than {MAX_DEPTH} levels deep")
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, ast.Name):
        if node.id not in values:
            raise NotComputable(f"no value {node.id!r}; there are {', '.join(values) or 'none'}")
        return values[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, values, depth=depth + 1)
    if isinstance(node, ast.BinOp) and (apply := _BINARY.get(type(node.op))) is not None:
        left, right = (_value(side, values, depth=depth + 1) for side in (node.left, node.right))
        return apply(left, right)
    return _called(node, values, depth=depth)


def _called(node: ast.expr, values: Mapping[str, float], *, depth: int) -> float:
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _FUNCTIONS
        and node.args
        and not node.keywords
        and not any(isinstance(one, ast.Starred) for one in node.args)
        and (node.func.id != "abs" or len(node.args) == 1)
    ):
        args = [_value(one, values, depth=depth + 1) for one in node.args]
        return _FUNCTIONS[node.func.id](*args) if len(args) > 1 or node.func.id in ("abs", "sum") else args[0]
    raise NotComputable(f"{ast.unparse(node)[:60]!r} is not allowed: only + - * / ( ) min max abs sum")


def _constant(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value in CONSTANTS:
        return value
    allowed = ", ".join(str(one) for one in CONSTANTS)
    raise NotComputable(f"{value!r:.20} may not be typed: numbers come from evidence, but for {allowed}")
