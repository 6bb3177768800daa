"""Bursts of STORE and fetch: runs of bytes, split into AXI bursts (LOAD: load_requests.py)."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw_gen.blocks.adders import Increment, fast_sum, sum_less_one
from spec.config import NpuConfig
from spec.isa import CHIP_BITS


def lane_bits(config: NpuConfig) -> int:
    """Width of a byte lane of the bus."""
    return exact_log2(config.bus_bytes)


def burst_bytes(config: NpuConfig) -> int:
    """The longest burst; bursts never cross a multiple of it, hence never 4 KiB."""
    return config.max_burst * config.bus_bytes


def run_layout(config: NpuConfig, run_bits: int, tag) -> data.StructLayout:
    """A contiguous run: memory address, on-chip address, length, and what goes with it."""
    return data.StructLayout(
        {"addr": config.axi_addr_bits, "chip": CHIP_BITS, "bytes": run_bits, "tag": tag}
    )


def burst_layout(config: NpuConfig, tag) -> data.StructLayout:
    """One burst: `addr` and `chip` of its first byte, `len` as AXI has it (beats - 1), `lane` the
    first byte's lane on the bus, `last` of its run."""
    return data.StructLayout(
        {
            "addr": config.axi_addr_bits,
            "chip": CHIP_BITS,
            "bytes": range(burst_bytes(config) + 1),
            "len": 8,
            "lane": lane_bits(config),
            "last": 1,
            "tag": tag,
        }
    )


class BurstSplitter(wiring.Component):
    """Splits runs at the multiples of the longest burst, for store.py and dma_program.py.

    Parameters
    ----------
    run_bits : width of a run's length.
    tag : shape of what is passed through with every burst of a run.

    Members
    -------
    i : ``In(stream)`` of `run_layout`; o : ``Out(stream)`` of `burst_layout`.
    drop : throw the run that is held away. empty : no run is held.

    Timing: a burst a cycle, the first one in the cycle after the run was taken; no gap between
    runs.
    """

    def __init__(self, config: NpuConfig, *, run_bits: int, tag):
        self._config = config
        self._run = run_layout(config, run_bits, tag)
        super().__init__(
            {
                "i": In(stream.Signature(self._run)),
                "o": Out(stream.Signature(burst_layout(config, tag))),
                "drop": In(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = exact_log2(burst_bytes(self._config))
        lanes = lane_bits(self._config)
        run, burst = self.i.payload, self.o.payload
        # Of the burst that is offered: its address; and where the run ends, counted from the
        # multiple of the longest burst before it. Above `bits` that is the bursts to come.
        addr, end = Signal.like(run.addr), Signal(len(run.bytes) + 1)
        chip, tag = Signal.like(run.chip), Signal(run.tag.shape())
        first, final, room, accept = addr[:bits], Signal(bits), Signal(bits + 1), Signal()
        ends = sum_less_one(m, platform, "ends", Cat(run.bytes, Const(0, 1)), run.addr[:bits])
        next_chip = fast_sum(m, platform, "next_chip", chip, room)
        m.submodules.increment = increment = Increment(len(addr[bits:]))
        m.d.comb += [
            burst.last.eq(end[bits:] == 0),
            final.eq(Mux(burst.last, end[:bits], (1 << bits) - 1)),
            room.eq((1 << bits) - first),
            burst.bytes.eq(final - first + 1),
            burst.addr.eq(addr),
            increment.i.eq(addr[bits:]),
            burst.chip.eq(chip),
            burst.lane.eq(first[:lanes]),
            burst.len.eq(final[lanes:] - first[lanes:]),
            burst.tag.eq(tag),
            accept.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(~self.o.valid | (accept & burst.last)),
            self.empty.eq(~self.o.valid),
        ]
        with m.If(self.i.ready):
            m.d.sync += self.o.valid.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += [addr.eq(run.addr), end.eq(ends), chip.eq(run.chip), tag.eq(run.tag)]
        with m.Elif(accept):
            m.d.sync += [
                addr.eq(Cat(Const(0, bits), increment.o)),
                chip.eq(next_chip),
                end[bits:].eq(end[bits:] - 1),
            ]
        with m.If(self.drop):
            m.d.sync += self.o.valid.eq(0)
        return m
