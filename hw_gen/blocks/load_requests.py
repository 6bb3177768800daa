"""Which bus words a LOAD fetches: runs that share words, or follow each other, fetch once."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.dma_bursts import CHIP_BITS, burst_bytes, lane_bits, run_layout
from hw_gen.blocks.dma_runs import RUN_BITS
from spec.config import NpuConfig

WINDOW = 4
"""Bus words that the writer keeps: a run may begin up to WINDOW - 1 words before the newest."""

MERGE_BEATS = 4
"""Words that runs of less than one collect for a request. More would delay the first of them by
the cycles that collecting takes, and descriptors wait for as long."""

PATIENCE = 16
"""Cycles after which collected words are requested, however few they are."""

SPAN_BITS = RUN_BITS + 1
"""Width of a request's length in bytes: a run and the rest of the words that it lies in."""


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
    """Turns runs into requests for words, each word once while the writer still has it.

    Parameters
    ----------
    tag : what goes with a run; `apart`: nothing fetched for earlier runs may serve it (memory may
        have changed), `fill`: it needs no words.

    Members
    -------
    i : ``In(stream)`` of `run_layout`.
    spans : ``Out(stream)`` of `run_layout`, whole bus words, in the order of `copies`.
    copies : ``Out(stream)`` of `copy_layout`, one per run.
    empty : nothing is held.

    Timing: a run a cycle. Words are requested at the latest `PATIENCE` cycles after their run came.
    """

    def __init__(self, config: NpuConfig, tag: data.StructLayout):
        self._config = config
        self._run = run_layout(config, RUN_BITS, tag)
        super().__init__(
            {
                "i": In(stream.Signature(self._run)),
                "spans": Out(stream.Signature(run_layout(config, SPAN_BITS, 1))),
                "copies": Out(stream.Signature(copy_layout(config, tag))),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes = lane_bits(self._config)
        run, valid = Signal(self._run), Signal()
        words = Signal(SPAN_BITS - lanes)
        first, last = run.addr[lanes:], Signal(self._config.axi_addr_bits - lanes)
        accept = Signal()
        came = self.i.payload
        with m.If(self.i.ready):
            m.d.sync += [
                valid.eq(self.i.valid),
                run.eq(came),
                words.eq(((came.addr[:lanes] + came.bytes - 1) >> lanes) + 1),
                last.eq((came.addr + came.bytes - 1) >> lanes),
            ]

        # The newest word that was asked for, and how many in a row up to it the writer keeps.
        newest, kept = Signal.like(last), Signal(range(WINDOW + 1))
        ahead, near, joined = Signal.like(last), Signal(), Signal()
        have, fresh, quiet = Signal(range(WINDOW + 1)), Signal.like(words), Signal()
        m.d.comb += [
            ahead.eq(newest - first),
            near.eq(~run.tag.apart & (ahead < kept)),
            joined.eq(near | (~run.tag.apart & (kept != 0) & ahead.all())),
            have.eq(Mux(near, ahead + 1, 0)),
            fresh.eq(Mux(words > have, words - have, 0)),
            quiet.eq(run.tag.fill | (fresh == 0)),
        ]
        room = self._collect(m, valid, accept, quiet, joined, fresh, newest, near, first)
        sum_ = Mux(joined, kept, 0) + fresh
        with m.If(accept & ~quiet):
            m.d.sync += [newest.eq(last), kept.eq(Mux(sum_ > WINDOW, WINDOW, sum_))]
        copy = self.copies.payload
        m.d.comb += [
            copy.chip.eq(run.chip),
            copy.bytes.eq(run.bytes),
            copy.lane.eq(run.addr[:lanes]),
            copy.have.eq(have),
            copy.tag.eq(run.tag),
            self.copies.valid.eq(valid & room),
            accept.eq(self.copies.valid & self.copies.ready),
            self.i.ready.eq(~valid | accept),
        ]
        return m

    def _collect(self, m: Module, valid, accept, quiet, joined, fresh, newest, near, first):
        """The span that is collected and sent; returns: the held run can be taken."""
        lanes = lane_bits(self._config)
        begin, count, held = Signal.like(newest), Signal.like(fresh), Signal()
        age, sent = Signal(range(PATIENCE + 1)), Signal()
        per_burst = burst_bytes(self._config) >> lanes
        following = newest + 1
        most = min(MERGE_BEATS, per_burst)
        full = (count >= most) | (age == PATIENCE)
        grows = Signal()
        span = self.spans.payload
        m.d.comb += [
            grows.eq(
                held
                & ~sent
                & ~full
                & joined
                & (count + fresh <= most)
                & ((following & (per_burst - 1))[: len(newest)] != 0)
            ),
            self.spans.valid.eq(held & ~(valid & (quiet | grows) & ~full & ~sent)),
            span.addr.eq(begin << lanes),
            span.bytes.eq(count << lanes),
            self.empty.eq(~valid & ~held),
        ]
        m.d.sync += sent.eq(self.spans.valid & ~self.spans.ready)
        with m.If(age != PATIENCE):
            m.d.sync += age.eq(age + 1)
        with m.If(accept & ~quiet):
            with m.If(grows):
                m.d.sync += count.eq(count + fresh)
            with m.Else():
                m.d.sync += [
                    begin.eq(Mux(near, following, first)),
                    count.eq(fresh),
                    held.eq(1),
                    age.eq(0),
                ]
        with m.Elif(self.spans.valid & self.spans.ready):
            m.d.sync += held.eq(0)
        return quiet | grows | ~held | (self.spans.valid & self.spans.ready)
