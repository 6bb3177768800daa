"""The machine: fetch, and the engines around the state."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model import dma
from golden_model.access import Context
from golden_model.depthwise import DepthwiseEngine
from golden_model.engine import Blocked, Coroutine, Execute, Queue, engine
from golden_model.errors import HazardError, MachineFault
from golden_model.hazards import SHADOW_BYTES
from golden_model.matrix import Handshake, main_sequencer, weight_sequencer
from golden_model.memory import check_written, fill_inputs, read_port, write_port
from golden_model.program import Plan, Program, Programs
from golden_model.scheduler import Sequencer, schedule
from golden_model.state import State
from golden_model.vector import VectorEngine
from spec.available import require_memory
from spec.config import NpuConfig
from spec.exhaustive import exhaustive, handles
from spec.isa import FORMATS, ISA_DIGEST, REGIONS, Engine, Opcode
from spec.memmap import Fault
from spec.program import REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP, Image

Tensor = NDArray[Any]


class Machine:
    """Executes program images for one configuration. Running an image again is cheap."""

    def __init__(self, config: NpuConfig) -> None:
        self.config = config
        self.state = State(config)
        self._programs = Programs(config)

    @property
    def memory(self) -> list[NDArray[np.uint8]]:
        """Contents of each memory region."""
        return self.state.memory

    def run(
        self, image: Image, inputs: Mapping[str, Tensor], check: bool = True
    ) -> dict[str, Tensor]:
        """Outputs by name. inputs: one array per input port, of its shape and dtype.

        With `check`, reads of bytes never written and accesses that no semaphore orders raise
        `HazardError`; without, programs that have such may give anything, but for an output that
        is not written as a whole, which is a `HazardError` always. Raises `MachineFault`
        where the hardware would fault, `DeadlockError` where it would hang, `TensorError` for
        wrong inputs.
        """
        self.load(image)
        fill_inputs(self.memory[REGION_INPUT], image.inputs, inputs)
        self.execute(check)
        return {port.name: self.read(port.name) for port in image.outputs}

    def load(self, image: Image) -> None:
        """Take an image: memory regions of its sizes, constants in place, the rest zero."""
        require_memory(image.memory_bytes, f"program {image.info.get('name', '')}: its memory")
        self._image = image
        self._program = self._programs.get(image.program)
        for region in range(REGIONS):
            size = image.region_bytes(region) if region < 4 else 0
            self.memory[region] = np.zeros(size, np.uint8)
        self.memory[REGION_CONST][:] = image.constants
        self.state.written = None

    def write(self, name: str, tensor: Tensor) -> None:
        """Put one input tensor of the loaded image in memory."""
        write_port(self.memory[REGION_INPUT], self._image.inputs, name, tensor)

    def read(self, name: str) -> Tensor:
        """The output port `name` as it now is in memory.

        `HazardError` names its first byte that the last run of the program did not write.
        """
        tensor = read_port(self.memory[REGION_OUTPUT], self._image.outputs, name)
        port = next(port for port in self._image.outputs if port.name == name)
        check_written(self.state.written, port)
        return tensor

    def execute(self, check: bool = True) -> None:
        """Run the loaded program on the memory as it is, from an empty chip to END."""
        if check:
            regions = (REGION_OUTPUT, REGION_TEMP)
            stored = sum(self.memory[region].size for region in regions)
            require_memory(SHADOW_BYTES * stored, "the search for hazards in the program's memory")
        self.state.clear()
        execute_program(self.state, self._program, check)


_EXECUTE: dict[Engine, Callable[[], Execute]] = exhaustive(
    "golden_model.machine",
    Engine,
    {
        Engine.LOAD: lambda: dma.load,
        Engine.STORE: lambda: dma.store,
        Engine.VECTOR: lambda: VectorEngine().execute,
        Engine.DEPTHWISE: lambda: DepthwiseEngine().execute,
    },
    without=[Engine.FETCH, Engine.MATRIX],
)
"""How the engines of one sequencer execute their chunks, made anew for each run."""

handles(
    "golden_model.machine",
    Opcode,
    *(Opcode.BEGIN, Opcode.END, Opcode.REPEAT, Opcode.LOAD, Opcode.STORE),
    *(Opcode.MATRIX, Opcode.DEPTHWISE, Opcode.VECTOR),
)


def execute_program(state: State, program: Program, check: bool = True) -> None:
    """Run a decoded program on a state as it is, from START to END."""
    state.forget()
    state.written = np.zeros(state.memory[REGION_OUTPUT].size, np.uint8)
    context = Context(state, program, check)
    if check:
        _one_waiter_each(program)
    depth = state.config.queue_depth
    queues: dict[Engine, Queue] = {e: Queue(e, depth) for e in Engine if e is not Engine.FETCH}
    shared = Handshake()
    plans = program.plans(check)
    sequencers = [
        *(
            Sequencer(engine(context, queues[e], begin()), queues[e].position)
            for e, begin in _EXECUTE.items()
        ),
        Sequencer(weight_sequencer(context, shared), shared.position),
        Sequencer(
            main_sequencer(context, queues[Engine.MATRIX], shared), queues[Engine.MATRIX].position
        ),
        Sequencer(_fetch(context, plans, queues, shared), lambda: len(plans)),
    ]
    schedule(context, sequencers)


def _fetch(
    context: Context,
    plans: Sequence[Plan | None],
    queues: dict[Engine, Queue],
    shared: Handshake,
) -> Coroutine:
    """Hand instructions to the queues; returns at END once every engine is idle."""
    program = context.program
    for index, instruction in enumerate(program.instructions):
        if (index == 0) is not (instruction.opcode is Opcode.BEGIN):
            raise MachineFault(
                Fault.ILLEGAL_INSTRUCTION,
                "fetch",
                index,
                f"`{instruction}`: a program has BEGIN first and nowhere else",
            )
        plan = plans[index]
        if plan is not None:
            queue = queues[plan.engine]
            while queue.full:
                yield Blocked("fetch", index, f"waits: the queue of {queue.name} is full")
            queue.waiting.append(plan)
            if plan.engine is Engine.MATRIX:
                shared.plans.append(plan)
        elif instruction.opcode is Opcode.BEGIN:
            _check_digests(context.config, instruction["isa_digest"], instruction["config_digest"])
        else:
            while not all(queue.idle for queue in queues.values()):
                yield Blocked("fetch", index, "waits at END for the engines")
        yield None
    if program.error is not None:
        index = len(program.instructions)
        raise MachineFault(Fault.ILLEGAL_INSTRUCTION, "fetch", index, str(program.error))


def _check_digests(config: NpuConfig, isa: int, machine: int) -> None:
    for what, theirs, ours in (
        ("ISA digest", isa, ISA_DIGEST & FORMATS[Opcode.BEGIN].field("isa_digest").maximum),
        ("configuration digest", machine, config.digest()),
    ):
        if theirs != ours:
            raise MachineFault(
                Fault.DIGEST_MISMATCH,
                "fetch",
                0,
                f"{what} {theirs:#x} is not this machine's {ours:#x}; compile the program again",
            )


def _one_waiter_each(program: Program) -> None:
    for semaphore, timelines in sorted(program.waiters.items()):
        if len(timelines) > 1:
            index = max(
                i
                for i, instruction in enumerate(program.instructions)
                if any(s.sem == semaphore for s in instruction.waits)
            )
            names = ", ".join(sorted(t.name.lower() for t in timelines))
            raise HazardError(
                f"semaphore {semaphore} has several waiting sequencers ({names}); it may have one. "
                f"The last wait is in instruction {index} `{program.describe(index)}`",
                names,
                index,
                "semaphore",
                semaphore,
            )
