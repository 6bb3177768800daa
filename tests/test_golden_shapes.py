"""Which bits of an instruction its shape has: what is computed for a shape is kept for it."""

import pytest

from golden_model.instruction_shapes import _MASKS, _NOT_SHAPE
from spec.codec import ROWS, Bits
from spec.isa import Opcode


@pytest.mark.parametrize("opcode", Opcode)
def test_a_shape_has_all_but_bases_and_semaphores(opcode: Opcode) -> None:
    mask = _MASKS[opcode]
    for item in ROWS[opcode].items:
        if isinstance(item, Bits):
            kept = mask >> item.shift & item.mask
            assert kept == (0 if item.name in _NOT_SHAPE else item.mask), item.name
            continue
        for i in range(item.count):
            for bits in item.fields:
                kept = mask >> item.place(bits, i) & bits.mask
                left_out = item.name in ("wait", "post") and bits.name == "sem"
                assert kept == (0 if left_out else bits.mask), f"{item.name}[{i}].{bits.name}"
