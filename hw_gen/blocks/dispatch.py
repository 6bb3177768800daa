"""One queue of instructions per sequencer."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.decode import FETCHED, decoded_layout
from hw_gen.blocks.instruction_queue import InstructionQueue
from hw_gen.layouts import (
    STREAM_FIELDS,
    WEIGHT_FIELDS,
    instruction_layout,
    instruction_stream,
    rest_layout,
    selected,
    start_layout,
)
from spec.config import NpuConfig
from spec.exhaustive import exhaustive
from spec.isa import DISPLACED, Opcode
from spec.optional import absent_fields

QUEUES: dict[Opcode, tuple[str, ...]] = exhaustive(
    "hw_gen.blocks.dispatch",
    Opcode,
    {
        Opcode.LOAD: ("load",),
        Opcode.STORE: ("store",),
        Opcode.MATRIX: ("matrix", "weights"),
        Opcode.VECTOR: ("vector",),
        Opcode.DEPTHWISE: ("depthwise",),
    },
    without=FETCHED,
)
"""The queues that get each instruction. The weight sequencer reads its own copy of every MATRIX."""

WITHOUT = {"matrix": WEIGHT_FIELDS, "weights": STREAM_FIELDS}
"""What a queue leaves out of an instruction, for each that has not all of its engine's fields."""


def without(config: NpuConfig, name: str, opcode: Opcode) -> frozenset[str]:
    """Fields of `opcode` that its queue called `name` leaves out."""
    return WITHOUT.get(name, frozenset()) | absent_fields(config, opcode)


def queues(config: NpuConfig) -> dict[str, Opcode]:
    """The queues of a configuration and what is in them. Outputs: ``o_<name>``."""
    return {
        name: opcode
        for opcode, names in QUEUES.items()
        if config.depthwise or opcode is not Opcode.DEPTHWISE
        for name in names
    }


def instruction_streams(config: NpuConfig) -> dict[str, wiring.Signature]:
    """What each queue offers, by the name of its output."""
    return {
        f"o_{name}": instruction_stream(opcode, without(config, name, opcode))
        for name, opcode in queues(config).items()
    }


class InstructionQueues(wiring.Component):
    """Hands each instruction to the queue (or queues) of its opcode.

    Members
    -------
    i : ``In(stream)`` of `decoded_layout`; taken when every queue of its opcode has room.
    o_<name> : ``Out(instruction_stream)``, for each of `queues`.
    empty : no queue holds an instruction.

    Timing: an instruction a cycle, offered two cycles after it was taken.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(decoded_layout())),
                **{name: Out(each) for name, each in instruction_streams(config).items()},
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        opcodes = queues(self._config)
        held = {}
        instructions = {
            opcode: self._moved(m, opcode) for opcode in dict.fromkeys(opcodes.values())
        }
        for name, opcode in opcodes.items():
            dropped = without(self._config, name, opcode)
            queue = InstructionQueue(opcode, dropped, depth=self._config.queue_depth, name=name)
            m.submodules[name] = held[name] = queue
            m.d.comb += queue.i.payload.eq(self._item(opcode, dropped, instructions[opcode]))
            connect(m, queue.o, flipped(getattr(self, f"o_{name}")))
        with m.Switch(self.i.payload.opcode):
            for opcode in dict.fromkeys(opcodes.values()):
                ours = [held[n] for n, o in opcodes.items() if o is opcode]
                with m.Case(opcode):
                    ready = Cat(q.i.ready for q in ours).all()
                    m.d.comb += self.i.ready.eq(ready)
                    m.d.comb += [q.i.valid.eq(self.i.valid & ready) for q in ours]
        m.d.comb += self.empty.eq(Cat(q.empty for q in held.values()).all())
        return m

    def _moved(self, m: Module, opcode: Opcode) -> Signal:
        """The instruction with the addresses of this time."""
        layout = instruction_layout(opcode)
        word = self.i.payload.word[: layout.size]
        names = DISPLACED[opcode] if self._config.program_loops else ()
        for number, name in enumerate(names):
            low, width = layout[name].offset, layout[name].width
            word = Cat(word[:low], self.i.payload.moved[f"a{number}"][:width], word[low + width :])
        # A signal, as each field that is read would repeat all of an expression.
        moved = Signal(layout, name=f"{opcode.name.lower()}_word")
        m.d.comb += moved.eq(word)
        return moved

    def _item(self, opcode: Opcode, dropped: frozenset[str], instruction: Signal) -> Value:
        begins = selected(start_layout(opcode, dropped)["instr"].shape, instruction)
        used = [
            slot.amount != 0 for slots in (instruction.wait, instruction.post) for slot in slots
        ]
        rest = selected(rest_layout(opcode, dropped), instruction)
        return Cat(begins, *used, self.i.payload.index, rest)
