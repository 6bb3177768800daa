"""What the engines that multiply share: sizes of last blocks, operands of 9 bits."""

from amaranth.hdl import *


def last_or(at_last: Value, loop: Value, last: Value, plain: Value) -> Value:
    """`last` while loop number `loop` is in its last iteration (7: never), else `plain`."""
    return Mux(Cat(at_last, Const(0, 8 - len(at_last))).bit_select(loop, 1), last, plain)


def operands(raw: Value, is_unsigned: Value, zero_point: Value, keep: Value, lanes: int) -> Value:
    """Bytes to 9-bit operands with the zero point subtracted; lanes not kept are zero."""
    out = []
    for lane in range(lanes):
        byte = raw[8 * lane : 8 * lane + 8]
        wide = Cat(byte, byte[7] & ~is_unsigned).as_signed()
        out.append(Mux(keep[lane], (wide - zero_point)[:9], 0))
    return Cat(out)
