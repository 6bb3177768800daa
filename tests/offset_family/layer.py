"""OffsetLayer: every element plus a constant."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from spec.isa import Engine
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLayer(Layer):
    """output = input + constant, both dense int32."""

    engine: ClassVar[Engine] = Engine.VECTOR

    input: View
    constant: int

    @property
    def inputs(self) -> tuple[View, ...]:
        return (self.input,)

    @property
    def signature(self) -> Hashable:
        return ()

    def __str__(self) -> str:
        return f"offset {self.name}: {self.output} = {self.input} + {self.constant}"
