"""AXI bursts of LOAD: runs that share bus words, or follow each other, fetch each word once."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.dma_bursts import lane_bits, run_layout
from hw_gen.blocks.dma_runs import RUN_BITS
from spec.config import NpuConfig
from spec.isa import CHIP_BITS

WINDOW = 4
"""Bus words that the writer keeps: a run may begin up to WINDOW - 1 words before the newest."""

MERGE_BEATS = 4
"""Words that runs of less than one collect for a request. More would delay the first of them by
the cycles that collecting takes, and descriptors wait for as long."""

PATIENCE = 16
"""Cycles after which collected words are requested, however few they are."""


def copy_layout(config: NpuConfig, tag) -> data.StructLayout:
    """A run as the writer sees it: `lane` of its first byte on the bus, and how many of the words
    that the writer keeps, up to the newest, it uses (`have`; 0: its first word is yet to come)."""
    return data.StructLayout(
        {
            "chip": CHIP_BITS,
            "bytes": RUN_BITS,
            "lane": lane_bits(config),
            "have": range(WINDOW + 1),
            "tag": tag,
        }
    )


class LoadRequests(wiring.Component):
    """Splits runs into bursts of bus words, each word once while the writer still has it.

    Parameters
    ----------
    tag : what goes with a run; `apart`: nothing fetched for earlier runs may serve it (memory may
        have changed), `fill`: it needs no words.

    Members
    -------
    i : ``In(stream)`` of `run_layout`.
    bursts : ``Out(stream)`` of a word's number in memory and AXI's `len`, in the order of `copies`.
    copies : ``Out(stream)`` of `copy_layout`, one per run.
    empty : nothing is held.

    Timing: a run and a burst a cycle, a burst in the cycle after its run; short runs' words in at
    most `PATIENCE` cycles.
    """

    def __init__(self, config: NpuConfig, tag: data.StructLayout):
        self._config = config
        self._word_bits = config.axi_addr_bits - lane_bits(config)
        burst = data.StructLayout({"word": self._word_bits, "len": 8})
        super().__init__(
            {
                "i": In(stream.Signature(run_layout(config, RUN_BITS, tag))),
                "bursts": Out(stream.Signature(burst)),
                "copies": Out(stream.Signature(copy_layout(config, tag))),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes, run = lane_bits(self._config), self.i.payload
        first = run.addr[lanes:]
        accept = Signal()

        # The newest word that was asked for, and how many in a row up to it the writer keeps.
        newest, kept = Signal(self._word_bits), Signal(range(WINDOW + 1))
        ahead, near, joined = Signal(self._word_bits), Signal(), Signal()
        have = Signal(range(WINDOW + 1))
        m.d.comb += [
            ahead.eq(newest - first),
            near.eq(~run.tag.apart & (ahead < kept)),
            joined.eq(near | (~run.tag.apart & (kept != 0) & ahead.all())),
            have.eq(Mux(near, ahead + 1, 0)),
        ]
        # Words that are missing. Whether a short run has any, and few, must be known soon: the
        # sequencer waits for it. The numbers of a long run only go to registers.
        short, few = Signal(), Signal(range(WINDOW + 2))
        words, quiet = Signal(RUN_BITS + 1 - lanes), Signal()
        low = run.bytes[: lanes + WINDOW.bit_length()]
        m.d.comb += [
            short.eq(run.bytes <= WINDOW << lanes),
            few.eq(((run.addr[:lanes] + low - 1) >> lanes) + 1),
            words.eq(((run.addr[:lanes] + run.bytes - 1) >> lanes) + 1),
            quiet.eq(run.tag.fill | (short & (few <= have))),
        ]
        grows, room = self._collect(m, accept, quiet, joined, near, short, few, words, have, newest)
        with m.If(accept & ~quiet):
            sum_ = Mux(joined, kept, 0) + words - have
            m.d.sync += [
                newest.eq(first + words - 1),
                kept.eq(Mux(~short | (sum_ > WINDOW), WINDOW, sum_)),
            ]
        copy = self.copies.payload
        m.d.comb += [
            copy.chip.eq(run.chip),
            copy.bytes.eq(run.bytes),
            copy.lane.eq(run.addr[:lanes]),
            copy.have.eq(have),
            copy.tag.eq(run.tag),
            self.copies.valid.eq(self.i.valid & (quiet | grows | room)),
            accept.eq(self.copies.valid & self.copies.ready),
            self.i.ready.eq(accept),
        ]
        return m

    def _collect(self, m: Module, accept, quiet, joined, near, short, few, words, have, newest):
        """The words that are collected and sent; returns: the run adds to them; there is room for
        a run that begins anew."""
        run, burst = self.i.payload, self.bursts.payload
        per_burst = self._config.max_burst
        most = min(MERGE_BEATS, per_burst)
        begin, count, held = Signal.like(newest), Signal.like(words), Signal()
        age, offered = Signal(range(PATIENCE + 1)), Signal()
        following, grows, full, ends = Signal.like(newest), Signal(), Signal(), Signal()
        left = Signal(range(per_burst + 1))
        taken = self.bursts.valid & self.bursts.ready
        m.d.comb += [
            following.eq(newest + 1),
            full.eq((count >= most) | (age == PATIENCE) | offered),
            grows.eq(
                held
                & ~full
                & joined
                & short
                & (count[:3] + few - have <= most)
                & ((following & (per_burst - 1)) != 0)
            ),
            # Bursts end at multiples of the longest one, hence never cross 4 KiB.
            left.eq(per_burst - (begin & (per_burst - 1))),
            ends.eq(count <= left),
            burst.word.eq(begin),
            burst.len.eq(Mux(ends, count, left) - 1),
            self.bursts.valid.eq(held & ~(self.i.valid & (quiet | grows) & ~full)),
            self.empty.eq(~held),
        ]
        m.d.sync += offered.eq(self.bursts.valid)
        with m.If(age != PATIENCE):
            m.d.sync += age.eq(age + 1)
        with m.If(taken):
            m.d.sync += [held.eq(~ends), begin.eq(begin + left), count.eq(count - left)]
        with m.If(accept & ~quiet & grows):
            m.d.sync += count.eq(count + few - have)
        with m.Elif(accept & ~quiet):
            m.d.sync += [
                begin.eq(Mux(near, following, run.addr[lane_bits(self._config) :])),
                count.eq(words - have),
                held.eq(1),
                age.eq(0),
                offered.eq(0),
            ]
        return grows, ~held | (taken & ends)
