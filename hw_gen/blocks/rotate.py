"""Bytes of a word that turn around in it."""

from amaranth.hdl import *

from hw_gen.platform import asks_for
from spec.config import NpuConfig

_MULTIPLIERS = 156
"""Of the largest ECP5, which the form for FPGAs is made for."""
_WIDEST = 16
"""Bytes of a word of which one multiplier turns a bit of each."""


def rotate_bytes_left(
    m: Module, platform, config: NpuConfig, name: str, value: Value, count: Value
) -> Value:
    """`value`, a word of the scratchpad, rotated towards higher bytes by `count`."""
    width = config.word_bytes
    if asks_for(platform, "for_fpga") and _spares(config):
        return _multiplied(m, name, value, count, width)
    wide = Cat(value, value) << (count << 3)
    return wide[8 * width : 16 * width]


def rotate_bytes_right(
    m: Module, platform, config: NpuConfig, name: str, value: Value, count: Value
) -> Value:
    """`value`, a word of the scratchpad, rotated towards lower bytes by `count`."""
    width = config.word_bytes
    if asks_for(platform, "for_fpga") and _spares(config):
        back = Signal(range(width), name=f"{name}_back")
        m.d.comb += back.eq(-count)
        return _multiplied(m, name, value, back, width)
    return (Cat(value, value) >> (count << 3))[: 8 * width]


def _spares(config: NpuConfig) -> bool:
    """Whether the device has multipliers for all words that turn."""
    lanes = config.cols * config.taps if config.depthwise else 0
    others = config.pes + lanes + 6 * config.lane_count
    words = 6 + config.depthwise * config.depthwise_columns + config.weight_rows
    return config.word_bytes <= _WIDEST and others + 8 * words <= _MULTIPLIERS


def _multiplied(m: Module, name: str, value: Value, count: Value, width: int) -> Value:
    """The same by multipliers, which an FPGA has more of than are used: bit b of all bytes, times
    2 to the power of `count`. What leaves the product above comes back below.
    """
    power = Signal(width, name=f"{name}_power")
    m.d.comb += power.eq(1 << count)
    turned = []
    for bit in range(8):
        product = Signal(2 * width, name=f"{name}_bits_{bit}")
        m.d.comb += product.eq(Cat(value[8 * byte + bit] for byte in range(width)) * power)
        turned.append(product[:width] | product[width:])
    return Cat(turned[bit][byte] for byte in range(width) for bit in range(8))
