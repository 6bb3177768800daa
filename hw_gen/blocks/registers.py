"""The AXI4-Lite registers: control, status, regions, counters, faults, interrupt."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from hw_gen.blocks.activity import unstopped
from hw_gen.blocks.counters import COUNTERS, Counters, counter_names
from hw_gen.blocks.faults import FaultUnit
from hw_gen.interfaces import (
    EngineStatus,
    Outside,
    Overflow,
    axi_lite,
    memory_regions,
    program_start,
)
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.isa import ISA_DIGEST, ISA_VERSION, Engine
from spec.memmap import ID_VALUE, OFFSETS, REGION_ALIGN, REGISTERS, Fault

_OKAY, _SLVERR = 0, 2
_QUIET = 4
"""Cycles in which AXI must owe nothing before a soft reset begins: requests of the last cycle
before the halt are offered one cycle later."""
_RESET = 8
"""Cycles of soft reset. It ends for the blocks a cycle later than here (`SoftReset`)."""


class Registers(wiring.Component):
    """Registers of `spec.memmap`, and what follows from them.

    Members
    -------
    axil : ``In(axi_lite)``; an address that holds no register answers SLVERR.
    irq : interrupt. program : ``Out(program_start(config))``, START and what to run. regions :
        ``Out(memory_regions(config))``, as they were at START.
    running : between START and DONE or fault.
    engines, overflow : see `FaultUnit`. outside : the run that LOAD (0) or STORE (1) refused.
    vector_taken, read_beat, write_bytes : see `Counters`.
    halt : a fault happened, or a soft reset was asked for: engines stop, and finish their bursts.
    axi_busy : memory owes something (from `AxiTracker`). soft_reset : held for some cycles once
        it no longer does; resets every engine, queue and semaphore.
    works : something but a counter or the watchdog changes, now or some cycles later.

    Timing: a read answers in the next cycle, that of a counter up to eight cycles later. START
    while running, halted or faulted is ignored. A fault is taken a cycle after it was reported.
    The halt of a soft reset ends a cycle after it, when the blocks are out of reset, too. In RTL
    for FPGAs a halt begins and ends a cycle later.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "axil": In(axi_lite),
                "irq": Out(1),
                "program": Out(program_start(config)),
                "regions": Out(memory_regions(config)),
                "running": Out(1),
                "engines": In(EngineStatus).array(len(Engine)),
                "overflow": In(Overflow),
                "outside": In(Outside).array(2),
                "vector_taken": In(1),
                "read_beat": In(1),
                "write_bytes": In(range(config.bus_bytes + 1)),
                "halt": Out(1),
                "axi_busy": In(1),
                "soft_reset": Out(1),
                "works": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        counters, faults = Counters(self._config), FaultUnit()
        m.submodules.counters = unstopped(platform, counters)
        m.submodules.faults = unstopped(platform, faults)
        written = self._write_port(m)
        storage = self._storage(m, written)
        done, patience = Signal(), Signal(32)
        control = written["CONTROL"]
        reset_asked = self._reset(m, control)
        start = self.program.start
        connect(m, flipped(self.overflow), faults.overflow)
        m.d.comb += [
            start.eq(control[0] & ~control[1] & ~self.running & ~faults.fault & ~reset_asked),
            faults.run.eq(self.running & ~reset_asked),
            faults.clear.eq(self.soft_reset),
            faults.limit.eq(patience),
            faults.start.eq(start),
            faults.time.eq(storage["TIME_LIMIT"]),
            counters.run.eq(self.running),
            counters.clear.eq(start | self.soft_reset),
            counters.vector_taken.eq(self.vector_taken),
            counters.read_beat.eq(self.read_beat),
            counters.write_bytes.eq(self.write_bytes),
        ]
        # From here the way to the engines of an FPGA is long.
        domain = m.d.sync if asks_for(platform, "for_fpga") else m.d.comb
        domain += self.halt.eq(faults.fault | reset_asked)
        for e in Engine:
            if self._config.engine_counters:
                m.d.comb += counters.stall[e].eq(self.engines[e].stall)
            connect(m, flipped(self.engines[e]), faults.engines[e])
        ended = self.running & (self.program.done | faults.strobe)
        with m.If(start):
            m.d.sync += [self.running.eq(1), done.eq(0), patience.eq(storage["WATCHDOG"])]
        with m.Elif(self.soft_reset):
            m.d.sync += [self.running.eq(0), done.eq(0)]
        with m.Elif(ended):
            m.d.sync += [self.running.eq(0), done.eq(~faults.strobe)]
        pending = self._interrupt(m, ended, written, storage)
        values = self._values(m, storage, faults)
        values["STATUS"] = Cat(self.running | reset_asked, done, faults.fault)
        values["IRQ_STATUS"] = pending
        self._read_port(m, values, counters)
        axil = self.axil
        talks = Cat(axil.awvalid, axil.wvalid, axil.bvalid, axil.arvalid, axil.rvalid).any()
        m.d.comb += self.works.eq(talks | counters.ask | ended | self.halt | self.soft_reset)
        return m

    def _write_port(self, m: Module) -> dict[str, Value]:
        """Accept address and data together; returns per writable register: bytes written, masked.

        `awready` and `wready` are a flip-flop, which rises when both have been offered. The value
        has 32 data bits below 32 mask bits, all zero when it is not written.
        """
        axil = self.axil
        ready, go, known = Signal(name="write_ready"), Signal(), Signal()
        offered = axil.awvalid & axil.wvalid
        m.d.sync += ready.eq(offered & ~ready & ~axil.bvalid)
        m.d.comb += [go.eq(offered & ready), axil.awready.eq(ready), axil.wready.eq(ready)]
        mask = Cat(bit.replicate(8) for bit in axil.wstrb)
        written: dict[str, Value] = {}
        with m.Switch(axil.awaddr[2:]):
            for register in REGISTERS:
                with m.Case(register.offset >> 2):
                    m.d.comb += known.eq(1)
                    if register.access != "ro":
                        value = Signal(64, name=f"write_{register.name}")
                        with m.If(go):
                            m.d.comb += value.eq(Cat(axil.wdata & mask, mask))
                        written[register.name] = value
        with m.If(go):
            m.d.sync += [axil.bvalid.eq(1), axil.bresp.eq(Mux(known, _OKAY, _SLVERR))]
        with m.Elif(axil.bready):
            m.d.sync += axil.bvalid.eq(0)
        return written

    def _storage(self, m: Module, written: dict[str, Value]) -> dict[str, Value]:
        """A flip-flop per bit of every read-write register; soft reset spares only the regions.
        Registers of regions that the configuration does not have are 0.

        What a run must not see change is copied at START.
        """
        storage: dict[str, Value] = {}
        for register in REGISTERS:
            if register.access != "rw":
                continue
            name = register.name
            low, high = _bits(name, self._config)
            absent = register.region is not None and register.region >= self._config.regions
            if low == high or absent:
                storage[name] = Const(0, 32)
                continue
            held = Signal(high - low, name=name, init=register.reset)
            storage[name] = Cat(Const(0, low), held)
            value = written[name]
            # Every byte has an enable of its own, so that data go to flip-flops without a gate.
            for byte in range(low // 8, -(-high // 8)):
                first, last = max(low, 8 * byte), min(high, 8 * byte + 8)
                with m.If(value[32 + 8 * byte]):
                    m.d.sync += held[first - low : last - low].eq(self.axil.wdata[first:last])
            # It overrides a write, so that the flip-flops' own reset does it.
            if register.region is None:
                with m.If(self.soft_reset):
                    m.d.sync += held.eq(register.reset)
        m.d.comb += [
            self.program.address.eq(Cat(storage["PROGRAM_LO"], storage["PROGRAM_HI"])),
            self.program.bytes.eq(storage["PROGRAM_BYTES"]),
        ]
        with m.If(self.program.start):
            for i in range(self._config.regions):
                base = Cat(storage[f"BASE{i}_LO"], storage[f"BASE{i}_HI"])
                m.d.sync += self.regions.base[i].eq(base)
                m.d.sync += self.regions.limit[i].eq(storage[f"LIMIT{i}"])
        return storage

    def _reset(self, m: Module, control: Value) -> Value:
        """RESET: halt, wait until AXI is quiet, reset; returns: one is under way."""
        asked, quiet, left = Signal(), Signal(range(_QUIET + 1)), Signal(range(_RESET + 2))
        m.d.comb += self.soft_reset.eq(left > 1)
        with m.If(self.axi_busy | ~asked):
            m.d.sync += quiet.eq(0)
        with m.Elif(quiet != _QUIET):
            m.d.sync += quiet.eq(quiet + 1)
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
            with m.If(left == 1):
                m.d.sync += asked.eq(0)
        with m.Elif(control[1]):
            m.d.sync += asked.eq(1)
        with m.Elif(asked & (quiet == _QUIET)):
            m.d.sync += left.eq(_RESET + 1)
        return asked

    def _interrupt(self, m: Module, ended: Value, written, storage) -> Value:
        pending = Signal()
        with m.If(self.soft_reset | self.program.start | written["IRQ_STATUS"][0]):
            m.d.sync += pending.eq(0)
        with m.If(ended & ~self.soft_reset):
            m.d.sync += pending.eq(1)
        m.d.comb += self.irq.eq(pending & storage["IRQ_ENABLE"][0])
        return pending

    def _values(self, m: Module, storage, faults: FaultUnit) -> dict[str, Value]:
        """What each register but a counter reads as, CONTROL as zero."""
        region, offset = self._refused(m, faults)
        values: dict[str, Value] = {
            **storage,
            "ID": Const(ID_VALUE, 32),
            "ISA_VERSION": Const(ISA_VERSION[0] << 16 | ISA_VERSION[1], 32),
            "CONTROL": Const(0, 32),
            "IRQ_ENABLE": storage["IRQ_ENABLE"] & 1,
            "FAULT_CAUSE": faults.cause,
            "FAULT_ENGINE": faults.engine,
            "FAULT_INSTRUCTION": faults.index,
            "FAULT_REGION": region,
        }
        wide: dict[str, Value] = {
            "FAULT_OFFSET": offset,
            "ISA_DIGEST": Const(ISA_DIGEST, 64),
            "CONFIG_DIGEST": Const(self._config.digest(), 64),
        }
        for e in Engine:
            values[f"PC_{e.name}"] = self.engines[e].index
        for name, value in wide.items():
            values[f"{name}_LO"], values[f"{name}_HI"] = value[:32], value[32:]
        return values

    def _refused(self, m: Module, faults: FaultUnit) -> tuple[Value, Value]:
        """Region and offset of the run behind an OUTSIDE_REGION; its engine still holds it."""
        region = Signal.like(self.outside[0].region)
        offset = Signal.like(self.outside[0].offset)
        with m.If(faults.cause == Fault.OUTSIDE_REGION):
            for each, engine in zip(self.outside, (Engine.LOAD, Engine.STORE), strict=True):
                with m.If(faults.engine == engine):
                    m.d.comb += [region.eq(each.region), offset.eq(each.offset)]
        return region, offset

    def _read_port(self, m: Module, values: dict[str, Value], counters: Counters) -> None:
        """Answer at once, but for a counter when its value comes. Absent counters are 0."""
        axil = self.axil
        asked, which, high = Signal(), Signal.like(counters.which), Signal()
        there = counter_names(self._config)
        m.d.comb += [
            axil.arready.eq(~axil.rvalid & ~asked),
            counters.ask.eq(asked),
            counters.which.eq(which),
        ]
        with m.If(axil.arvalid & axil.arready):
            m.d.sync += [axil.rvalid.eq(1), axil.rdata.eq(0), axil.rresp.eq(_SLVERR)]
            m.d.sync += high.eq(axil.araddr[2])
            with m.Switch(axil.araddr[2:]):
                for name, value in values.items():
                    with m.Case(OFFSETS[name] >> 2):
                        m.d.sync += [axil.rdata.eq(value), axil.rresp.eq(_OKAY)]
            with m.Switch(axil.araddr[3:]):
                for number, name in enumerate(there):
                    with m.Case(OFFSETS[f"{name}_LO"] >> 3):
                        m.d.sync += [axil.rvalid.eq(0), asked.eq(1), which.eq(number)]
                for name in COUNTERS[len(there) :]:
                    with m.Case(OFFSETS[f"{name}_LO"] >> 3):
                        m.d.sync += axil.rresp.eq(_OKAY)
        with m.Elif(counters.answers):
            halves = counters.value[:32], counters.value[32:]
            m.d.sync += [
                axil.rvalid.eq(1),
                axil.rdata.eq(Mux(high, *reversed(halves))),
                axil.rresp.eq(_OKAY),
                asked.eq(0),
            ]
        with m.Elif(axil.rready):
            m.d.sync += axil.rvalid.eq(0)


def _bits(name: str, config: NpuConfig) -> tuple[int, int]:
    """First bit of a read-write register that exists, and the one behind the last."""
    first = exact_log2(REGION_ALIGN) if name.startswith("BASE") and name.endswith("_LO") else 0
    return first, max(0, config.axi_addr_bits - 32) if name.endswith("_HI") else 32
