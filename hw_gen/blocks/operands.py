"""What the engines that multiply share: sizes of last blocks, operands of 9 bits."""

from amaranth.hdl import *

from spec.isa import LOOP_BITS, OPERAND_HIGH, OPERAND_LOW

OPERAND = Shape.cast(range(OPERAND_LOW, OPERAND_HIGH + 1))
"""A byte minus its zero point."""


def last_or(at_last: Value, loop: Value, last: Value, plain: Value) -> Value:
    """`last` while loop number `loop` is in its last iteration, else `plain`.

    NO_LOOP, like every number that no loop has, is never in its last iteration.
    """
    every = Cat(at_last, Const(0, (1 << LOOP_BITS) - len(at_last)))
    return Mux(every.bit_select(loop, 1), last, plain)


def first_lanes(count: Value, lanes: int) -> Value:
    """One bit a lane: whether it is among the first `count`."""
    return Cat(count > lane for lane in range(lanes))


def operands(raw: Value, is_unsigned: Value, zero_point: Value, keep: Value, lanes: int) -> Value:
    """Bytes to operands with the zero point subtracted, packed; lanes not kept are zero."""
    out = []
    for lane in range(lanes):
        byte = raw[8 * lane : 8 * lane + 8]
        wide = Cat(byte, byte[7] & ~is_unsigned).as_signed()
        out.append(Mux(keep[lane], (wide - zero_point)[: OPERAND.width], 0))
    return Cat(out)
