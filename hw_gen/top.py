"""The NPU: submodules and their connections, nothing else."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.accumulator import Accumulator
from hw_gen.blocks.axi_read_mux import AxiReadMux
from hw_gen.blocks.axi_tracker import AxiTracker
from hw_gen.blocks.depthwise import DepthwiseEngine
from hw_gen.blocks.fetch import Fetch
from hw_gen.blocks.load import LoadEngine
from hw_gen.blocks.matrix import MatrixEngine
from hw_gen.blocks.registers import Registers
from hw_gen.blocks.scratchpad import Scratchpad
from hw_gen.blocks.semaphores import Semaphores
from hw_gen.blocks.spad_share import SpadShare
from hw_gen.blocks.store import StoreEngine
from hw_gen.blocks.vector import VectorEngine
from hw_gen.interfaces import axi_lite, axi_read, axi_write
from spec.config import NpuConfig
from spec.isa import Engine
from spec.memmap import Stall


class Npu(wiring.Component):
    """A whole NPU.

    Members
    -------
    read, write : the AXI4 manager's channels. control : ``In(axi_lite)``. irq : level interrupt.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "read": Out(axi_read(config)),
                "write": Out(axi_write(config)),
                "control": In(axi_lite),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        m.submodules.registers = regs = Registers(cfg)
        m.submodules.tracker = tracker = AxiTracker()
        reset = ResetInserter({"sync": regs.soft_reset})
        fetch, load, store = Fetch(cfg), LoadEngine(cfg), StoreEngine(cfg)
        matrix, vector = MatrixEngine(cfg), VectorEngine(cfg)
        mux, acc = AxiReadMux(cfg), Accumulator(cfg)
        share = SpadShare(cfg, 3)
        depthwise = [DepthwiseEngine(cfg)] if cfg.depthwise else []
        waits = [matrix.wait, matrix.wait_weights, vector.wait, load.wait, store.wait]
        waits += [engine.wait for engine in depthwise]
        posts = [
            (Engine.LOAD, load.post),
            (Engine.STORE, store.post_done),
            (Engine.STORE, store.post_read),
            (Engine.MATRIX, matrix.post_done),
            (Engine.MATRIX, matrix.post_read),
            (Engine.MATRIX, matrix.post_weights),
            (Engine.VECTOR, vector.post_done),
            (Engine.VECTOR, vector.post_read),
            *((Engine.DEPTHWISE, engine.post_done) for engine in depthwise),
            *((Engine.DEPTHWISE, engine.post_read) for engine in depthwise),
        ]
        reads = [matrix.act, matrix.wgt, *(engine.spad for engine in depthwise)]
        reads += [vector.a, vector.b, share.o]
        writes = [vector.out]
        sems = Semaphores(cfg, waiters=len(waits), posters=len(posts))
        spad = Scratchpad(cfg, reads=len(reads), writes=len(writes))
        for name, block in (
            ("fetch", fetch),
            ("load", load),
            ("store", store),
            ("matrix", matrix),
            *(("depthwise", engine) for engine in depthwise),
            ("vector", vector),
            ("read_mux", mux),
            ("accumulator", acc),
            ("share", share),
            ("scratchpad", spad),
        ):
            m.submodules[name] = reset(block)
        # A run starts with every semaphore at zero, whatever the run before it left.
        m.submodules.semaphores = ResetInserter({"sync": regs.soft_reset | regs.start})(sems)

        # Instructions, semaphores, scratchpad.
        for source, sink in (
            (fetch.o_load, load.i),
            (fetch.o_store, store.i),
            (fetch.o_matrix, matrix.i),
            (fetch.o_weights, matrix.i_weights),
            *((fetch.o_depthwise, engine.i) for engine in depthwise),
            (fetch.o_vector, vector.i),
            *zip(waits, sems.wait, strict=True),
            *zip((post for _, post in posts), sems.post, strict=True),
            (load.index, share.i[0]),
            (store.index, share.i[1]),
            (store.spad, share.i[2]),
            *zip(reads, spad.read, strict=True),
            *zip(writes, spad.write, strict=True),
            (load.param, vector.param_write),
            (load.spad, spad.posted),
            (load.table, vector.table_write),
            (vector.acc_r, acc.r),
            *((engine.acc, acc.depthwise) for engine in depthwise),
            (fetch.axi, mux.fetch),
            (load.axi, mux.load),
        ):
            connect(m, source, sink)
        connect(m, mux.o, flipped(self.read))
        connect(m, store.axi, flipped(self.write))
        connect(m, flipped(self.control), regs.axil)
        self._accumulator(m, matrix, vector, acc)
        self._control(m, regs, tracker, fetch, load, store, matrix, vector, *depthwise)
        self._events(m, regs, posts, load)
        m.d.comb += [
            regs.overflow.eq(sems.overflow),
            regs.overflow_index.eq(sems.overflow_index),
            matrix.clear.eq(regs.soft_reset),
        ]
        with m.Switch(sems.overflow_poster):
            for i, (engine, _) in enumerate(posts):
                with m.Case(i):
                    m.d.comb += regs.overflow_engine.eq(engine)
        return m

    def _accumulator(self, m: Module, matrix, vector, acc) -> None:
        m.d.comb += [
            acc.tag.eq(matrix.tag),
            acc.sums.eq(matrix.sums),
            matrix.done.eq(acc.done),
            vector.acc_data_valid.eq(acc.r_data_valid),
            vector.acc_data.eq(acc.r_data),
            acc.w_valid.eq(vector.acc_w_valid),
            vector.acc_w_ready.eq(acc.w_ready),
            acc.w_addr.eq(vector.acc_w_addr),
            acc.w_data.eq(vector.acc_w_data),
        ]

    def _events(self, m: Module, regs, posts, load) -> None:
        """Wires for rtl/event_trace.sv, which reads them by name; without it they cost nothing."""
        slots = 16
        assert len(Engine) <= slots // 2 and len(posts) <= slots
        event_run = Signal()
        event_read = Signal()
        event_stall = Signal(4 * slots // 2)
        event_index = Signal(20 * slots // 2)
        event_post = Signal(slots)
        event_post_engine = Signal(4 * slots)
        event_post_index = Signal(20 * slots)
        m.d.comb += [
            event_run.eq(regs.running),
            event_read.eq(load.axi.rvalid & load.axi.rready),
        ]
        for e in Engine:
            status = regs.engines[e]
            m.d.comb += [
                event_stall.word_select(int(e), 4).eq(status.stall),
                event_index.word_select(int(e), 20).eq(status.index),
            ]
        for i, (e, stream) in enumerate(posts):
            m.d.comb += [
                event_post[i].eq(stream.valid & stream.ready),
                event_post_engine.word_select(i, 4).eq(e),
                event_post_index.word_select(i, 20).eq(stream.payload.index),
            ]

    def _control(self, m: Module, regs, tracker, fetch, load, store, *engines) -> None:
        """Registers to engines and back, the AXI tracker, the interrupt."""
        matrix = engines[0]
        engines = (fetch, load, store, *engines)
        for absent in regs.engines[len(engines) :]:
            m.d.comb += [absent.idle.eq(1), absent.stall.eq(Stall.IDLE)]
        for engine, status in zip(engines, regs.engines, strict=False):
            connect(m, engine.status, status)
            m.d.comb += engine.halt.eq(regs.halt)
        for name in ("arvalid", "arready", "rvalid", "rready", "rlast"):
            m.d.comb += getattr(tracker, name).eq(getattr(self.read, name))
        for name in ("awvalid", "awready", "bvalid", "bready"):
            m.d.comb += getattr(tracker, name).eq(getattr(self.write, name))
        m.d.comb += [
            *(a.eq(b) for a, b in zip(load.bases, regs.bases, strict=True)),
            *(a.eq(b) for a, b in zip(store.bases, regs.bases, strict=True)),
            fetch.start.eq(regs.start),
            fetch.address.eq(regs.program_address),
            fetch.bytes.eq(regs.program_bytes),
            fetch.engines_idle.eq(Cat(e.status.idle for e in engines[1:]).all()),
            regs.done.eq(fetch.done),
            regs.vector.eq(matrix.vector),
            regs.read_beat.eq(self.read.rvalid & self.read.rready),
            regs.write_bytes.eq(store.w_bytes),
            regs.axi_busy.eq(tracker.busy),
            self.irq.eq(regs.irq),
        ]
