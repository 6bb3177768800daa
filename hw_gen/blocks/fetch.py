"""Program fetch: reads, decodes, checks and queues instructions; knows when the run is over."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.choose import any_of
from hw_gen.blocks.decode import Decoder, State
from hw_gen.blocks.dispatch import InstructionQueues, instruction_streams, queues
from hw_gen.blocks.dma_program import ProgramReader
from hw_gen.interfaces import EngineStatus, axi_read, program_start
from spec.config import NpuConfig
from spec.memmap import Stall


class Fetch(wiring.Component):
    """The FETCH engine.

    Members
    -------
    program : ``In(program_start(config))``. done : END was reached, the queues are empty and the
        engines idle; for one cycle.
    axi : AR and R channels, id 0.
    o_<name> : ``Out(instruction_stream)``, for each of `dispatch.queues`.
    engines_idle : every other engine reports idle.
    halt : a fault happened somewhere: request, take and hand out nothing more. Left by reset only.
    status : `EngineStatus`; idle outside a program.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "program": In(program_start(config)),
                "axi": Out(axi_read(config)),
                **{name: Out(each) for name, each in instruction_streams(config).items()},
                "engines_idle": In(1),
                "halt": In(1),
                "status": Out(EngineStatus),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader = reader = ProgramReader(self._config)
        m.submodules.decoder = decoder = Decoder(self._config)
        m.submodules.queues = waiting = InstructionQueues(self._config)
        connect(m, reader.axi, flipped(self.axi))
        connect(m, reader.o, decoder.i)
        connect(m, decoder.o, waiting.i)
        connect(m, decoder.granules, waiting.granules)
        for name in queues(self._config):
            connect(m, getattr(waiting, f"o_{name}"), flipped(getattr(self, f"o_{name}")))
        status, program = self.status, self.program
        m.d.comb += [
            reader.start.eq(program.start | decoder.jump),
            reader.address.eq(Mux(decoder.jump, decoder.section, program.address)),
            reader.bytes.eq(Mux(decoder.jump, decoder.left, program.bytes)),
            reader.halt.eq(self.halt | (decoder.state == State.FAULT)),
            # Neither what a REPEAT jumps away from, nor what lay behind the END of a program.
            waiting.drop.eq(decoder.flush | program.start),
            reader.flush.eq(decoder.ended | decoder.flush),
            decoder.flushed.eq(reader.idle),
            decoder.start.eq(program.start),
            decoder.address.eq(program.address),
            decoder.bytes.eq(program.bytes),
            decoder.exhausted.eq(reader.exhausted),
            decoder.halt.eq(self.halt),
            decoder.finish.eq(program.done),
            program.done.eq(
                decoder.ended & reader.idle & waiting.empty & self.engines_idle & ~self.halt
            ),
            status.index.eq(decoder.index),
            status.idle.eq((decoder.state == State.IDLE) & reader.idle & waiting.empty),
            status.rests.eq(
                (status.idle | (status.stall == Stall.PIPELINE)) & ~self._moves(reader)
            ),
            status.fault.eq(decoder.fault & ~self.halt),
            status.cause.eq(decoder.cause),
            status.fault_index.eq(decoder.index),
        ]
        self._classify(m, decoder)
        return m

    def _moves(self, reader: ProgramReader) -> Value:
        """Something comes, goes, begins or ends."""
        streams = [reader.o, *(getattr(self, f"o_{name}") for name in queues(self._config))]
        asked = self.axi.arvalid & self.axi.arready
        events = [self.program.start, self.program.done, asked, self.axi.rvalid]
        return any_of([*events, *(each.valid & each.ready for each in streams)])

    def _classify(self, m: Module, decoder: Decoder) -> None:
        """A full queue counts as PIPELINE: the engine behind it has the real reason."""
        stall = self.status.stall
        with m.Switch(decoder.state):
            with m.Case(State.IDLE, State.END, State.FAULT):
                m.d.comb += stall.eq(Stall.IDLE)
            with m.Case(State.ASSEMBLE):
                m.d.comb += stall.eq(Mux(decoder.i.valid, Stall.BUSY, Stall.MEMORY))
            with m.Case(State.REPEAT):
                m.d.comb += stall.eq(Stall.MEMORY)
            with m.Case(State.CHECK, State.MOVE):
                m.d.comb += stall.eq(Stall.BUSY)
            with m.Default():
                moves = decoder.o.ready | ~decoder.o.valid
                m.d.comb += stall.eq(Mux(moves, Stall.BUSY, Stall.PIPELINE))
