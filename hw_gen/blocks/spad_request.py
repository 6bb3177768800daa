"""What a scratchpad access needs of the banks, decoded before it waits for them."""

from amaranth.hdl import *
from amaranth.lib import data

from spec.banks import bank_columns
from spec.config import NpuConfig


def rotate_bytes_left(value: Value, count: Value, width: int) -> Value:
    """`value` (`width` bytes) rotated towards higher bytes by `count`."""
    wide = Cat(value, value) << (count << 3)
    return wide[8 * width : 16 * width]


def bank_of(word: Value, banks: int) -> Value:
    """The bank of a word. The compiler has the same (`spec.banks`), tests compare both."""
    columns = bank_columns(banks)[: len(word)]
    return Cat(
        Cat(bit for bit, column in zip(word, columns, strict=True) if column >> n & 1).xor()
        for n in range((banks - 1).bit_length())
    )


def place_layout(config: NpuConfig, **more) -> data.StructLayout:
    """Where an access lies: first byte in its word, row and bank of its first and second word, and
    the banks that it needs (none if it has no bytes)."""
    row, bank = range(config.bank_depth), range(config.banks)
    return data.StructLayout(
        {
            "offset": range(config.word_bytes),
            "row0": row,
            "bank0": bank,
            "row1": row,
            "bank1": bank,
            "needs": config.banks,
            **more,
        }
    )


def write_layout(config: NpuConfig) -> data.StructLayout:
    """A write: its place, the bytes where they belong in a word, and which of them belong to the
    first and to the second word."""
    lanes = config.word_bytes
    return place_layout(config, data=8 * lanes, low=lanes, high=lanes, mark=1)


def locate(m: Module, config: NpuConfig, name: str, port, place) -> None:
    """Drive the members of `place` that `place_layout` has, for the access that `port` asks for."""
    low = (config.word_bytes - 1).bit_length()
    bits = (config.banks - 1).bit_length()
    word = Signal(config.spad_addr_bits - low, name=f"word_{name}")
    following = Signal.like(word, name=f"following_{name}")
    second = Signal(name=f"second_{name}")
    m.d.comb += [
        word.eq(port.addr[low:]),
        following.eq(word + 1),
        second.eq(place.offset + port.size > config.word_bytes),
        place.offset.eq(port.addr[:low]),
        place.row0.eq(word[bits:]),
        place.bank0.eq(bank_of(word, config.banks)),
        place.row1.eq(following[bits:]),
        place.bank1.eq(bank_of(following, config.banks)),
    ]
    with m.If(port.size != 0):
        m.d.comb += place.needs.eq(
            (1 << place.bank0) | Mux(second, (1 << place.bank1)[: config.banks], 0)
        )


def locate_write(m: Module, config: NpuConfig, name: str, port, place) -> None:
    """Drive every member of `place`, a `write_layout`."""
    width = config.word_bytes
    lanes, turn = Signal(2 * width, name=f"lanes_{name}"), Signal.like(port.lane)
    locate(m, config, name, port, place)
    m.d.comb += [
        turn.eq(place.offset - port.lane),
        lanes.eq(((1 << port.size) - 1)[:width] << place.offset),
        place.low.eq(lanes[:width]),
        place.high.eq(lanes[width:]),
        place.data.eq(rotate_bytes_left(port.data, turn, width)),
        place.mark.eq(port.mark),
    ]
