"""Load engine: memory to scratchpad, parameter memory and TABLE, and fills."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.activity import sequencer
from hw_gen.blocks.counting import count
from hw_gen.blocks.cut import Cut
from hw_gen.blocks.dma_bursts import lane_bits
from hw_gen.blocks.dma_index import IndexStage, refused
from hw_gen.blocks.dma_runs import RunStage
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.load_requests import LoadRequests
from hw_gen.blocks.load_writer import LoadWriter
from hw_gen.blocks.post_queue import PostQueue
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.interfaces import (
    EngineStatus,
    Outside,
    axi_read,
    memory_regions,
    spad_read,
    spad_write,
    table_write,
)
from hw_gen.layouts import PostStream, WaitPort, instruction_stream
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.isa import Opcode
from spec.memmap import Fault, Stall
from spec.optional import absent_fields

READ_ID = 1


class LoadEngine(wiring.Component):
    """Executes LOAD instructions.

    Members
    -------
    i : ``In(instruction_stream)``. regions : ``In(memory_regions(config))``.
    axi : AR and R channels, id 1.
    spad, param, table : where the bytes go.
    index : reads of indices, where the configuration has them.
    wait, post : semaphores.
    halt : a fault happened somewhere: request nothing more, write nothing more, take what was
        requested. Left by reset only. Own faults act like it.
    status : `EngineStatus`. outside : the run behind a fault OUTSIDE_REGION.

    Timing: an AR, a run and a write a cycle, also when every burst is one beat; up to
    ``config.outstanding`` bursts in flight, for up to twice as many runs, and no burst more once
    these have ``config.words_in_flight`` words. Runs of one instruction that share bus words, or
    lie in successive ones, fetch each word once. A post leaves after the memory took the last byte.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        self._absent = absent_fields(config, Opcode.LOAD)
        index = {"index": Out(spad_read(config))} if config.indexed_dma else {}
        super().__init__(
            {
                "i": In(instruction_stream(Opcode.LOAD, self._absent)),
                "axi": Out(axi_read(config)),
                "regions": In(memory_regions(config)),
                "spad": Out(spad_write(config)),
                **index,
                "param": Out(table_write(config)),
                "table": Out(table_write(config)),
                "wait": Out(WaitPort),
                "post": Out(PostStream),
                "halt": In(1),
                "status": Out(EngineStatus),
                "outside": Out(Outside),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        seq = Sequencer(Opcode.LOAD, {"mem": "mem_base", "chip": "chip_base"}, without=self._absent)
        m.submodules.seq = sequencer(m, platform, seq, "load_seq")
        m.submodules.runs = runs = RunStage(config, Opcode.LOAD, seq.step_layout)
        m.submodules.requests = requests = LoadRequests(config, runs.tag)
        m.submodules.writer = writer = LoadWriter(config, runs.tag)
        m.submodules.posts = posts = PostQueue(config.outstanding)
        connect(m, flipped(self.i), seq.i)
        connect(m, seq.o, runs.i)
        connect(m, flipped(self.regions), runs.regions)
        connect(m, seq.post[0], posts.i)
        connect(m, seq.wait, flipped(self.wait))
        connect(m, posts.o, flipped(self.post))
        for name in ("spad", "param", "table"):
            connect(m, getattr(writer, name), flipped(getattr(self, name)))
        m.d.comb += [
            runs.instr.eq(seq.instr),
            runs.index.eq(seq.index),
            posts.fire.eq(writer.fire),
        ]
        halted = Signal()
        indices, waiting = self._indices(m, platform, runs, requests, halted)
        self._faults(m, runs, indices, writer, halted)
        self._issue(m, platform, requests.bursts, halted)
        queued = self._queue(m, requests.copies, writer.i)
        self._receive(m, writer, halted)
        requested = self.axi.arvalid & self.axi.arready
        waiting_ar = self.axi.arvalid & ~self.axi.arready
        empty = runs.empty & ~waiting & requests.empty & ~queued & writer.empty & ~self.axi.arvalid
        with m.If(writer.wrote | requested):
            m.d.comb += self.status.stall.eq(Stall.BUSY)
        with m.Elif(writer.blocked):
            m.d.comb += self.status.stall.eq(Stall.BANK)
        with m.Elif(seq.waiting):
            m.d.comb += self.status.stall.eq(Stall.SEMAPHORE)
        with m.Elif(waiting_ar | writer.starved):
            m.d.comb += self.status.stall.eq(Stall.MEMORY)
        with m.Elif(seq.active | ~empty | ~posts.empty):
            m.d.comb += self.status.stall.eq(Stall.PIPELINE)
        with m.Else():
            m.d.comb += self.status.stall.eq(Stall.IDLE)
        m.d.comb += [
            self.status.index.eq(seq.index),
            self.status.idle.eq(~self.i.valid & ~seq.active & empty & posts.empty),
            self.status.rests.eq(self.status.idle | (seq.waiting & empty & posts.empty)),
        ]
        return m

    def _indices(
        self, m: Module, platform, runs: RunStage, requests: LoadRequests, halted: Value
    ) -> tuple[IndexStage | None, Value]:
        """Runs get their indices, where the configuration has any. Returns: some wait here."""
        indexed, far = self._config.indexed_dma, asks_for(platform, "for_fpga")
        if not indexed and not far:
            connect(m, runs.o, requests.i)
            return None, Const(0, 1)
        m.submodules.ready = ready = Cut(runs.o.payload.shape())
        connect(m, ready.o, requests.i)
        if not indexed:
            connect(m, runs.o, ready.i)
            return None, ~ready.empty
        m.submodules.indices = indices = IndexStage(self._config, runs.tag)
        connect(m, runs.o, indices.i)
        connect(m, indices.o, ready.i)
        connect(m, indices.spad, flipped(self.index))
        indices.follow(m, runs, halted)
        return indices, ~indices.empty | ~ready.empty

    def _faults(
        self,
        m: Module,
        runs: RunStage,
        indices: IndexStage | None,
        writer: LoadWriter,
        halted: Signal,
    ) -> None:
        """Report the first fault of this engine, and stop whatever is new (`halted`).

        A run that an index led outside is in `ready` when it is known: it is no burst before the
        cycle in which `stopped` holds those back.
        """
        stopped = Signal()
        status = self.status
        refusal = refused(m, status, self.outside, runs, indices)
        m.d.comb += [
            halted.eq(self.halt | stopped),
            writer.halt.eq(halted),
            status.fault.eq((writer.fault | refusal) & ~halted),
        ]
        with m.If(writer.fault):
            m.d.comb += [
                status.cause.eq(Fault.AXI_ERROR),
                status.fault_index.eq(writer.fault_index),
            ]
        with m.If(status.fault):
            m.d.sync += stopped.eq(1)

    def _issue(self, m: Module, platform, bursts, halted: Value) -> None:
        """Each burst goes to AR while there is room for it in flight."""
        burst, axi = bursts.payload, self.axi
        most = self._config.outstanding
        flying = Signal(range(most + 1))
        may, go, ended = Signal(), Signal(), Signal()
        full = self._words(m, burst.len, go)
        lanes = lane_bits(self._config)
        m.d.comb += [
            may.eq((flying != most) & ~full & (~axi.arvalid | axi.arready) & ~halted),
            bursts.ready.eq(may),
            go.eq(bursts.valid & may),
            ended.eq(axi.rvalid & axi.rready & axi.rlast),
            axi.arid.eq(READ_ID),
            axi.arsize.eq(lanes),
            axi.arburst.eq(1),
        ]
        count(m, platform, flying, go, ended)
        with m.If(go):
            m.d.sync += [
                axi.arvalid.eq(1),
                axi.araddr.eq(Cat(Const(0, lanes), burst.word)),
                axi.arlen.eq(burst.len),
            ]
        with m.Elif(axi.arready):
            m.d.sync += axi.arvalid.eq(0)

    def _words(self, m: Module, more: Value, go: Value) -> Value:
        """Counts the words in flight; `more`: of the burst that `go` sends, less one. Returns:
        there are enough.
        """
        most, burst = self._config.words_in_flight, self._config.max_burst
        if most == self._config.outstanding * burst:
            return Const(0)
        words, come = Signal(range(most + burst)), Signal()
        m.d.comb += come.eq(self.axi.rvalid & self.axi.rready)
        with m.If(go):
            m.d.sync += words.eq(words + more + ~come)
        with m.Elif(come):
            m.d.sync += words.eq(words - 1)
        # A power of two, and fewer than as many again.
        return words[most.bit_length() - 1 :].any()

    def _queue(self, m: Module, source, sink) -> Value:
        """Runs wait for their words, twice as many as bursts. Returns: some do."""
        depth = 2 * self._config.outstanding
        m.submodules.queue = queue = Fifo(source.payload.shape(), depth=depth, far=True)
        connect(m, source, queue.i)
        connect(m, queue.o, sink)
        return ~queue.empty

    def _receive(self, m: Module, writer: LoadWriter, halted: Value) -> None:
        """Two beats of buffer keep the scratchpad's grant off the bus's ready."""
        bus = 8 * self._config.bus_bytes
        m.submodules.beats = beats = Fifo(bus + 1, depth=2, latency=1)
        m.d.comb += [
            beats.i.valid.eq(self.axi.rvalid),
            beats.i.payload.eq(Cat(self.axi.rdata, self.axi.rresp.any())),
            self.axi.rready.eq(beats.i.ready | halted),
            writer.beat.valid.eq(beats.o.valid),
            writer.beat.payload.eq(beats.o.payload),
            beats.o.ready.eq(writer.beat.ready),
        ]
