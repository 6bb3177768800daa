"""The order in which fetch hands out instructions of layers that run side by side."""

from spec.isa import Engine
from sw.compiler.program.hand_ahead import hand_ahead

M, V, L = Engine.MATRIX, Engine.VECTOR, Engine.LOAD

ENGINES = [L, M, V, V, V, L, M]
STARTS = [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
BEFORE: list[set[int]] = [set(), {0}, set(), {2}, {3}, set(), {5}]
"""A product, three steps of a norm beside it, and the next product behind its weights."""


def order(*, ahead: set[int], before: list[set[int]] = BEFORE) -> list[int]:
    flags = [i in ahead for i in range(len(ENGINES))]
    return hand_ahead(range(len(ENGINES)), ENGINES, STARTS, before, flags)


def test_without_layers_side_by_side_the_order_is_that_of_the_starts() -> None:
    assert order(ahead=set()) == list(range(7))


def test_the_next_product_is_handed_out_when_the_one_before_begins() -> None:
    found = order(ahead=set(range(7)))
    # Behind the steps of the norm that begin before the first product, and its own weights.
    assert found.index(6) < found.index(3)
    assert found.index(5) < found.index(6)


def test_what_an_instruction_depends_on_stays_before_it() -> None:
    waits = [*BEFORE[:6], {4, 5}]
    found = order(ahead={5, 6}, before=waits)
    assert found.index(4) < found.index(6) and found.index(5) < found.index(4)


def test_each_engine_keeps_its_order() -> None:
    for ahead in (set(), {6}, {2, 4}, set(range(7))):
        found = order(ahead=ahead)
        for engine in (M, V, L):
            numbers = [i for i in found if ENGINES[i] is engine]
            assert numbers == sorted(numbers)
