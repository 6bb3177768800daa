"""One queue of instructions per sequencer."""

from amaranth.hdl import *
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.decode import decoded_layout
from hw_gen.layouts import instruction_layout, queued_layout
from spec.config import NpuConfig
from spec.isa import Opcode


def queues(config: NpuConfig) -> dict[str, Opcode]:
    """Outputs: ``o_<name>``. The weight sequencer reads its own copy of every MATRIX."""
    return {
        "load": Opcode.LOAD,
        "store": Opcode.STORE,
        "matrix": Opcode.MATRIX,
        "weights": Opcode.MATRIX,
        "vector": Opcode.VECTOR,
        **({"depthwise": Opcode.DEPTHWISE} if config.depthwise else {}),
    }


class InstructionQueues(wiring.Component):
    """Hands each instruction to the queue (or queues) of its opcode.

    Members
    -------
    i : ``In(stream)`` of `decoded_layout`; taken when every queue of its opcode has room.
    o_<name> : ``Out(stream)`` of `queued_layout`, for each of `queues`.
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
                    for name, opcode in queues(config).items()
                },
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        opcodes = queues(self._config)
        held = {}
        depth = self._config.queue_depth
        # The buffered one keeps one item in its output register: of two, a memory of one word,
        # whose address would be no bits wide.
        kind = fifo.SyncFIFOBuffered if depth > 2 else fifo.SyncFIFO
        for name, opcode in opcodes.items():
            width = queued_layout(opcode).as_shape().width
            held[name] = kind(width=width, depth=depth)
            m.submodules[name] = held[name]
            out = getattr(self, f"o_{name}")
            m.d.comb += [
                out.valid.eq(held[name].r_rdy),
                out.payload.eq(held[name].r_data),
                held[name].r_en.eq(out.ready),
                held[name].w_data.eq(self._queued(opcode)),
            ]
        with m.Switch(self.i.payload.opcode):
            for opcode in dict.fromkeys(opcodes.values()):
                ours = [held[n] for n, o in opcodes.items() if o is opcode]
                with m.Case(opcode):
                    ready = Cat(q.w_rdy for q in ours).all()
                    m.d.comb += self.i.ready.eq(ready)
                    m.d.comb += [q.w_en.eq(self.i.valid & ready) for q in ours]
        m.d.comb += self.empty.eq(Cat(q.level == 0 for q in held.values()).all())
        return m

    def _queued(self, opcode: Opcode) -> Value:
        width = instruction_layout(opcode).as_shape().width
        item = data.View(
            queued_layout(opcode),
            Cat(self.i.payload.word[:width], self.i.payload.index),
        )
        return item.as_value()
