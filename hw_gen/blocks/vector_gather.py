"""Second part of the vector engine: collects a step's words and widens its elements."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.elements import element_bits
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.vector_issue import READS_AHEAD, pending_layout
from hw_gen.blocks.vector_lanes import context_layout, lane_step
from hw_gen.checks import check
from hw_gen.interfaces import memory_words
from spec.config import NpuConfig
from spec.isa import DType, Space

_WORDS = 4
"""Most words of an operand: `cols` int32 in words of at least `cols` bytes."""


class VectorGather(wiring.Component):
    """Waits until every word of the oldest step is there, then hands the step to the lanes.

    Members
    -------
    pending, context : ``In(stream)`` from `VectorIssue`.
    a, b, acc : ``In(memory_words)``, operands A and B and vectors of the accumulator.
    consumed : see `VectorIssue`.
    room : the lanes may take a step.
    o : ``Out(lane_step(config))``.
    busy : a step is waiting here.

    Timing: one word of each operand a cycle; the last one goes on to the lanes in its own cycle.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        word, lanes = 8 * config.word_bytes, 32 * config.cols
        super().__init__(
            {
                "pending": In(stream.Signature(pending_layout(config))),
                "context": In(stream.Signature(context_layout())),
                "a": In(memory_words(word)),
                "b": In(memory_words(word)),
                "acc": In(memory_words(lanes)),
                "consumed": Out(2),
                "room": In(1),
                "o": Out(lane_step(config)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        word, lanes = 8 * cfg.word_bytes, 32 * cfg.cols
        m.submodules.pendings = pendings = Fifo(pending_layout(cfg), depth=2 * READS_AHEAD)
        m.submodules.contexts = contexts = Fifo(context_layout(), depth=4)
        m.submodules.words_a = words_a = Fifo(max(word, lanes), depth=READS_AHEAD)
        m.submodules.words_b = words_b = Fifo(word, depth=READS_AHEAD)
        connect(m, flipped(self.pending), pendings.i)
        connect(m, flipped(self.context), contexts.i)
        pending = pendings.o
        m.d.comb += [
            words_a.i.valid.eq(self.a.valid | self.acc.valid),
            words_a.i.payload.eq(Mux(self.acc.valid, self.acc.data, self.a.data)),
            words_b.i.valid.eq(self.b.valid),
            words_b.i.payload.eq(self.b.data),
        ]
        for name, words in (("A", words_a), ("B", words_b)):
            check(
                m,
                platform,
                ~words.i.valid | words.i.ready,
                f"vector gather: word of {name} comes when its FIFO is full",
            )
        check(m, platform, ~(self.a.valid & self.acc.valid), "vector gather: two words of A")
        head, context = Signal(pending_layout(cfg)), Signal(context_layout())
        held = Signal(context_layout())
        go = self.o.valid
        m.d.comb += [
            head.eq(pending.payload),
            context.eq(Mux(head.step.first, contexts.o.payload, held)),
        ]
        enough_a, wide_a = self._collect(m, 0, words_a.o, head.beats_a, pending.valid, go)
        enough_b, wide_b = self._collect(m, 1, words_b.o, head.beats_b, pending.valid, go)
        with m.If(go & head.step.first):
            m.d.sync += held.eq(contexts.o.payload)
        m.d.comb += [
            go.eq(pending.valid & enough_a & enough_b & self.room),
            pending.ready.eq(go),
            contexts.o.ready.eq(go & head.step.first),
            self.o.tag.eq(head.step),
            self.o.context.eq(context),
            self.o.a.eq(
                Mux(
                    context.a_space == Space.ACC,
                    words_a.o.payload[:lanes],
                    self._widen(m, "a", wide_a, context.a_type),
                )
            ),
            self.o.b.eq(self._widen(m, "b", wide_b, context.b_type)),
            self.busy.eq(pendings.level != 0),
        ]
        return m

    def _collect(self, m: Module, i: int, words, beats: Value, waiting: Value, go: Value):
        """Returns: the step's words of operand `i` are complete; and the words side by side."""
        width = 8 * self._config.word_bytes
        have = Signal(3, name=f"have_{i}")
        enough = Signal(name=f"enough_{i}")
        final = have + 1 == beats
        m.d.comb += [
            enough.eq((beats == 0) | (final & words.valid)),
            self.consumed[i].eq(waiting & words.valid & (beats != 0) & (~final | go)),
            words.ready.eq(self.consumed[i]),
        ]
        with m.If(go):
            m.d.sync += have.eq(0)
        with m.Elif(self.consumed[i]):
            m.d.sync += have.eq(have + 1)
        wide = Signal(_WORDS * width, name=f"operand_{i}")
        parts = []
        for k in range(_WORDS):
            kept = Signal(width, name=f"kept_{i}_{k}")
            if k < _WORDS - 1:
                with m.If(self.consumed[i] & (have == k)):
                    m.d.sync += kept.eq(words.payload[:width])
            parts.append(Mux(have == k, words.payload[:width], kept))
        m.d.comb += wide.eq(Cat(*parts))
        return enough, wide

    def _widen(self, m: Module, name: str, words: Value, dtype: Value) -> Signal:
        """Elements of `dtype`, contiguous from byte 0, as int32 lanes."""
        cols = self._config.cols
        out = Signal(32 * cols, name=f"wide_{name}")
        with m.Switch(dtype):
            for kind in DType:
                bits = element_bits(kind)
                with m.Case(kind):
                    lanes = [words[bits * c : bits * c + bits] for c in range(cols)]
                    if kind.signed:
                        m.d.comb += out.eq(Cat(_extend(lane) for lane in lanes))
                    else:
                        m.d.comb += out.eq(Cat(Cat(v, Const(0, 32 - bits)) for v in lanes))
        return out


def _extend(lane: Value) -> Value:
    """Sign-extended to 32 bits."""
    return Cat(lane, lane[-1].replicate(32 - len(lane)))
