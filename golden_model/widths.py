"""Where addresses and positions wrap around: the widths of their fields."""

from spec.isa import CHIP_BITS, MEM_BITS, POSITION_BITS, VECTOR_BITS

CHIP_MASK = (1 << CHIP_BITS) - 1
MEMORY_MASK = (1 << MEM_BITS) - 1
VECTOR_MASK = (1 << VECTOR_BITS) - 1
CHIP_SIGN = 1 << CHIP_BITS - 1
POSITION_SIGN = 1 << POSITION_BITS - 1
