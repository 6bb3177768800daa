"""A step of a LOAD or STORE becomes a run of bytes with absolute, checked addresses."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from hw_gen.blocks.adders import fast_difference, fast_sum, sum_exceeds
from hw_gen.blocks.dma_bursts import lane_bits, run_layout
from hw_gen.blocks.dma_extent import extent_layout
from hw_gen.interfaces import memory_regions
from hw_gen.layouts import INDEX_BITS, engine_layout, field_shape
from spec.config import NpuConfig
from spec.exhaustive import exhaustive
from spec.isa import CHIP_BITS, FORMATS, INDEX_BYTES, MEM_BITS, Opcode, Space
from spec.memmap import LIMIT_BITS
from spec.optional import absent_fields

RUN_BITS = FORMATS[Opcode.LOAD].field("run").bits
"""Width of a run's length in an instruction."""

FILL = field_shape(Opcode.LOAD, "fill_value")


def tag_layout(fires: int) -> data.StructLayout:
    """What goes with every run: posts that it completes, instruction, destination, fill; and
    whether a wait or a new instruction lies before it, so that memory may have changed (`apart`).
    """
    return data.StructLayout(
        {"fires": fires, "index": INDEX_BITS, "space": Space, "fill": 1, "value": FILL, "apart": 1}
    )


