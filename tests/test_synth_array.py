"""The array's processing elements and the loops of the simulation are equal, by proof."""

import pytest

from hw_gen.blocks.array_element import ArrayShape, sum_bits
from sw.synth import equivalence
from sw.synth.equivalence import LOOPS, prove_array
from sw.synth.errors import SynthError

SMALL = ArrayShape(rows=2, cols=2, across=True)


def quiet(text: str) -> None:
    """Nobody looks."""


def test_sums_have_the_bits_that_the_largest_needs() -> None:
    for products in (1, 2, 3, 4, 15, 16, 128):
        largest = products * 256 * 256
        assert -(1 << sum_bits(products) - 1) <= -largest
        assert largest < 1 << sum_bits(products) - 1
        assert sum_bits(products) <= 18 + (products - 1).bit_length()


@pytest.mark.parametrize("shape", [SMALL, ArrayShape(rows=3, cols=2, across=False)])
def test_the_elements_are_the_loops(tmp_path, shape) -> None:
    pairs = list(equivalence.registers(shape, 3))
    assert prove_array(shape, tmp_path, quiet) == len(pairs) == len(set(pairs)) > 130


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if (wgt_valid) turn = turn << 1;", "turn = turn << 1;"),
        ("5'(31 - $clog2(", "5'(32 - $clog2("),
    ],
)
def test_a_fault_in_the_loops_is_no_proof(tmp_path, right, wrong) -> None:
    text = LOOPS.read_text()
    assert text.count(right) == 1
    (tmp_path / "wrong.sv").write_text(text.replace(right, wrong))
    with pytest.raises(SynthError, match="proof did fail"):
        prove_array(SMALL, tmp_path, quiet, loops=tmp_path / "wrong.sv")


def test_a_fault_in_an_element_is_no_proof(tmp_path, monkeypatch) -> None:
    made = equivalence.elements_verilog

    def faulty(shape: ArrayShape) -> str:
        text = made(shape)
        assert text.count("~ swap") > 3
        return text.replace("~ swap", "swap", 1)

    monkeypatch.setattr(equivalence, "elements_verilog", faulty)
    with pytest.raises(SynthError, match="proof did fail"):
        prove_array(SMALL, tmp_path, quiet)
