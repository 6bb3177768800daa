"""AXI bursts of LOAD: runs that share bus words, or follow each other, fetch each word once."""

from typing import Any

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw_gen.blocks.adders import fast_difference, sum_less_one
from hw_gen.blocks.dma_bursts import lane_bits, run_layout
from hw_gen.blocks.dma_runs import RUN_BITS
from spec.config import NpuConfig
from spec.isa import CHIP_BITS

MERGE_BEATS = 4
"""Words that runs of less than one collect for a request. More would delay the first of them by
the cycles that collecting takes, and descriptors wait for as long."""

PATIENCE = 16
"""Cycles after which collected words are requested, however few they are."""


def copy_layout(config: NpuConfig, tag) -> data.StructLayout:
    """A run as the writer sees it: `lane` of its first byte on the bus, and how many of the words
    that the writer keeps, up to the newest, it uses (`have`; 0: its first word is yet to come).
    The writer keeps `config.load_window` words: a run may begin in any of them."""
    return data.StructLayout(
        {
            "chip": CHIP_BITS,
            "bytes": RUN_BITS,
            "lane": lane_bits(config),
            "have": range(config.load_window + 1),
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

    Timing: a run and a burst a cycle. A run is held for a cycle at least, and its burst is offered
    in the next cycle; short runs' words in at most `PATIENCE` cycles.
    """

    def __init__(self, config: NpuConfig, tag: data.StructLayout):
        self._config = config
        self._word_bits = config.axi_addr_bits - lane_bits(config)
        # A run as it is held: numbers of its words instead of an address.
        self._held = data.StructLayout(
            {
                "chip": CHIP_BITS,
                "bytes": RUN_BITS,
                "lane": lane_bits(config),
                "tag": tag,
                "first": self._word_bits,
                "last": self._word_bits,
                "short": 1,
                "few": range(config.load_window + 2),
            }
        )
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
        window = self._config.load_window
        run, valid, accept = Signal(self._held), Signal(), Signal()
        # The newest word that was asked for, and how many in a row up to it the writer keeps.
        newest, kept = Signal(self._word_bits), Signal(range(window + 1))
        have, near, joined, quiet = Signal.like(kept), Signal(), Signal(), Signal()
        words = self._words(m, platform)
        ahead = self._ahead(m, platform, run, newest, accept & ~quiet, self.i.ready)
        m.d.comb += self.i.ready.eq(~valid | accept)
        with m.If(self.i.ready):
            m.d.sync += [valid.eq(self.i.valid), run.eq(words)]
        m.d.comb += [
            near.eq(~run.tag.apart & ahead.close & (ahead.words < kept)),
            joined.eq(near | (~run.tag.apart & (kept != 0) & ahead.follows)),
            have.eq(Mux(near, ahead.words + 1, 0)),
            quiet.eq(run.tag.fill | (run.short & (run.few <= have))),
        ]
        missing = Signal.like(run.few)  # of a short run
        m.d.comb += missing.eq(run.few - have)
        grows, room = self._collect(m, valid, accept, quiet, joined, near, missing, run, newest)
        with m.If(accept & ~quiet):
            sum_ = Mux(joined, kept, 0) + missing
            m.d.sync += [
                newest.eq(run.last),
                kept.eq(Mux(~run.short | (sum_ > window), window, sum_)),
            ]
        copy = self.copies.payload
        m.d.comb += [
            copy.chip.eq(run.chip),
            copy.bytes.eq(run.bytes),
            copy.lane.eq(run.lane),
            copy.have.eq(have),
            copy.tag.eq(run.tag),
            self.copies.valid.eq(valid & (quiet | grows | room)),
            accept.eq(self.copies.valid & self.copies.ready),
        ]
        return m

    def _words(self, m: Module, platform) -> Any:
        """The run that comes, as it will be held."""
        lanes, run, window = lane_bits(self._config), self.i.payload, self._config.load_window
        held = Signal(self._held, name="words")
        last = sum_less_one(m, platform, "last", run.addr, run.bytes)
        low = run.bytes[: lanes + window.bit_length()]
        m.d.comb += [
            held.chip.eq(run.chip),
            held.bytes.eq(run.bytes),
            held.lane.eq(run.addr[:lanes]),
            held.tag.eq(run.tag),
            held.first.eq(run.addr[lanes:]),
            held.last.eq(last[lanes:]),
            held.short.eq(run.bytes <= window << lanes),
            held.few.eq(((run.addr[:lanes] + low - 1) >> lanes) + 1),
        ]
        return held

    def _ahead(
        self, m: Module, platform, run: data.View, newest: Signal, moves: Value, load: Value
    ) -> Any:
        """How far the newest word is ahead of the first one of the run that is held.

        `close`: by `words`, less than the window. `follows`: the first one is the next after it.
        Both are known when the run comes: from the newest word, and from the last one of the run
        before, which becomes the newest if that run `moves` it.
        """
        layout = data.StructLayout(
            {"close": 1, "words": range(self._config.load_window), "follows": 1}
        )
        first = self.i.payload.addr[lane_bits(self._config) :]
        found = []
        for name, word in (("newest", newest), ("last", run.last)):
            distance = fast_difference(m, platform, f"ahead_of_{name}", word, first)
            low = Signal(layout, name=f"ahead_{name}")
            bits = len(low.words)
            m.d.comb += [
                low.close.eq(~distance[bits:].any()),
                low.words.eq(distance),
                low.follows.eq(distance.all()),
            ]
            found.append(low)
        ahead = Signal(layout)
        with m.If(load):
            m.d.sync += ahead.eq(Mux(moves, found[1], found[0]))
        return ahead

    def _collect(self, m: Module, valid, accept, quiet, joined, near, missing, run, newest):
        """The words that are collected and sent, up to the newest; returns: the run that is held
        adds to them; there is room for it to begin anew."""
        burst, per_burst = self.bursts.payload, self._config.max_burst
        bits = exact_log2(per_burst)
        most = min(MERGE_BEATS, per_burst)
        begin, held = Signal.like(newest), Signal()
        count = Signal(range(most + 1))  # of the words, as far as they are no more than `most`
        age, offered = Signal(range(PATIENCE + 1)), Signal()
        following, grows, full, ends = Signal.like(newest), Signal(), Signal(), Signal()
        taken = self.bursts.valid & self.bursts.ready
        total = Mux(grows, count, 0) + missing
        m.d.comb += [
            following.eq(newest + 1),
            full.eq((count == most) | (age == PATIENCE) | offered),
            grows.eq(
                held
                & ~full
                & joined
                & run.short
                & (count + missing <= most)
                & ((following & (per_burst - 1)) != 0)
            ),
            # Bursts end at multiples of the longest one, hence never cross 4 KiB.
            ends.eq(begin[bits:] == newest[bits:]),
            burst.word.eq(begin),
            burst.len.eq(Mux(ends, newest[:bits], per_burst - 1) - begin[:bits]),
            self.bursts.valid.eq(held & ~(valid & (quiet | grows) & ~full)),
            self.empty.eq(~held & ~valid),
        ]
        m.d.sync += offered.eq(self.bursts.valid)
        with m.If(age != PATIENCE):
            m.d.sync += age.eq(age + 1)
        with m.If(taken):
            m.d.sync += [held.eq(~ends), begin.eq(Cat(Const(0, bits), begin[bits:] + 1))]
        with m.If(accept & ~quiet):
            m.d.sync += count.eq(Mux(~run.short | (total > most), most, total))
            with m.If(~grows):
                m.d.sync += [
                    begin.eq(Mux(near, following, run.first)),
                    held.eq(1),
                    age.eq(0),
                    offered.eq(0),
                ]
        return grows, ~held | (taken & ends)
