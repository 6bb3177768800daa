"""A queue of instructions whose memory also holds the one that is being executed."""

from collections.abc import Mapping

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.sram import Sram
from hw_gen.layouts import (
    STREAM_FIELDS,
    fields_in_order,
    instruction_layout,
    instruction_stream,
    rest_layout,
    selected,
    start_layout,
)
from spec.isa import Opcode, Point


def item_layout(opcode: Opcode, without: frozenset[str]) -> data.StructLayout:
    """What goes into an `InstructionQueue`."""
    return data.StructLayout(
        {"start": start_layout(opcode, without), "rest": rest_layout(opcode, without)}
    )


def item_of(opcode: Opcode, without: frozenset[str], instruction: Signal, index: Value) -> Value:
    """The item of an instruction of which all fields are known.

    MATRIX has two sequencers, and a wait holds back one of them.
    """
    begins = selected(start_layout(opcode, without)["instr"].shape, instruction)
    of_weights = without >= STREAM_FIELDS
    waits = [
        (slot.amount != 0) & ((slot.point == Point.WEIGHTS) == of_weights)
        for slot in instruction.wait
    ]
    posts = [slot.amount != 0 for slot in instruction.post]
    return Cat(begins, *waits, *posts, index, selected(rest_layout(opcode, without), instruction))


def moved_instruction(
    m: Module, opcode: Opcode, word: Value, addresses: Mapping[str, Value]
) -> Signal:
    """The instruction in `word`, with other values of some fields."""
    layout = instruction_layout(opcode)
    word = word[: layout.size]
    for name, address in addresses.items():
        low, width = layout[name].offset, layout[name].width
        word = Cat(word[:low], address[:width], word[low + width :])
    # A signal, as each field that is read would repeat all of an expression.
    moved = Signal(layout, name=f"{opcode.name.lower()}_word")
    m.d.comb += moved.eq(fields_in_order(opcode, word))
    return moved


class InstructionQueue(wiring.Component):
    """Up to `depth` instructions of `opcode`. `name` tells queues apart.

    What a sequencer needs to begin with an instruction (`start_layout`) is offered. All else is in
    a second memory, which is read when the instruction is taken, and whose output stays until the
    next one is: no register has to hold it.

    Members
    -------
    i : ``In(stream)`` of `item_layout`. o : ``Out(instruction_stream)``.
    empty : nothing is offered, or will be.

    Timing: an instruction a cycle, offered two cycles after it came.
    """

    def __init__(self, opcode: Opcode, without: frozenset[str], *, depth: int, name: str):
        self._start = start_layout(opcode, without)
        self._rest = rest_layout(opcode, without)
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(item_layout(opcode, without))),
                "o": Out(instruction_stream(opcode, without)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.starts = starts = Fifo(self._start, depth=self._depth)
        items = Sram(depth=self._depth, width=Shape.cast(self._rest).width)
        came, taken = Signal(), Signal()
        m.submodules.items = items
        m.d.comb += [
            starts.i.valid.eq(self.i.valid),
            starts.i.payload.eq(self.i.payload.start),
            self.i.ready.eq(starts.i.ready),
            self.o.valid.eq(starts.o.valid),
            self.o.start.eq(starts.o.payload),
            starts.o.ready.eq(self.o.ready),
            came.eq(self.i.valid & self.i.ready),
            taken.eq(self.o.valid & self.o.ready),
            items.w_en.eq(came),
            items.w_data.eq(self.i.payload.rest),
            items.r_en.eq(taken),
            Value.cast(self.o.rest).eq(items.r_data),
            self.empty.eq(starts.empty),
        ]
        # At most `depth` instructions wait, the offered one included: none is written over.
        for address, step in ((items.w_addr, came), (items.r_addr, taken)):
            at = Signal.like(address)
            m.d.comb += address.eq(at)
            with m.If(step):
                m.d.sync += at.eq(Mux(at == self._depth - 1, 0, at + 1))
        return m
