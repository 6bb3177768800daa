"""A queue of instructions for FPGAs: parts of them in a narrow memory, the oldest in registers."""

from collections.abc import Sequence

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.instruction_queue import item_layout, item_of, moved_instruction
from hw_gen.blocks.repeat import moved_layout
from hw_gen.blocks.sram import Sram
from hw_gen.layouts import (
    INDEX_BITS,
    OPCODE_BITS,
    instruction_stream,
    loops_in_granules,
    selected,
)
from spec.isa import FORMATS, GRANULE_BITS, Opcode

_IN_DECODER = 2
"""Instructions that are written here before they are handed over: one that the decoder checks, and
one of which granules come."""


PART_BITS = 64
_PARTS = GRANULE_BITS // PART_BITS
"""Of a granule: as wide as two block RAMs, and half as many wires to six queues."""


def granules() -> wiring.Signature:
    """Granules of an instruction as they come; `last` is its last one. One is taken with valid and
    ready.
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "ready": In(1),
            "data": Out(GRANULE_BITS),
            "kind": Out(OPCODE_BITS),
            "last": Out(1),
        }
    )


def parts() -> wiring.Signature:
    """Parts of a granule, the lowest one first; `last` is the last one of an instruction."""
    return wiring.Signature(
        {"valid": Out(1), "data": Out(PART_BITS), "kind": Out(OPCODE_BITS), "last": Out(1)}
    )


class Parts(wiring.Component):
    """Granules become parts, the first of them in the next cycle.

    Members
    -------
    i : ``In(granules())``. o : ``Out(parts())``.
    drop : what came by now is not wanted.
    """

    def __init__(self):
        super().__init__({"i": In(granules()), "o": Out(parts()), "drop": In(1)})

    def elaborate(self, platform):
        m = Module()
        more, last = Signal(range(_PARTS)), Signal()
        rest = Signal(GRANULE_BITS - PART_BITS, reset_less=True)
        m.d.comb += [
            self.i.ready.eq(more == 0),
            self.o.last.eq(last & (more == 0)),
        ]
        with m.If(more == 0):
            m.d.sync += [
                self.o.valid.eq(self.i.valid),
                self.o.kind.eq(self.i.kind),
                last.eq(self.i.last),
                Cat(self.o.data, rest).eq(self.i.data),
            ]
            with m.If(self.i.valid):
                m.d.sync += more.eq(_PARTS - 1)
        with m.Else():
            m.d.sync += [Cat(self.o.data, rest).eq(rest), more.eq(more - 1)]
        with m.If(self.drop):
            m.d.sync += [self.o.valid.eq(0), more.eq(0)]
        return m


def handed_over(names: Sequence[str]) -> data.StructLayout:
    """What is not in the granules: the index, and the addresses of `names` for this time."""
    moved = {f"a{n}": moved_layout()[f"a{n}"].shape for n in range(len(names))}
    return data.StructLayout({"index": INDEX_BITS, **moved})


class NarrowQueue(wiring.Component):
    """Up to `depth` instructions of `opcode`, as `InstructionQueue` offers them.

    An FPGA has block RAMs that are hundreds of words deep and half a granule wide in two, and more
    registers than a design of tables uses. So parts of granules are written as they come, and read
    one by one into registers once the instruction before is gone.

    Parameters
    ----------
    displaced : fields of addresses that displacements are added to.

    Members
    -------
    parts : ``In(parts())``; those of other opcodes are left alone.
    drop : instructions that were not handed over by now will not come.
    i : ``In(stream)`` of `handed_over`: the oldest instruction that came is legal, and is to be
        executed.
    o, empty : as of an `InstructionQueue`.

    Timing: an instruction is offered three cycles and two a granule after it was handed over, or
    after the one before was taken.
    """

    def __init__(
        self, opcode: Opcode, without: frozenset[str], *, depth: int, displaced: Sequence[str]
    ):
        self._opcode = opcode
        self._without = without
        self._depth = depth
        self._displaced = tuple(displaced)
        super().__init__(
            {
                "parts": In(parts()),
                "drop": In(1),
                "i": In(stream.Signature(handed_over(displaced))),
                "o": Out(instruction_stream(opcode, without)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = FORMATS[self._opcode].granules * _PARTS
        slot_bits = ceil_log2(self._depth + _IN_DECODER)
        number_bits = ceil_log2(count)
        m.submodules.handed = handed = Fifo(handed_over(self._displaced), depth=self._depth)
        m.submodules.items = items = Sram(depth=1 << slot_bits + number_bits, width=PART_BITS)
        # Slots of the memory: where parts go, up to which instructions were handed over, and which
        # is read next.
        into, upto, oldest = Signal(slot_bits), Signal(slot_bits), Signal(slot_bits)
        came, at = Signal(), Signal(number_bits)
        m.d.comb += [
            came.eq(self.parts.valid & (self.parts.kind == self._opcode)),
            items.w_en.eq(came),
            items.w_addr.eq(Cat(at, into)),
            items.w_data.eq(self.parts.data),
            handed.i.valid.eq(self.i.valid),
            handed.i.payload.eq(self.i.payload),
            self.i.ready.eq(handed.i.ready),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += upto.eq(upto + 1)
        with m.If(self.drop):
            m.d.sync += [into.eq(upto), at.eq(0)]
        with m.Elif(came):
            m.d.sync += at.eq(Mux(self.parts.last, 0, at + 1))
            with m.If(self.parts.last):
                m.d.sync += into.eq(into + 1)
        word, loaded, arrives = self._read(m, items, count, oldest, upto)
        if loops := loops_in_granules(self._opcode):
            self._offer_loops(m, items, loops, *arrives)
        item = self._item(m, word, handed.o.payload)
        rest = Signal.like(item.rest, name="rest", reset_less=True)
        taken = Signal()
        m.d.comb += [
            self.o.valid.eq(loaded & handed.o.valid),
            self.o.start.eq(item.start),
            self.o.rest.eq(rest),
            taken.eq(self.o.valid & self.o.ready),
            handed.o.ready.eq(taken),
            self.empty.eq(handed.empty),
        ]
        with m.If(taken):
            m.d.sync += [rest.eq(item.rest), loaded.eq(0)]
        return m

    def _read(self, m: Module, items: Sram, count: int, oldest: Signal, upto: Signal):
        """The oldest instruction, read part by part, whether it is there, and whether a part has
        been read, which one.
        """
        word, loaded = Signal(count * PART_BITS, reset_less=True), Signal()
        reads, number = Signal(), Signal(range(count))
        arrives, arrived = Signal(), Signal(range(count), reset_less=True)
        m.d.comb += [
            items.r_en.eq(reads),
            items.r_addr.eq(Cat(number, oldest)),
        ]
        m.d.sync += [arrives.eq(reads), arrived.eq(number)]
        with m.If(reads):
            with m.If(number == count - 1):
                m.d.sync += [reads.eq(0), number.eq(0), oldest.eq(oldest + 1)]
            with m.Else():
                m.d.sync += number.eq(number + 1)
        with m.Elif(~loaded & ~arrives & (oldest != upto)):
            m.d.sync += reads.eq(1)
        with m.If(arrives):
            m.d.sync += word.word_select(arrived, PART_BITS).eq(items.r_data)
            m.d.sync += loaded.eq(arrived == count - 1)
        return word, loaded, (arrives, arrived)

    def _offer_loops(self, m: Module, items: Sram, loops, arrives: Value, arrived: Value) -> None:
        """Each loop with the part that completes it. All end at the same bit of a granule.

        loops : see `loops_in_granules`.
        """
        begin, whole = loops
        first, low = divmod(begin, GRANULE_BITS)
        assert low, "loops that begin with a granule end with it"
        part, bits = divmod(low - 1, PART_BITS)
        here = bits + 1  # bits of a loop in the part that completes it
        before = Signal(GRANULE_BITS - here, reset_less=True)
        with m.If(arrives):
            m.d.sync += before.eq(Cat(before, items.r_data)[PART_BITS:])
        loop, entries = Signal(whole, name="loop"), self.o.entries
        granule, of_granule = arrived[exact_log2(_PARTS) :], arrived[: exact_log2(_PARTS)]
        m.d.comb += [
            loop.eq(Cat(before, items.r_data[:here])),
            entries.valid.eq(arrives & (granule > first) & (of_granule == part)),
            entries.level.eq(granule - first - 1),
            entries.payload.eq(selected(entries.payload.shape(), loop)),
        ]

    def _item(self, m: Module, word: Signal, handed):
        addresses = {name: handed[f"a{n}"] for n, name in enumerate(self._displaced)}
        moved = moved_instruction(m, self._opcode, word, addresses)
        item = Signal(item_layout(self._opcode, self._without), name="item")
        m.d.comb += item.eq(item_of(self._opcode, self._without, moved, handed.index))
        return item
