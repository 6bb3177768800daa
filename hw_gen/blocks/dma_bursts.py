"""Bursts of STORE and fetch: runs of bytes, split into AXI bursts (LOAD: load_requests.py)."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

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
    empty : no run is held.

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
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = exact_log2(burst_bytes(self._config))
        lanes = lane_bits(self._config)
        run, valid = Signal(self._run), Signal()
        burst = self.o.payload
        room = Signal(bits + 1)
        accept = Signal()
        m.d.comb += [
            room.eq((1 << bits) - run.addr[:bits]),
            burst.last.eq(run.bytes <= room),
            burst.bytes.eq(Mux(burst.last, run.bytes, room)),
            burst.addr.eq(run.addr),
            burst.chip.eq(run.chip),
            burst.lane.eq(run.addr[:lanes]),
            burst.len.eq((burst.lane + burst.bytes - 1) >> lanes),
            burst.tag.eq(run.tag),
            self.o.valid.eq(valid),
            accept.eq(valid & self.o.ready),
            self.i.ready.eq(~valid | (accept & burst.last)),
            self.empty.eq(~valid),
        ]
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += run.eq(self.i.payload)
        with m.Elif(accept):
            m.d.sync += [
                run.addr.eq(Cat(Const(0, bits), run.addr[bits:] + 1)),
                run.chip.eq(run.chip + room),
                run.bytes.eq(run.bytes - room),
            ]
        return m
