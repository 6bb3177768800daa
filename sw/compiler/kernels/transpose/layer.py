"""TransposeLayer: elements brought into another order by the array.

The array multiplies the identity matrix by weights that are the tensor, read column by column
(decision 49). Bytes leave it as they came, transposed.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from spec.isa import Engine
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A dimension: elements, and bytes between them in the source and in the target."""

    size: int
    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeLayer(Layer):
    """The elements that `axes` find in `input`'s tensor, copied to their places in `output`'s.

    offset, target_offset: bytes before the first element in the tensors. Strides are positive.
    """

    engine: ClassVar[Engine] = Engine.MATRIX

    input: View
    axes: tuple[Axis, ...]
    offset: int
    target_offset: int

    @property
    def inputs(self) -> tuple[View, ...]:
        return (self.input,)

    @property
    def memory_views(self) -> tuple[View, ...]:
        return ()

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.output.item

    @property
    def signature(self) -> Hashable:
        return self.axes

    def __str__(self) -> str:
        axes = " ".join(f"{a.size}@{a.source}>{a.target}" for a in self.axes)
        return (
            f"transpose {self.name}: {self.output}+{self.target_offset} = "
            f"%{self.input.tensor}+{self.offset} {axes}"
        )
