"""What a table of operators has for each of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

FOLD = "fold"
KEEP = "keep"
SHAPE = "shape"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """How an operator is computed.

    function: of the node and its operands, a tensor each (None: left out); it returns a tensor or
    a tuple of them. static: positions of operands that must be constants; the function gets arrays
    of NumPy. arrays: positions of operands that become arrays where they are constants; numbers:
    where they are constants of one element. constants: what becomes of a node whose operands are
    all constants: `fold`, or `keep` (the importer wants to see it), or `shape`: its result depends
    on shapes alone.
    """

    function: Callable[..., Any]
    static: frozenset[int] = frozenset()
    numbers: frozenset[int] = frozenset()
    arrays: frozenset[int] = frozenset()
    constants: str = FOLD


def op(
    function: Callable[..., Any],
    static: Iterable[int] = (),
    numbers: Iterable[int] = (),
    arrays: Iterable[int] = (),
    constants: str = FOLD,
) -> Operator:
    """A row of a table."""
    return Operator(
        function=function,
        static=frozenset(static),
        numbers=frozenset(numbers),
        arrays=frozenset(arrays),
        constants=constants,
    )
