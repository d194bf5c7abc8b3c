"""The arithmetic of `compute`: right, bounded, and nothing else than arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argus.agent.arithmetic import CONSTANTS, NotComputable, compute

VALUES = {"a": 6.0, "b": 4.0}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a", 6.0),
        ("a - b", 2.0),
        ("(a - b) / b * 100", 50.0),
        ("-a + 1", -5.0),
        ("max(a, b)", 6.0),
        ("min(a)", 6.0),
        ("sum(a, b, 1)", 11.0),
        ("abs(b - a)", 2.0),
    ],
)
def test_what_is_arithmetic_is_computed(expression: str, value: float) -> None:
    assert compute(expression, VALUES) == value


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "a +",
        "c",
        "a ** b",
        "a // b",
        "a % b",
        "a if b else a",
        "[a]",
        "a.real",
        "a(b)",
        "__import__('os')",
        "max()",
        "max(*a)",
        "abs(a, b)",
        "min(a, key=b)",
        "(lambda: a)()",
        "'a'",
        "True",
        "1j",
        "a * 1.37",
        "42",
        "a / 0",
        "a / (b - b)",
        "+".join(["a"] * 90),
        "-" * 90 + "a",
        "a" * 201,
    ],
)
def test_what_is_not_is_refused(expression: str) -> None:
    with pytest.raises(NotComputable):
        compute(expression, VALUES)


def test_a_value_that_is_not_finite_is_refused() -> None:
    with pytest.raises(NotComputable):
        compute("a * a", {"a": 1e308})
    assert compute("a", {"a": 1e308}) == 1e308


@given(st.text(alphabet="ab+-*/() 12,minx.", max_size=40))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    try:
        assert isinstance(compute(text, VALUES), float)
    except NotComputable as error:
        assert str(error)


def test_the_constants_turn_units_into_others() -> None:
    assert {60, 3600, 1000, 100} <= set(CONSTANTS)
