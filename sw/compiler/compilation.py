"""What a compilation starts from, and everything that the stages make of it."""

from dataclasses import dataclass

from spec.config import NpuConfig
from spec.isa import Instruction
from spec.program import Image
from sw.compiler.kernels.base import LayerProgram, Plan
from sw.compiler.kernels.families import Families
from sw.compiler.kernels.tiling import Planner
from sw.compiler.placement.residency import Residency
from sw.compiler.program.allocate import Peaks
from sw.compiler.program.constants import ConstantPool
from sw.compiler.program.jobs import Job
from sw.compiler.program.semaphores import Program
from sw.compiler.program.virtual import Buffer, VirtualInstruction, VirtualProgram
from sw.compiler.tosa.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to compile.

    `on_chip`: tensors between layers may stay on chip; else every layer's result is in memory.
    `keep_all`: and there it stays to the end, where it can be looked at (`Compilation.tensors`).
    `fold`: operators of constants are computed beforehand, and weights and biases packed; else the
    device computes and reads them as if they came with the inputs.
    """

    on_chip: bool = True
    keep_all: bool = False
    fold: bool = True


GIVEN = ("source", "config", "name", "options", "families", "planner")
"""What a compilation starts from; stages make the other fields of `Compilation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Everything that was given or made.

    `virtual`: instructions layer by layer; `scheduled`: in the order in which they can start;
    `program`: with waits and posts; `todo`: what the prediction has to know of it. `instructions`:
    what is executed; `stored`: what the image has.
    """

    source: Graph
    config: NpuConfig
    name: str
    options: Options
    families: Families
    planner: Planner
    graph: Graph
    layers: LayerProgram
    residency: Residency
    plans: list[Plan]
    tensors: dict[str, Buffer]
    constants: ConstantPool
    virtual: VirtualProgram
    peaks: Peaks
    scheduled: list[VirtualInstruction]
    program: Program
    todo: list[Job]
    predicted: list[int]
    predicted_bytes: tuple[int, int]
    instructions: list[Instruction]
    stored: list[Instruction]
    image: Image
