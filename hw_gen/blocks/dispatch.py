"""One queue of instructions per sequencer."""

from amaranth.hdl import *
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.decode import decoded_layout
from hw_gen.layouts import instruction_layout, queued_layout
from spec.config import NpuConfig
from spec.isa import Opcode

QUEUES = {
    "load": Opcode.LOAD,
    "store": Opcode.STORE,
    "matrix": Opcode.MATRIX,
    "weights": Opcode.MATRIX,
    "vector": Opcode.VECTOR,
}
"""Outputs: ``o_<name>``. The weight sequencer reads its own copy of every MATRIX."""


class InstructionQueues(wiring.Component):
    """Hands each instruction to the queue (or queues) of its opcode.

    Members
    -------
    i : ``In(stream)`` of `decoded_layout`; taken when every queue of its opcode has room.
    o_load, o_store, o_matrix, o_weights, o_vector : ``Out(stream)`` of `queued_layout`.
    empty : no queue holds an instruction.

    Timing: an instruction a cycle, offered two cycles after it was taken.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(decoded_layout())),
                **{
                    f"o_{name}": Out(stream.Signature(queued_layout(opcode)))
                    for name, opcode in QUEUES.items()
                },
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        queues = {}
        depth = self._config.queue_depth
        # The buffered one keeps one item in its output register: of two, a memory of one word,
        # whose address would be no bits wide.
        kind = fifo.SyncFIFOBuffered if depth > 2 else fifo.SyncFIFO
        for name, opcode in QUEUES.items():
            width = queued_layout(opcode).as_shape().width
            queues[name] = kind(width=width, depth=depth)
            m.submodules[name] = queues[name]
            out = getattr(self, f"o_{name}")
            m.d.comb += [
                out.valid.eq(queues[name].r_rdy),
                out.payload.eq(queues[name].r_data),
                queues[name].r_en.eq(out.ready),
                queues[name].w_data.eq(self._queued(opcode)),
            ]
        with m.Switch(self.i.payload.opcode):
            for opcode in dict.fromkeys(QUEUES.values()):
                ours = [queues[n] for n, o in QUEUES.items() if o is opcode]
                with m.Case(opcode):
                    ready = Cat(q.w_rdy for q in ours).all()
                    m.d.comb += self.i.ready.eq(ready)
                    m.d.comb += [q.w_en.eq(self.i.valid & ready) for q in ours]
        m.d.comb += self.empty.eq(Cat(q.level == 0 for q in queues.values()).all())
        return m

    def _queued(self, opcode: Opcode) -> Value:
        width = instruction_layout(opcode).as_shape().width
        item = data.View(
            queued_layout(opcode),
            Cat(self.i.payload.word[:width], self.i.payload.index),
        )
        return item.as_value()
