"""Weights on their way to the array: read a little ahead of the fold that they are for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw_gen.blocks.adders import fast_sum, passes_end, two_of
from hw_gen.blocks.array import weight_vectors
from hw_gen.blocks.choose import any_of
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.operands import OPERAND, first_lanes, last_or, operands
from hw_gen.checks import check
from hw_gen.interfaces import READ_LATENCY, spad_read
from hw_gen.layouts import LANES, STREAM_FIELDS, engine_layout, field_shape
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, Opcode
from spec.optional import absent_fields

AHEAD = 2 * READ_LATENCY
"""Vectors that may be read and not yet be in the array: enough for one a cycle without a gap."""


def beside_tag() -> data.StructLayout:
    """What belongs to a vector that enters the array beside another, whose tag has the rest."""
    return data.StructLayout(
        {
            "size": LANES,
            "zp": field_shape(Opcode.MATRIX, "wgt_zp"),
            "unsigned": 1,
            "fires": 1,
        }
    )


def vector_ports(config: NpuConfig) -> dict[str, wiring.Member]:
    """Scratchpad ports of the vectors that enter the array in a cycle, by name."""
    beside = {
        f"wgt_{n}": Out(spad_read(config, beside_tag())) for n in range(1, config.weight_rows)
    }
    return {"wgt": Out(spad_read(config, vector_tag())), **beside}


def vector_tag(opcode: Opcode = Opcode.MATRIX) -> data.StructLayout:
    """What belongs to a weight vector that was asked for; `last` of its fold, which then posts if
    it `fires`."""
    return data.StructLayout(
        {
            "size": LANES,
            "zp": field_shape(opcode, "wgt_zp"),
            "unsigned": 1,
            "across": 1,
            "last": 1,
            "fires": 1,
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fold:
    """What is asked for next of a fold.

    valid : there is a fold. addrs : of the vectors that enter the array in one cycle. vector :
    number of the first of them; the fold has `vectors` of `size` bytes. zp, unsigned, across : how
    they are taken. fires : it posts when all have come.
    """

    valid: Value
    addrs: Sequence[Value]
    vector: Value
    vectors: Value
    size: Value
    zp: Value
    unsigned: Value
    across: Value
    fires: Value


def all_of(first: Value, *others: Value) -> Value:
    return reduce(and_, others, first)


class WeightFeed(wiring.Component):
    """Reads the weights of each fold, and lets them into the array as soon as its shadow is free.

    They come as vectors: the R rows of the fold, or its C columns if `transposed`. The array takes
    the first vector of a fold in the cycle in which the swap of the fold before enters it. Up to
    `AHEAD` vectors are read before, and wait in a FIFO. Where the array takes `weight_rows` vectors
    in a cycle, each of them has a port and a FIFO: all are asked for in one cycle, and enter the
    array together, when the last of them has come.

    Members
    -------
    step, instr : the weight sequencer's steps, one per fold, and their instruction.
    wgt, wgt_1, … : scratchpad ports, `weight_rows` of them (all: `wgts`).
    have : all weights of the next fold were asked for, and so its waits are met: its activations
        may be read; begin : they begin to be.
    loaded : the array has all weights of the next fold, whose swap may enter; entering : it does.
    o : ``Out(weight_vectors(config))``, to the array.
    fire : the scratchpad has delivered the last weights of a fold that posts.
    halt : read nothing more. bad : the next vector does not lie in the scratchpad.

    Timing: `weight_rows` vectors a cycle. A fold that streams one vector takes R / weight_rows
    cycles, transposed C / weight_rows, rounded up.
    """

    def __init__(self, config: NpuConfig, step: data.StructLayout):
        self._config = config
        without = absent_fields(config, Opcode.MATRIX) | STREAM_FIELDS
        super().__init__(
            {
                "step": In(stream.Signature(step)),
                "instr": In(engine_layout(Opcode.MATRIX, without)),
                **vector_ports(config),
                "have": Out(1),
                "begin": In(1),
                "entering": In(1),
                "loaded": Out(1),
                "o": Out(weight_vectors(config)),
                "fire": Out(1),
                "halt": In(1),
                "bad": Out(1),
            }
        )
        self.wgts = [getattr(self, name) for name in vector_ports(config)]

    def elaborate(self, platform):
        m = Module()
        read, final, pop, more = (Signal(name=n) for n in ("read", "final", "pop", "more"))
        # Folds that were asked for to the last vector and have not begun. Nothing is read for a
        # third one: its weights may be written as long as the first has not begun.
        ahead, folds = Signal(range(AHEAD + 1)), Signal(range(3))
        m.d.sync += [ahead.eq(ahead + read - pop), folds.eq(folds + (read & final) - self.begin)]
        m.d.comb += [
            self.have.eq(folds != 0),
            more.eq((ahead != AHEAD) & (folds != 2)),
            self.fire.eq(self._delivered(m)),
        ]
        self._read(m, platform, read, more, final)
        self._feed(m, platform, pop)
        check(m, platform, ~pop | (ahead != 0), "matrix: weights that were not read")
        check(m, platform, ~self.begin | self.have, "matrix: a fold begins before its weights")
        return m

    def _delivered(self, m: Module) -> Value:
        """The last weights of a fold that posts have come, through every port."""
        fires = [port.data_valid & port.data_tag.fires for port in self.wgts]
        if len(fires) == 1:
            return fires[0]
        # Ports answer each in order, but not all at the same time.
        early = [Signal(range(AHEAD + 1), name=f"delivered_{n}") for n in range(len(fires))]
        every = Signal(name="every_port_delivered")
        m.d.comb += every.eq(Cat(f | (n != 0) for f, n in zip(fires, early, strict=True)).all())
        m.d.sync += [n.eq(n + f - every) for f, n in zip(fires, early, strict=True)]
        return every

    def _read(self, m: Module, platform, read: Signal, more: Value, final: Signal) -> None:
        """Ask for the vectors; `final`: these are the fold's last ones."""
        many = self._config.weight_rows
        fold = self._fold(m, platform, read, final)
        exists: list[Value] = [Const(1, 1)]
        for n in range(1, many):
            # A fold may end before the vector: then it has no bytes.
            exists.append(Signal(name=f"exists_{n}"))
            m.d.comb += exists[n].eq(fold.vector + n < fold.vectors)
        ends = [
            passes_end(m, platform, f"weights_{n}", addr, fold.size, self._config.spad_bytes)
            for n, addr in enumerate(fold.addrs)
        ]
        bad = any_of(is_one & end for is_one, end in zip(exists, ends, strict=True))
        # All are asked for or none; `ready` comes from a flip-flop.
        ready = [port.ready for port in self.wgts[1:]]
        m.d.comb += [
            self.bad.eq(fold.valid & more & bad),
            final.eq(
                fold.vector + many >= fold.vectors if many > 1 else fold.vector + 1 == fold.vectors
            ),
            self.wgt.valid.eq(all_of(fold.valid & more & ~self.bad & ~self.halt, *ready)),
            self.wgt.tag.across.eq(fold.across),
            self.wgt.tag.last.eq(final),
            read.eq(self.wgt.valid & self.wgt.ready),
        ]
        for n, port in enumerate(self.wgts):
            size = fold.size if n == 0 else Mux(exists[n], fold.size, 0)
            m.d.comb += [
                port.addr.eq(fold.addrs[n]),
                port.size.eq(size),
                port.tag.size.eq(size),
                port.tag.zp.eq(fold.zp),
                port.tag["unsigned"].eq(fold.unsigned),
                port.tag.fires.eq(final & fold.fires),
            ]
            if n:
                m.d.comb += port.valid.eq(read)

    def _sizes(self) -> tuple[Value, Value, Value]:
        """(number of the step's vectors, bytes of each, whether they are columns)."""
        step, instr = self.step.payload, self.instr
        across = instr.transposed if self._config.transposed_weights else Const(0, 1)
        rows = last_or(step.at_last, instr.row_loop, instr.rows_last, instr.rows)
        cols = last_or(step.at_last, instr.col_loop, instr.cols_last, instr.cols)
        return Mux(across, cols, rows), Mux(across, rows, cols), across

    def _fold(self, m: Module, platform, read: Signal, final: Signal) -> _Fold:
        """A step's fold in registers.

        No path leads from the sequencer to the scratchpad's answer and back. Vectors beside the
        first lie behind a sum, which takes the cycle in which the step is accepted: the sequencer
        goes on meanwhile, also to the next instruction.
        """
        step, instr, many = self.step.payload, self.instr, self._config.weight_rows
        active, accept = Signal(), Signal()
        vector = Signal(LANES)
        addrs = [Signal(CHIP_BITS, name=f"addr_{n}") for n in range(many)]
        pitch = Signal(CHIP_BITS)
        vectors, size = Signal(LANES, name="vectors"), Signal(LANES, name="size")
        zp, across = Signal.like(instr.wgt_zp, name="zp"), Signal()
        unsigned, fires = Signal(name="is_unsigned"), Signal()
        counted, length, columns = self._sizes()
        m.d.comb += [
            self.step.ready.eq(~active | (read & final)),
            accept.eq(self.step.valid & self.step.ready),
        ]
        with m.If(self.step.ready):
            m.d.sync += active.eq(self.step.valid)
        with m.If(accept):
            m.d.sync += [
                vector.eq(0),
                pitch.eq(instr.wgt_row << exact_log2(many)),
                vectors.eq(counted),
                size.eq(length),
                zp.eq(instr.wgt_zp),
                unsigned.eq(instr.wgt_unsigned),
                across.eq(columns),
                fires.eq(step.fires[0]),
            ]
            for n, addr in enumerate(addrs):
                distance = [instr.wgt_row << k for k in range(n.bit_length()) if n >> k & 1]
                parts = two_of([step.wgt, *distance], CHIP_BITS)
                m.d.sync += addr.eq(fast_sum(m, platform, f"begin_{n}", *parts) if n else step.wgt)
        with m.Elif(read):
            m.d.sync += vector.eq(vector + many)
            m.d.sync += [addr.eq(addr + pitch) for addr in addrs]
        return _Fold(
            valid=active,
            addrs=addrs,
            vector=vector,
            vectors=vectors,
            size=size,
            zp=zp,
            unsigned=unsigned,
            across=across,
            fires=fires,
        )

    def _feed(self, m: Module, platform, pop: Signal) -> None:
        """Vectors go to the array in order, past the FIFO where it is empty."""
        lanes = max(self._config.rows, self._config.cols)
        layout = data.StructLayout({"weights": OPERAND.width * lanes, "across": 1, "last": 1})
        came, head, keep = Signal(layout), Signal(layout), Signal(lanes)
        late = self.wgt.data_tag
        m.submodules.line = line = Fifo(layout, depth=AHEAD, latency=1)
        here = line.o.valid | self.wgt.data_valid
        beside = [self._line(m, platform, n, pop) for n in range(1, len(self.wgts))]
        m.d.comb += [
            keep.eq(first_lanes(late.size, lanes)),
            came.weights.eq(operands(self.wgt.data, late["unsigned"], late.zp, keep, lanes)),
            came.across.eq(late.across),
            came.last.eq(late.last),
            head.eq(Mux(line.o.valid, line.o.payload, came)),
            pop.eq(all_of(here, *(there for there, _ in beside)) & (~self.loaded | self.entering)),
            line.o.ready.eq(pop),
            line.i.valid.eq(self.wgt.data_valid & (line.o.valid | ~pop)),
            line.i.payload.eq(came),
        ]
        m.d.sync += self.o.valid.eq(pop)
        weights = Cat(head.weights, *(more for _, more in beside)) if beside else head.weights
        with m.If(pop):
            m.d.sync += [self.o.data.eq(weights), self.o.across.eq(head.across)]
        # The shadow weights are complete, and no swap has taken them.
        with m.If(pop & head.last):
            m.d.sync += self.loaded.eq(1)
        with m.Elif(self.entering):
            m.d.sync += self.loaded.eq(0)
        check(m, platform, ~self.entering | self.loaded, "matrix: swap without new weights")
        check(m, platform, ~line.i.valid | line.i.ready, "matrix: weights without room")

    def _line(self, m: Module, platform, n: int, pop: Signal) -> tuple[Value, Value]:
        """Vectors of another port, as they come; returns: one is here, and its operands."""
        port, tag = self.wgts[n], self.wgts[n].data_tag
        lanes = max(self._config.rows, self._config.cols)
        came, keep = Signal(OPERAND.width * lanes, name=f"came_{n}"), first_lanes(tag.size, lanes)
        m.submodules[f"line_{n}"] = line = Fifo(len(came), depth=AHEAD, latency=1)
        m.d.comb += [
            came.eq(operands(port.data, tag["unsigned"], tag.zp, keep, lanes)),
            line.o.ready.eq(pop),
            line.i.valid.eq(port.data_valid & (line.o.valid | ~pop)),
            line.i.payload.eq(came),
        ]
        check(m, platform, ~line.i.valid | line.i.ready, f"matrix: weights {n} without room")
        return line.o.valid | port.data_valid, Mux(line.o.valid, line.o.payload, came)
