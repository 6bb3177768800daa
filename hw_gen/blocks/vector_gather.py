"""Second part of the vector engine: collects a step's words and widens its elements."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.elements import element_bits
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.vector_context import SlotFields, slots_layout, tag_layout
from hw_gen.blocks.vector_issue import PORTS, READS_AHEAD, pending_layout
from hw_gen.blocks.vector_parts import step_layout
from hw_gen.checks import check
from hw_gen.interfaces import memory_words
from spec.config import NpuConfig
from spec.isa import Alu, DType, Space, adds_b, merges_b


class VectorGather(wiring.Component):
    """Collects the words of the oldest step in the lanes of a register, and offers the step.

    Members
    -------
    pending : ``In(stream)`` from `VectorIssue`. slots : contexts of the instructions.
    a, b, acc : ``In(memory_words)``, words of both ports and vectors of the accumulator.
    consumed : see `VectorIssue`. read : all words of a step that posts READ are here.
    o : ``Out(stream)`` of `step_layout`.
    busy : a step is waiting here.

    Timing: one word of each operand a cycle, or two of the one that comes through both ports; the
    step is offered a cycle after its last one came.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        word, lanes = 8 * config.word_bytes, 32 * config.cols
        super().__init__(
            {
                "pending": In(stream.Signature(pending_layout(config))),
                "slots": In(slots_layout(config)),
                "a": In(memory_words(word)),
                "b": In(memory_words(word)),
                "acc": In(memory_words(lanes)),
                "consumed": Out(PORTS),
                "read": Out(1),
                "o": Out(stream.Signature(step_layout(config))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        word, lanes = 8 * cfg.word_bytes, 32 * cfg.cols
        m.submodules.pendings = pendings = Fifo(
            pending_layout(cfg), depth=2 * READS_AHEAD, far=True
        )
        connect(m, flipped(self.pending), pendings.i)
        pending = pendings.o
        # The accumulator answers sooner than the scratchpad: its words must not overtake others.
        queues = {}
        for name, words, width in (
            ("a", self.a, word),
            ("b", self.b, word),
            ("acc", self.acc, lanes),
        ):
            m.submodules[f"words_{name}"] = queue = Fifo(width, depth=READS_AHEAD)
            queues[name] = queue.o
            m.d.comb += [queue.i.valid.eq(words.valid), queue.i.payload.eq(words.data)]
            message = f"vector gather: word of {name.upper()} comes when its FIFO is full"
            check(m, platform, ~queue.i.valid | queue.i.ready, message)
        head, free, taken = Signal(pending_layout(cfg)), Signal(), Signal()
        kept = Signal(tag_layout(cfg), name="tag", reset_less=True)
        a, b, sums = queues["a"], queues["b"], queues["acc"]
        words_a = stream.Signature(max(word, lanes)).create(path=("words_of_a",))
        m.d.comb += [
            head.eq(pending.payload),
            words_a.valid.eq(Mux(head.from_acc, sums.valid, a.valid)),
            words_a.payload.eq(Mux(head.from_acc, sums.payload, a.payload)),
            sums.ready.eq(words_a.ready & head.from_acc),
            free.eq(pending.valid & (~self.o.valid | self.o.ready)),
            pending.ready.eq(taken),
            self.read.eq(taken & head.read),
            self.o.payload.tag.eq(kept),
            self.busy.eq(~pendings.empty | self.o.valid),
        ]
        self._context = context = SlotFields(m, platform, self.slots).fields(head.step.slot)
        words_b = stream.Signature(word).create(path=("words_of_b",))
        m.d.comb += [words_b.valid.eq(b.valid), words_b.payload.eq(b.payload)]
        both, complete = [Signal(2, name=name) for name in ("both", "complete")]
        for i, (words, second, beats) in enumerate(
            ((words_a, b, head.beats_a), (words_b, a, head.beats_b))
        ):
            done, pair = self._collect(m, i, words, second, beats, head, free, taken)
            m.d.comb += [complete[i].eq(done), both[i].eq(pair)]
        m.d.comb += [
            taken.eq(free & complete.all()),
            a.ready.eq((words_a.ready & ~head.from_acc) | both[1]),
            b.ready.eq(words_b.ready | both[0]),
            self.consumed.eq(Cat(q.valid & q.ready for q in (a, b, sums))),
        ]
        with m.If(taken):
            m.d.sync += [kept.eq(head.step), self.o.valid.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        for name in ("a_zp", "b_zp", "b_none"):
            if cfg.vector_contexts == 1 and name != "b_none":
                m.d.comb += self.o.payload[name].eq(context[name])
                continue
            field = Signal.like(self.o.payload[name], name=name, reset_less=True)
            m.d.comb += self.o.payload[name].eq(field)
            with m.If(taken):
                m.d.sync += field.eq(context[name])
        merges, sums = Signal(reset_less=True), Signal(2, name="sums", reset_less=True)
        m.d.comb += [self.o.payload.merges.eq(merges), self.o.payload.sums.eq(sums)]
        adds, minus = adds_b(context), context["alu"] == Alu.SUB
        with m.If(taken):
            m.d.sync += [merges.eq(merges_b(context)), sums.eq(Cat(adds & ~minus, adds & minus))]
        return m

    def _collect(
        self, m: Module, i: int, words, second, beats: Value, head, free: Value, taken: Value
    ) -> tuple[Value, Value]:
        """Words of operand `i` into the lanes' registers; `second`: those of the other port.
        Returns: the last one comes or came; one of `second` is taken.
        """
        have = Signal(3, name=f"have_{i}")
        take, double, there = (Signal(name=f"{x}_{i}") for x in ("take", "double", "there"))
        m.d.comb += [
            double.eq(head.double[i] & (have + 2 <= beats)),
            there.eq(words.valid & (~double | second.valid)),
            take.eq(free & there & (have != beats)),
            words.ready.eq(take),
        ]
        with m.If(taken):
            m.d.sync += have.eq(0)
        with m.Elif(take):
            m.d.sync += have.eq(have + 1 + double)
        self._widen(m, "ab"[i], words.payload, second.payload, have, take, double)
        return (have == beats) | ((have + 1 + double == beats) & there), take & double

    def _widen(
        self,
        m: Module,
        name: str,
        words: Value,
        second: Value,
        have: Value,
        take: Value,
        double: Value,
    ) -> None:
        """The elements of word number `have` go to their lanes, as int32; double: those of the next
        word with them, which is `second`.
        """
        cols = self._config.cols
        dtype, one = (self._context[f"{name}_{x}"] for x in ("type", "one"))
        whole = self._context["a_space"] == Space.ACC if name == "a" else Const(0, 1)
        lanes = Signal(32 * cols, name=f"lanes_{name}", reset_less=True)
        m.d.comb += self.o.payload[name].eq(lanes)
        first = Signal(32, name=f"first_{name}")
        values = [Signal(32, name=f"value_{name}_{c}") for c in range(cols)]
        here = Signal(cols, name=f"here_{name}")
        with m.Switch(Cat(dtype, whole)):
            for kind in DType:
                bits = element_bits(kind)
                count = self._config.word_bytes * 8 // bits
                with m.Case(int(kind)):
                    m.d.comb += first.eq(_extend(words[:bits], kind))
                    for c in range(cols):
                        low, number = bits * (c % count), c // count
                        element, with_it = words[low : low + bits], have == number
                        if number % 2:
                            # Words come by twos from an even one on.
                            element = Mux(double, second[low : low + bits], element)
                            with_it = have == number - double
                        m.d.comb += [
                            values[c].eq(_extend(element, kind)),
                            here[c].eq(with_it),
                        ]
            if name == "a":
                with m.Default():
                    m.d.comb += [first.eq(words[:32]), here.eq(~0)]
                    m.d.comb += [
                        value.eq(words[32 * c : 32 * c + 32]) for c, value in enumerate(values)
                    ]
        for c in range(cols):
            with m.If(take & (one | here[c])):
                m.d.sync += lanes[32 * c : 32 * c + 32].eq(Mux(one, first, values[c]))


def _extend(element: Value, kind: DType) -> Value:
    """To 32 bits, by its sign or with zeros."""
    top = element[-1] if kind.signed else Const(0, 1)
    return Cat(element, top.replicate(32 - len(element)))
