"""One queue of instructions per sequencer."""

from collections.abc import Callable

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.decode import FETCHED, decoded_layout
from hw_gen.blocks.instruction_queue import InstructionQueue, item_of, moved_instruction
from hw_gen.blocks.narrow_queue import NarrowQueue, Parts, granules
from hw_gen.layouts import (
    STREAM_FIELDS,
    WEIGHT_FIELDS,
    instruction_stream,
)
from hw_gen.platform import asks_for
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
    granules : of instructions that will come; for narrow queues. drop : instructions that were not
        handed over by now will not come.
    o_<name> : ``Out(instruction_stream)``, for each of `queues`.
    empty : no queue holds an instruction.

    Timing: an instruction a cycle, offered two cycles after it was taken. Narrow queues take longer
    (`NarrowQueue`).
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(decoded_layout())),
                "granules": In(granules()),
                "drop": In(1),
                **{name: Out(each) for name, each in instruction_streams(config).items()},
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        opcodes = queues(self._config)
        make = self._narrow(m) if asks_for(platform, "for_fpga") else self._wide(m)
        held = {}
        for name, opcode in opcodes.items():
            m.submodules[name] = held[name] = queue = make(m, name, opcode)
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

    def _displaced(self, opcode: Opcode) -> tuple[str, ...]:
        """Fields of addresses that may be others each time."""
        return DISPLACED[opcode] if self._config.program_loops else ()

    def _wide(self, m: Module) -> Callable[[Module, str, Opcode], InstructionQueue]:
        """Makes queues that get whole instructions."""
        payload = self.i.payload
        instructions = {
            opcode: moved_instruction(
                m,
                opcode,
                payload.word,
                {name: payload.moved[f"a{n}"] for n, name in enumerate(self._displaced(opcode))},
            )
            for opcode in dict.fromkeys(queues(self._config).values())
        }

        def make(m: Module, name: str, opcode: Opcode) -> InstructionQueue:
            dropped = without(self._config, name, opcode)
            queue = InstructionQueue(opcode, dropped, depth=self._config.queue_depth, name=name)
            item = item_of(opcode, dropped, instructions[opcode], payload.index)
            m.d.comb += queue.i.payload.eq(item)
            return queue

        return make

    def _narrow(self, m: Module) -> Callable[[Module, str, Opcode], NarrowQueue]:
        """Makes queues that get parts of granules, and later what is not in them."""
        m.submodules.parts = parts = Parts()
        connect(m, flipped(self.granules), parts.i)
        m.d.comb += parts.drop.eq(self.drop)
        payload = self.i.payload

        def make(m: Module, name: str, opcode: Opcode) -> NarrowQueue:
            dropped, displaced = without(self._config, name, opcode), self._displaced(opcode)
            queue = NarrowQueue(
                opcode, dropped, depth=self._config.queue_depth, displaced=displaced
            )
            connect(m, parts.o, queue.parts)
            handed = queue.i.payload
            m.d.comb += [
                queue.drop.eq(self.drop),
                handed.index.eq(payload.index),
                *(handed[f"a{n}"].eq(payload.moved[f"a{n}"]) for n in range(len(displaced))),
            ]
            return queue

        return make
