"""Store engine: scratchpad to memory."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.activity import sequencer
from hw_gen.blocks.cut import Cut
from hw_gen.blocks.dma_bursts import BurstSplitter, burst_layout, lane_bits
from hw_gen.blocks.dma_index import IndexStage, refused
from hw_gen.blocks.dma_runs import RUN_BITS, RunStage
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.post_queue import PostQueue
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.blocks.store_reader import StoreReader, flight_layout
from hw_gen.interfaces import EngineStatus, Outside, axi_write, memory_regions, spad_read
from hw_gen.layouts import INDEX_BITS, PostStream, WaitPort, instruction_stream
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.isa import Opcode, Point
from spec.memmap import Fault, Stall
from spec.optional import absent_fields

POINTS = (Point.DONE, Point.READ)
_DONE, _READ = range(len(POINTS))


class StoreEngine(wiring.Component):
    """Executes STORE instructions.

    Members
    -------
    i : ``In(instruction_stream)``. regions : ``In(memory_regions(config))``.
    axi : AW, W and B channels, id 0.
    spad, index : reads of data and, where the configuration has them, of indices.
    wait, post_done, post_read : semaphores; DONE leaves after the write response, READ when the
        scratchpad has been read.
    w_bytes : bytes that memory took in this cycle.
    halt : a fault happened somewhere: request nothing more; bursts that were requested are
        finished without strobes. Left by reset only. Own faults act like it.
    status : `EngineStatus`. outside : the run behind a fault OUTSIDE_REGION.

    Timing: an AW and a W beat a cycle, also when every burst is one beat; up to
    ``config.outstanding`` bursts in flight.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        self._absent = absent_fields(config, Opcode.STORE)
        index = {"index": Out(spad_read(config))} if config.indexed_dma else {}
        super().__init__(
            {
                "i": In(instruction_stream(Opcode.STORE, self._absent)),
                "axi": Out(axi_write(config)),
                "regions": In(memory_regions(config)),
                "spad": Out(spad_read(config, flight_layout(config), lanes=True)),
                **index,
                "wait": Out(WaitPort),
                "post_done": Out(PostStream),
                "post_read": Out(PostStream),
                "w_bytes": Out(range(config.bus_bytes + 1)),
                "halt": In(1),
                "status": Out(EngineStatus),
                "outside": Out(Outside),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        seq = Sequencer(
            Opcode.STORE,
            {"mem": "mem_base", "chip": "chip_base"},
            post_points=POINTS,
            without=self._absent,
        )
        m.submodules.seq = sequencer(m, platform, seq, "store_seq")
        m.submodules.runs = runs = RunStage(config, Opcode.STORE, seq.step_layout)
        m.submodules.split = split = BurstSplitter(config, run_bits=RUN_BITS, tag=runs.tag)
        m.submodules.reader = reader = StoreReader(config, runs.tag)
        m.submodules.done = done = PostQueue(config.outstanding)
        m.submodules.read = read = PostQueue(config.outstanding)
        connect(m, flipped(self.i), seq.i)
        connect(m, seq.o, runs.i)
        connect(m, flipped(self.regions), runs.regions)
        connect(m, seq.post[_DONE], done.i)
        connect(m, seq.post[_READ], read.i)
        connect(m, seq.wait, flipped(self.wait))
        connect(m, done.o, flipped(self.post_done))
        connect(m, read.o, flipped(self.post_read))
        connect(m, reader.spad, flipped(self.spad))
        m.d.comb += [
            runs.instr.eq(seq.instr),
            runs.index.eq(seq.index),
            read.fire.eq(reader.fire),
        ]
        halted = Signal()
        indices, waiting = self._indices(m, platform, runs, split, halted)
        # A run that an index led outside is in `split` when it is known.
        refusal = Const(0, 1) if indices is None else indices.outside
        pending = self._issue(m, split.o, reader, halted, refusal)
        self._write(m, reader)
        bad, bad_index = self._respond(m, pending, done)
        self._faults(m, runs, indices, bad, bad_index, halted)
        m.d.comb += reader.halt.eq(halted)
        empty = (
            runs.empty & ~waiting & split.empty & reader.empty & ~self.axi.awvalid & pending.empty
        )
        self._status(m, seq, reader, empty, done.empty & read.empty, ~pending.empty)
        return m

    def _indices(
        self, m: Module, platform, runs: RunStage, split: BurstSplitter, halted: Value
    ) -> tuple[IndexStage | None, Value]:
        """Runs get their indices, where the configuration has any. Returns: some wait here."""
        if not self._config.indexed_dma:
            if not asks_for(platform, "for_fpga"):
                connect(m, runs.o, split.i)
                return None, Const(0, 1)
            m.submodules.ready = ready = Cut(runs.o.payload.shape())
            connect(m, runs.o, ready.i)
            connect(m, ready.o, split.i)
            return None, ~ready.empty
        m.submodules.indices = indices = IndexStage(self._config, runs.tag)
        connect(m, runs.o, indices.i)
        connect(m, indices.o, split.i)
        connect(m, indices.spad, flipped(self.index))
        indices.follow(m, runs, halted)
        return indices, ~indices.empty

    def _faults(
        self,
        m: Module,
        runs: RunStage,
        indices: IndexStage | None,
        bad: Value,
        bad_index: Value,
        halted: Signal,
    ) -> None:
        stopped = Signal()
        status = self.status
        m.d.comb += [
            halted.eq(self.halt | stopped),
            status.fault.eq((bad | refused(m, status, self.outside, runs, indices)) & ~halted),
        ]
        with m.If(bad):
            m.d.comb += [status.cause.eq(Fault.AXI_ERROR), status.fault_index.eq(bad_index)]
        with m.If(status.fault):
            m.d.sync += stopped.eq(1)

    def _issue(self, m: Module, bursts, reader: StoreReader, halted: Value, refusal: Value):
        """Each burst goes to AW, to the reader, and to the queue that awaits responses.

        refusal : the burst is of a run that is a fault, and goes nowhere.
        """
        burst, axi = bursts.payload, self.axi
        layout = burst_layout(self._config, burst.tag.shape())
        m.submodules.reads = reads = Fifo(layout, depth=16)
        m.submodules.pending = pending = Fifo(1 + INDEX_BITS, depth=self._config.outstanding)
        connect(m, reads.o, reader.i)
        may, go = Signal(), Signal()
        lanes = lane_bits(self._config)
        fires = burst.last & burst.tag.fires[_DONE]
        m.d.comb += [
            may.eq(reads.i.ready & pending.i.ready & (~axi.awvalid | axi.awready) & ~halted),
            bursts.ready.eq(may),
            go.eq(bursts.valid & may & ~refusal),
            reads.i.valid.eq(go),
            reads.i.payload.eq(burst),
            pending.i.valid.eq(go),
            pending.i.payload.eq(Cat(burst.tag.index, fires)),
            axi.awid.eq(0),
            axi.awsize.eq(lanes),
            axi.awburst.eq(1),
        ]
        with m.If(go):
            m.d.sync += [
                axi.awvalid.eq(1),
                axi.awaddr.eq(Cat(Const(0, lanes), burst.addr[lanes:])),
                axi.awlen.eq(burst.len),
            ]
        with m.Elif(axi.awready):
            m.d.sync += axi.awvalid.eq(0)
        return pending

    def _write(self, m: Module, reader: StoreReader) -> None:
        axi, beat = self.axi, reader.o.payload
        m.d.comb += [
            axi.wvalid.eq(reader.o.valid),
            axi.wdata.eq(beat.data),
            axi.wstrb.eq(beat.strobe),
            axi.wlast.eq(beat.last),
            reader.o.ready.eq(axi.wready),
        ]
        with m.If(axi.wvalid & axi.wready):
            m.d.comb += self.w_bytes.eq(beat.size)

    def _respond(self, m: Module, pending, done: PostQueue):
        """Responses come in order; returns: one is an error, and its instruction."""
        taken = Signal()
        bad = Signal()
        m.d.comb += [
            self.axi.bready.eq(pending.o.valid),
            pending.o.ready.eq(self.axi.bvalid),
            taken.eq(self.axi.bvalid & pending.o.valid),
            bad.eq(taken & self.axi.bresp.any()),
            done.fire.eq(taken & ~bad & pending.o.payload[-1]),
        ]
        return bad, pending.o.payload[:-1]

    def _status(self, m: Module, seq, reader, empty, posted, unanswered) -> None:
        axi, status = self.axi, self.status
        moved = (axi.wvalid & axi.wready) | (axi.awvalid & axi.awready) | reader.took
        with m.If(moved):
            m.d.comb += status.stall.eq(Stall.BUSY)
        with m.Elif(reader.blocked):
            m.d.comb += status.stall.eq(Stall.BANK)
        with m.Elif(seq.waiting):
            m.d.comb += status.stall.eq(Stall.SEMAPHORE)
        with m.Elif(unanswered):
            m.d.comb += status.stall.eq(Stall.MEMORY)
        with m.Elif(seq.active | ~empty | ~posted):
            m.d.comb += status.stall.eq(Stall.PIPELINE)
        with m.Else():
            m.d.comb += status.stall.eq(Stall.IDLE)
        m.d.comb += [
            status.index.eq(seq.index),
            status.idle.eq(~self.i.valid & ~seq.active & empty & posted),
            status.rests.eq(status.idle | (seq.waiting & empty & posted)),
        ]
