"""The rules of legality as hardware: those of the instruction table and of `spec.legality`."""

from collections.abc import Iterator

from amaranth.hdl import *

from hw_gen.layouts import fields_in_order, instruction_layout
from spec.config import NpuConfig
from spec.isa import FORMATS, GRANULE_BITS, Group, Opcode
from spec.isa import Format as InstructionFormat
from spec.legality import rules

_HEADER = ("opcode", "granules")


def broken_rules(m: Module, config: NpuConfig, opcode: Opcode, word: Value) -> Iterator[Value]:
    """A bit per rule that the instruction in `word` (granules of `opcode`) breaks.

    Opcode and length are checked before the instruction is complete.
    """
    fmt = FORMATS[opcode]
    if fmt.granules * GRANULE_BITS > fmt.bits:
        yield word[fmt.bits : fmt.granules * GRANULE_BITS].any()
    # A signal, as each field that is read would repeat all of an expression.
    view = Signal(instruction_layout(opcode), name=f"checked_{opcode.name.lower()}")
    m.d.comb += view.eq(fields_in_order(opcode, word))
    yield from _fields(fmt, view)
    for broken, _ in rules(opcode, view, config):
        yield Value.cast(broken)


def _fields(fmt: InstructionFormat, view) -> Iterator[Value]:
    for item in fmt.items:
        if isinstance(item, Group):
            for element in range(item.count):
                for field in item.fields:
                    yield from field.broken(view[item.name][element][field.name])
        elif item.name not in _HEADER:
            yield from item.broken(view[item.name])
