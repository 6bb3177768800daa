"""A queue of instructions for FPGAs: granules in a narrow memory, the oldest in registers."""

from collections.abc import Sequence

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.instruction_queue import item_layout, item_of, moved_instruction
from hw_gen.blocks.repeat import MAX_GRANULES, moved_layout
from hw_gen.blocks.sram import Sram
from hw_gen.layouts import (
    INDEX_BITS,
    instruction_stream,
    loops_in_granules,
    selected,
)
from spec.isa import FORMATS, GRANULE_BITS, Opcode

_IN_DECODER = 2
"""Instructions that are written here before they are handed over: one that the decoder checks, and
one of which granules come."""


def granules() -> wiring.Signature:
    """Granules of an instruction as they come; `last` is its last one."""
    return wiring.Signature(
        {
            "valid": Out(1),
            "data": Out(GRANULE_BITS),
            "number": Out(range(MAX_GRANULES)),
            "last": Out(1),
        }
    )


def handed_over(names: Sequence[str]) -> data.StructLayout:
    """What is not in the granules: the index, and the addresses of `names` for this time."""
    moved = {f"a{n}": moved_layout()[f"a{n}"].shape for n in range(len(names))}
    return data.StructLayout({"index": INDEX_BITS, **moved})


class NarrowQueue(wiring.Component):
    """Up to `depth` instructions of `opcode`, as `InstructionQueue` offers them.

    An FPGA has block RAMs that are hundreds of words deep and a granule wide in four, and more
    registers than a design of tables uses. So granules are written as they come, and read one by
    one into registers once the instruction before is gone.

    Parameters
    ----------
    displaced : fields of addresses that displacements are added to.

    Members
    -------
    granules : ``In(granules())``, of instructions of this opcode.
    drop : instructions that were not handed over by now will not come.
    i : ``In(stream)`` of `handed_over`: the oldest instruction that came is legal, and is to be
        executed.
    o, empty : as of an `InstructionQueue`.

    Timing: an instruction is offered three cycles and one a granule after it was handed over, or
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
                "granules": In(granules()),
                "drop": In(1),
                "i": In(stream.Signature(handed_over(displaced))),
                "o": Out(instruction_stream(opcode, without)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = FORMATS[self._opcode].granules
        slot_bits = ceil_log2(self._depth + _IN_DECODER)
        number_bits = ceil_log2(count)
        m.submodules.handed = handed = Fifo(handed_over(self._displaced), depth=self._depth)
        m.submodules.items = items = Sram(depth=1 << slot_bits + number_bits, width=GRANULE_BITS)
        # Slots of the memory: where granules go, up to which instructions were handed over, and
        # which is read next.
        into, upto, oldest = Signal(slot_bits), Signal(slot_bits), Signal(slot_bits)
        came = granules().create(path=("came",))
        m.d.sync += [
            came.valid.eq(self.granules.valid & ~self.drop),
            came.data.eq(self.granules.data),
            came.number.eq(self.granules.number),
            came.last.eq(self.granules.last),
        ]
        m.d.comb += [
            items.w_en.eq(came.valid),
            items.w_addr.eq(Cat(came.number[:number_bits], into)),
            items.w_data.eq(came.data),
            handed.i.valid.eq(self.i.valid),
            handed.i.payload.eq(self.i.payload),
            self.i.ready.eq(handed.i.ready),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += upto.eq(upto + 1)
        with m.If(self.drop):
            m.d.sync += into.eq(upto)
        with m.Elif(came.valid & came.last):
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
        """The oldest instruction, read granule by granule, whether it is there, and whether a
        granule has been read, which one.
        """
        word, loaded = Signal(count * GRANULE_BITS, reset_less=True), Signal()
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
            m.d.sync += word.word_select(arrived, GRANULE_BITS).eq(items.r_data)
            m.d.sync += loaded.eq(arrived == count - 1)
        return word, loaded, (arrives, arrived)

    def _offer_loops(self, m: Module, items: Sram, loops, arrives: Value, arrived: Value) -> None:
        """Each loop with the granule that completes it. All begin at the same bit of a granule.

        loops : see `loops_in_granules`.
        """
        at, whole = loops
        first, low = divmod(at, GRANULE_BITS)
        assert low, "loops that begin with a granule end with it"
        before = Signal(GRANULE_BITS - low, reset_less=True)
        with m.If(arrives):
            m.d.sync += before.eq(items.r_data[low:])
        loop, entries = Signal(whole, name="loop"), self.o.entries
        m.d.comb += [
            loop.eq(Cat(before, items.r_data[:low])),
            entries.valid.eq(arrives & (arrived > first)),
            entries.level.eq(arrived - first - 1),
            entries.payload.eq(selected(entries.payload.shape(), loop)),
        ]

    def _item(self, m: Module, word: Signal, handed):
        addresses = {name: handed[f"a{n}"] for n, name in enumerate(self._displaced)}
        moved = moved_instruction(m, self._opcode, word, addresses)
        item = Signal(item_layout(self._opcode, self._without), name="item")
        m.d.comb += item.eq(item_of(self._opcode, self._without, moved, handed.index))
        return item
