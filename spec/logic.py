"""Conditions on fields that are integers, or hardware values, alike.

Both overload comparisons, arithmetic, `&` and `|`. What is written with these alone says a fact
once for the golden model, the compiler and the generated logic. `and`, `or`, `not` and `if` need a
Python bool; `~` of a Python bool is no logical not.
"""

from typing import Any

Fields = Any
"""Fields by name, groups as sequences of such: integers of an `Instruction`, or hardware values."""
Number = Any
"""An integer, or a hardware value."""
Truth = Any
"""A bool, or a hardware value of one bit."""


def absent(value: Number) -> Truth:
    """`value` is zero: the logical not of a flag or a condition."""
    return value == 0


def among(value: Number, *members: int) -> Truth:
    """`value` is one of `members`."""
    out: Truth = False
    for member in members:
        out = out | (value == member)
    return out


def outside(value: Number, low: int, high: int) -> Truth:
    """`value` is not in low…high."""
    return (value < low) | (value > high)


def bit(value: Number, i: int) -> Truth:
    """Bit `i` of `value` is set."""
    return (value >> i & 1) != 0


def never(condition: Truth) -> bool:
    """`condition` is known to be False; of hardware nothing is known."""
    return condition is False
