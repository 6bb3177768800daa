"""GatherLayer: rows picked or placed by offsets that a tensor holds, through indexed DMA."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from spec.isa import Engine
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherLayer(Layer):
    """`batch` times `rows` rows of `row_bytes`; row i of a batch lies `offsets`[batch, i] bytes
    behind the batch's start in memory.

    Gathering reads there from `values` and writes the rows one after another to the output;
    `scatter` reads them one after another from `values` and writes there. On that far side batches
    are `far_bytes` apart. Both sides are dense.
    """

    engine: ClassVar[Engine] = Engine.LOAD

    values: View
    offsets: View
    batch: int
    rows: int
    row_bytes: int
    far_bytes: int
    scatter: bool = False

    @property
    def inputs(self) -> tuple[View, ...]:
        return (self.values, self.offsets)

    @property
    def signature(self) -> Hashable:
        return self.batch, self.rows, self.row_bytes

    def __str__(self) -> str:
        kind = "scatter" if self.scatter else "gather"
        return (
            f"{kind} {self.name}: {self.output} of {self.values} by {self.offsets}: "
            f"{self.batch} x {self.rows} rows of {self.row_bytes} bytes"
        )
