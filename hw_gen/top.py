"""The NPU: submodules and their connections, nothing else."""

from typing import Any

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.accumulator import Accumulator
from hw_gen.blocks.activity import ROOT, with_idle_clock
from hw_gen.blocks.axi_read_mux import AxiReadMux
from hw_gen.blocks.axi_tracker import AxiTracker
from hw_gen.blocks.depthwise import DepthwiseEngine
from hw_gen.blocks.dispatch import queues
from hw_gen.blocks.fetch import Fetch
from hw_gen.blocks.load import LoadEngine
from hw_gen.blocks.matrix import MatrixEngine
from hw_gen.blocks.registers import Registers
from hw_gen.blocks.scratchpad import Scratchpad
from hw_gen.blocks.semaphores import Semaphores
from hw_gen.blocks.soft_reset import SoftReset
from hw_gen.blocks.spad_share import SpadShare
from hw_gen.blocks.store import StoreEngine
from hw_gen.blocks.vector import VectorEngine
from hw_gen.events import event_wires
from hw_gen.interfaces import axi_lite, axi_read, axi_write, watch
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.exhaustive import exhaustive
from spec.isa import FORMATS, Engine
from spec.memmap import Stall

_FETCHED = 32
"""Cycles after which nothing in fetch changes any more while it waits for a queue."""
_ASKED = 16
"""Cycles after which nothing in the semaphores and in the registers changes unless they work."""


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
        self._platform = platform
        regs = Registers(cfg)
        m.submodules.registers = with_idle_clock(m, platform, regs, regs.works, "registers", _ASKED)
        if asks_for(platform, "idle_clocks"):
            m.domains += ClockDomain(ROOT)
            m.d.comb += [ClockSignal(ROOT).eq(ClockSignal()), ResetSignal(ROOT).eq(ResetSignal())]
        reset = SoftReset(m, platform, regs.soft_reset)
        fetch, clear = Fetch(cfg), reset.signal()
        works = Cat(~fetch.status.rests, clear, regs.halt).any()
        m.submodules.fetch = with_idle_clock(
            m, platform, reset.inserted(fetch, clear), works, "fetch", _FETCHED
        )
        engines = self._engines(m, reset, regs.halt)
        self._instructions(m, fetch, engines)
        posts = self._semaphores(m, reset, regs, engines)
        self._scratchpad(m, reset, engines)
        self._accumulator(m, reset, engines)
        self._bus(m, reset, regs, fetch, engines)
        self._control(m, reset, regs, {Engine.FETCH: fetch, **engines})
        load = engines[Engine.LOAD]
        event_wires(m, regs.running, load.axi.rvalid & load.axi.rready, regs.engines, posts)
        return m

    def _engines(self, m: Module, reset: SoftReset, halt: Value) -> dict[Engine, Any]:
        """Every engine of the configuration but fetch."""
        kinds = exhaustive(
            "hw_gen.top",
            Engine,
            {
                Engine.LOAD: LoadEngine,
                Engine.STORE: StoreEngine,
                Engine.MATRIX: MatrixEngine,
                Engine.DEPTHWISE: DepthwiseEngine,
                Engine.VECTOR: VectorEngine,
            },
            without=[Engine.FETCH],
        )
        if not self._config.depthwise:
            del kinds[Engine.DEPTHWISE]
        engines = {}
        for which, kind in kinds.items():
            engine, clear = kind(self._config), reset.signal()
            works = Cat(~engine.status.rests, clear, halt).any()
            if which is Engine.VECTOR:
                works = works | engine.param_write.valid | engine.table_write.valid
            name = which.name.lower()
            m.submodules[name] = with_idle_clock(
                m, self._platform, reset.inserted(engine, clear), works, name, self._settled
            )
            engines[which] = engine
        return engines

    @property
    def _settled(self) -> int:
        """Cycles after which nothing in an idle engine changes any more, and some."""
        return 32 + self._config.rows + self._config.cols

    def _instructions(self, m: Module, fetch: Fetch, engines: dict[Engine, Any]) -> None:
        """A queue for each sequencer; MATRIX has two of them."""
        for name, opcode in queues(self._config).items():
            engine = engines[FORMATS[opcode].engine]
            connect(
                m, getattr(fetch, f"o_{name}"), engine.i_weights if name == "weights" else engine.i
            )

    def _semaphores(self, m: Module, reset: SoftReset, regs: Registers, engines) -> list[tuple]:
        """Ports in the order of their priority; returns: (engine, stream of its posts)."""
        matrix, vector = engines[Engine.MATRIX], engines[Engine.VECTOR]
        load, store = engines[Engine.LOAD], engines[Engine.STORE]
        waits = [matrix.wait, matrix.wait_weights, vector.wait, load.wait, store.wait]
        posts = [
            (Engine.LOAD, load.post),
            (Engine.STORE, store.post_done),
            (Engine.STORE, store.post_read),
            (Engine.MATRIX, matrix.post_done),
            (Engine.MATRIX, matrix.post_read),
            (Engine.MATRIX, matrix.post_weights),
            (Engine.VECTOR, vector.post_done),
            (Engine.VECTOR, vector.post_read),
        ]
        if self._config.depthwise:
            depthwise = engines[Engine.DEPTHWISE]
            waits.append(depthwise.wait)
            posts.append((Engine.DEPTHWISE, depthwise.post_done))
            posts.append((Engine.DEPTHWISE, depthwise.post_read))
        # A run starts with every semaphore at zero, whatever the run before it left.
        posters = [engine for engine, _ in posts]
        sems = Semaphores(self._config, waiters=len(waits), posters=posters)
        clear = reset.signal(regs.program.start)
        m.submodules.semaphores = with_idle_clock(
            m, self._platform, reset.inserted(sems, clear), sems.works | clear, "semaphores", _ASKED
        )
        for source, sink in zip(waits, sems.wait, strict=True):
            connect(m, source, sink)
        for (_, source), sink in zip(posts, sems.post, strict=True):
            connect(m, source, sink)
        connect(m, sems.overflow, regs.overflow)
        return posts

    def _scratchpad(self, m: Module, reset: SoftReset, engines: dict[Engine, Any]) -> None:
        """Ports in the order of their priority. What LOAD brings goes before results, which have a
        queue to wait in.
        """
        matrix, vector = engines[Engine.MATRIX], engines[Engine.VECTOR]
        load, store = engines[Engine.LOAD], engines[Engine.STORE]
        last = self._shared(m, reset, load, store)
        reads = [matrix.act, *matrix.wgts]
        if self._config.depthwise:
            reads.append(engines[Engine.DEPTHWISE].spad)
        if self._config.depthwise_pairs:
            reads.append(engines[Engine.DEPTHWISE].beside)
        reads += [vector.a, vector.b, last]
        tags = [client.tag.shape() for client in reads]
        # Rows of weights that enter together often lie in one word, and so do parts of two columns.
        together = [range(1, 1 + len(matrix.wgts))] if len(matrix.wgts) > 1 else []
        if self._config.depthwise_pairs:
            first = 1 + len(matrix.wgts)
            together.append(range(first, first + 2))
        # On an FPGA these six have two ways. Further ones read beside them: each has a way.
        ways = [[matrix.act, vector.b, last], [matrix.wgts[0], vector.a]]
        if self._config.depthwise:
            ways[1].append(engines[Engine.DEPTHWISE].spad)
        number = {id(client): i for i, client in enumerate(reads)}
        m.submodules.scratchpad = spad = reset(
            Scratchpad(
                self._config,
                tags=tags,
                writes=2,
                together=together,
                lanes=[len(reads) - 1],
                ways=[[number[id(client)] for client in way] for way in ways],
            )
        )
        for source, sink in (
            *zip(reads, spad.read, strict=True),
            (vector.out, spad.write[1]),
            (load.spad, spad.write[0]),
            (load.param, vector.param_write),
            (load.table, vector.table_write),
        ):
            connect(m, source, sink)

    def _shared(self, m: Module, reset: SoftReset, load: LoadEngine, store: StoreEngine):
        """The reads of STORE, which indices share with them; returns: a client of one port."""
        if not self._config.indexed_dma:
            return store.spad
        sharers = [load.index, store.index, store.spad]
        tags = [client.tag.shape() for client in sharers]
        m.submodules.share = share = reset(SpadShare(self._config, tags))
        for client, port in zip(sharers, share.i, strict=True):
            connect(m, client, port)
        return share.o

    def _accumulator(self, m: Module, reset: SoftReset, engines: dict[Engine, Any]) -> None:
        m.submodules.accumulator = acc = reset(Accumulator(self._config))
        connect(m, engines[Engine.MATRIX].acc, acc.matrix)
        connect(m, engines[Engine.VECTOR].acc, acc.vector)
        if self._config.depthwise:
            connect(m, engines[Engine.DEPTHWISE].acc, acc.depthwise)

    def _bus(self, m: Module, reset: SoftReset, regs: Registers, fetch: Fetch, engines) -> None:
        """The AXI4 manager: fetch and LOAD share the read channels, STORE has the others."""
        m.submodules.read_mux = mux = reset(AxiReadMux(self._config))
        m.submodules.tracker = tracker = AxiTracker()
        store = engines[Engine.STORE]
        connect(m, fetch.axi, mux.fetch)
        connect(m, engines[Engine.LOAD].axi, mux.load)
        connect(m, mux.o, flipped(self.read))
        connect(m, store.axi, flipped(self.write))
        watch(m, self.read, tracker.read)
        watch(m, self.write, tracker.write)
        m.d.comb += [
            regs.axi_busy.eq(tracker.busy),
            regs.read_beat.eq(self.read.rvalid & self.read.rready),
            regs.write_bytes.eq(store.w_bytes),
        ]

    def _control(self, m: Module, reset: SoftReset, regs: Registers, engines) -> None:
        """The registers: the host's port, the program, and what every engine reports."""
        fetch, matrix = engines[Engine.FETCH], engines[Engine.MATRIX]
        connect(m, flipped(self.control), regs.axil)
        connect(m, regs.program, fetch.program)
        load, store = engines[Engine.LOAD], engines[Engine.STORE]
        connect(m, regs.regions, load.regions, store.regions)
        connect(m, load.outside, regs.outside[0])
        connect(m, store.outside, regs.outside[1])
        for which, status in zip(Engine, regs.engines, strict=True):
            if which in engines:
                connect(m, engines[which].status, status)
                m.d.comb += engines[which].halt.eq(regs.halt)
            else:
                m.d.comb += [status.idle.eq(1), status.stall.eq(Stall.IDLE)]
        others = [engine for which, engine in engines.items() if which is not Engine.FETCH]
        # On an FPGA an overflow by the last post is known a cycle later too.
        domain = m.d.sync if asks_for(self._platform, "for_fpga") else m.d.comb
        domain += fetch.engines_idle.eq(Cat(engine.status.idle for engine in others).all())
        m.d.comb += [
            matrix.clear.eq(reset.signal()),
            regs.vector_taken.eq(matrix.vector_taken),
            self.irq.eq(regs.irq),
        ]
