"""What the instructions of a layer are written into, and what they share with other layers."""

from dataclasses import dataclass

from spec.config import NpuConfig
from sw.compiler.kernels.views import View
from sw.compiler.program.constants import ConstantPool
from sw.compiler.program.virtual import Buffer, Place, VirtualProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitContext:
    """The program being made: instructions, constants, tensors, accumulator and table.

    `index`: number of the layer whose instructions are written.
    """

    config: NpuConfig
    virtual: VirtualProgram
    constants: ConstantPool
    tensors: dict[str, Buffer]
    acc: Buffer
    table: Buffer
    index: int = 0

    def held(self, view: View) -> Buffer | None:
        """The buffer of a tensor that lies on chip; None if it lies in memory."""
        buffer = self.tensors[view.tensor]
        return buffer if buffer.place is Place.SPAD else None
