"""ElementwiseLayer: one VECTOR over operands of equal shape."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from spec.isa import Alu, Engine
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.operands import Epilogue, Operand, epilogue_signature
from sw.compiler.kernels.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementwiseLayer(Layer):
    """RESCALE, CLAMP, TABLE, ADD, SUB, MAXIMUM, MINIMUM on equal shapes: alu(a, b), epilogue.

    The epilogue's bias is unused; its RESCALE may be per channel (last dimension).
    """

    engine: ClassVar[Engine] = Engine.VECTOR

    a: Operand
    epilogue: Epilogue
    alu: Alu = Alu.PASS
    b: Operand | None = None

    @property
    def inputs(self) -> tuple[View, ...]:
        return (self.a.view,) if self.b is None else (self.a.view, self.b.view)

    @property
    def memory_views(self) -> tuple[View, ...]:
        return ()

    @property
    def signature(self) -> Hashable:
        return epilogue_signature(self.epilogue)

    def __str__(self) -> str:
        right = f", {self.b}" if self.b is not None else ""
        return (
            f"elementwise {self.name}: {self.output} = {self.alu.name}({self.a}{right}); "
            f"{self.epilogue}"
        )