class RunStage(wiring.Component):
    """One register between sequencer and what makes bursts (LoadRequests, BurstSplitter).

    Parameters
    ----------
    opcode : LOAD or STORE.
    step : shape of the sequencer's steps, with ``mem``, ``chip``, ``fires``.

    Members
    -------
    i : ``In(stream)`` of steps of the instruction ``instr`` with index ``index``.
    regions : ``In(memory_regions(config))``.
    o : ``Out(stream)`` of `run_layout` with `tag_layout`. Fills have their chip address as `addr`.
    indexed, fresh, at : the run's address lacks an index; the run is the first of its iteration of
        loop 0; where the index of that iteration is in the scratchpad.
    extent : where the run lies in its region, less its index. behind : runs before this one are
        still to be checked against their regions; what is wrong with it is reported after that.
    fault, fault_index : the run held here, or its index, does not lie in the on-chip memory it is
        for, or (PARAM, TABLE) it has another alignment in memory than on chip, or (``outside``,
        runs without an index) it does not lie in its region; it is never passed on.
    empty : no run is held.
    """

    def __init__(self, config: NpuConfig, opcode: Opcode, step: data.StructLayout):
        self._config = config
        self._opcode = opcode
        self.tag = tag_layout(Shape.cast(step["fires"].shape).width)
        super().__init__(
            {
                "i": In(stream.Signature(step)),
                "instr": In(engine_layout(opcode, absent_fields(config, opcode))),
                "index": In(INDEX_BITS),
                "regions": In(memory_regions(config)),
                "o": Out(stream.Signature(run_layout(config, RUN_BITS, self.tag))),
                "indexed": Out(1),
                "fresh": Out(1),
                "at": Out(CHIP_BITS),
                "extent": Out(extent_layout()),
                "behind": In(1),
                "fault": Out(1),
                "outside": Out(1),
                "fault_index": Out(INDEX_BITS),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        run = Signal(self.o.payload.shape(), reset_less=True)
        valid, bad = Signal(), Signal()
        misplaced, left = Signal(), Signal()
        step, instr = self.i.payload, self.instr
        base, limit = Signal(self._config.axi_addr_bits), Signal(MEM_BITS + 1)
        # A region that there is not is no legal instruction.
        with m.Switch(instr.region[: ceil_log2(self._config.regions)]):
            for region in range(self._config.regions):
                with m.Case(region):
                    m.d.comb += [
                        base.eq(self.regions.base[region]),
                        limit.eq(self.regions.limit[region]),
                    ]
        m.d.comb += [
            self.i.ready.eq(~valid | (self.o.valid & self.o.ready)),
            bad.eq(
                misplaced
                | left
                | (self.indexed & (self.at > self._config.spad_bytes - INDEX_BYTES))
            ),
            self.outside.eq(left & ~misplaced),
            self.o.valid.eq(valid & ~bad),
            self.o.payload.eq(run),
            self.fault.eq(valid & bad & ~self.behind),
            self.fault_index.eq(run.tag.index),
            self.empty.eq(~valid),
        ]
        # Signed: from below the base, an index may lead back into the region.
        reach = Cat(step.mem, step.mem[-1].replicate(len(base)))[: len(base)]
        addr = fast_sum(m, platform, "addr", base, reach)
        off_chip = self._off_chip(m, platform, addr)
        leaves_region = self._leaves_region(m, platform, limit)
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
            with m.If(self.i.valid):
                if self._config.indexed_dma:
                    self._index(m)
                m.d.sync += [
                    misplaced.eq(off_chip),
                    left.eq(leaves_region),
                    self.extent.region.eq(instr.region),
                    self.extent.offset.eq(step.mem),
                    run.addr.eq(addr),
                    run.chip.eq(step.chip),
                    run.bytes.eq(instr.run),
                    run.tag.fires.eq(step.fires),
                    run.tag.index.eq(self.index),
                    run.tag.space.eq(Space.SPAD),
                ]
                if self._opcode is Opcode.LOAD:
                    m.d.sync += [
                        run.tag.space.eq(instr.space),
                        run.tag.fill.eq(instr.fill),
                        run.tag.value.eq(instr.fill_value),
                        run.tag.apart.eq(step.first | step.waits),
                    ]
                    with m.If(instr.fill):
                        m.d.sync += run.addr.eq(step.chip)
        if self._config.indexed_dma:
            self._room(m, platform, run.bytes)
        return m

    def _index(self, m: Module) -> None:
        """Where the index of the next run lies; within the `If` that takes its step."""
        step, instr = self.i.payload, self.instr
        m.d.sync += self.indexed.eq(instr.indexed)
        with m.If(instr.indexed):
            fresh = step.at_first[1:].all()
            following = self.at + (fresh << exact_log2(INDEX_BYTES))
            m.d.sync += [
                self.fresh.eq(fresh),
                self.at.eq(Mux(step.first, instr.index_base, following)),
            ]

    def _leaves_region(self, m: Module, platform, limit: Value) -> Value:
        """Whether the run that comes does not lie in its region; an index is still to be added."""
        instr, exempt = self.instr, Const(0, 1)
        if self._opcode is Opcode.LOAD:
            exempt = exempt | instr.fill
        if self._config.indexed_dma:
            exempt = exempt | instr.indexed
        return sum_exceeds(m, platform, "mem_end", self.i.payload.mem, instr.run, limit) & ~exempt

    def _room(self, m: Module, platform, run: Value) -> None:
        """The last offset at which the run fits in its region, for `IndexStage`."""
        limit = Signal(LIMIT_BITS + 1)
        with m.Switch(self.extent.region):
            for region in range(self._config.regions):
                with m.Case(region):
                    m.d.comb += limit.eq(self.regions.limit[region])
        run = Cat(run, Const(0, len(limit)))[: len(limit)]
        m.d.comb += self.extent.room.eq(fast_difference(m, platform, "room", limit, run))

    def _off_chip(self, m: Module, platform, addr: Value) -> Value:
        """Whether the run that comes does not lie in the on-chip memory that it is for, or has
        another alignment than in memory where it must not."""
        config, chip, instr = self._config, self.i.payload.chip, self.instr
        sizes = exhaustive(
            "hw_gen.blocks.dma_runs",
            Space,
            {
                Space.SPAD: config.spad_bytes,
                Space.PARAM: config.param_bytes,
                Space.TABLE: config.table_bytes,
            },
            without=[Space.ACC],
        )
        limit, skewed = Signal(CHIP_BITS + 1), Const(0, 1)
        if self._opcode is Opcode.STORE:
            m.d.comb += limit.eq(config.spad_bytes)
        else:
            with m.Switch(instr.space):
                for space, size in sizes.items():
                    with m.Case(space):
                        m.d.comb += limit.eq(size)
            low = slice(0, lane_bits(config))
            skewed = (addr[low] != chip[low]) & (instr.space != Space.SPAD) & ~instr.fill
        return sum_exceeds(m, platform, "chip_end", chip, instr.run, limit) | skewed
