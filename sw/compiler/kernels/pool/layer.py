"""PoolLayer: maxima or averages over windows, computed by the vector engine alone."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from spec.isa import Engine
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.operands import Epilogue, epilogue_signature
from sw.compiler.kernels.views import View
from sw.compiler.kernels.windows import WindowAxis, WindowPart, crop, window_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLayer(Layer):
    """MAX_POOL2D or AVG_POOL2D with the epilogue's zero point, clamp and TABLE.

    `sums`: of an average only the int32 sums. `counts_padding`: an average is over the whole
    window, and padding is zeros.
    """

    engine: ClassVar[Engine] = Engine.VECTOR
    follows_rows: ClassVar[bool] = True

    input: View
    epilogue: Epilogue
    average: bool
    sums: bool = False
    counts_padding: bool = False
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    input_zp: int = 0

    @property
    def inputs(self) -> tuple[View, ...]:
        return (self.input,)

    def is_separate(self, cols: int) -> bool:
        """Whether rows of a window are taken together first, and then their columns.

        Neighbouring windows share what comes of the rows. That needs fewer steps unless windows
        lie far apart. A step takes two taps along a dimension (`pool.taps`).
        """
        rows, columns = self.kernel
        pairs_down, pairs_right = -(-rows // 2), -(-columns // 2)
        together = min(pairs_down * columns, rows * pairs_right)
        apart = pairs_down * self.stride[1] * self.row_share(cols) + pairs_right
        return not self.average and apart < together

    def row_share(self, cols: int) -> float:
        """Vectors of a row of the operand for each that it has pixel by pixel: fewer where pixels
        lie one after another, and are more than one vector, but no whole ones.

        Smaller pixels that lie so are in one bank with their neighbours.
        """
        channels = self.input.shape[3]
        dense = self.input.strides[2] == channels * self.input.item and channels > cols
        return channels / cols / -(-channels // cols) if dense else 1.0

    @property
    def memory_views(self) -> tuple[View, ...]:
        return ()

    @property
    def signature(self) -> Hashable:
        window = (self.kernel, self.stride, self.pad)
        kind = (self.average, self.sums, self.counts_padding)
        return epilogue_signature(self.epilogue), window, kind

    def split(self) -> Iterator["PoolLayer"]:
        axes = WindowAxis.of(self, (1, 1))
        yield from (self if part is None else self._cut(*part) for part in window_parts(axes))

    def _cut(self, y: WindowPart, x: WindowPart) -> "PoolLayer":
        """The part that computes outputs y.o0…y.o1, x.o0…x.o1."""
        return replace(
            self,
            name=f"{self.name}.y{y.o0}x{x.o0}",
            output=crop(self.output, y.outputs, x.outputs),
            input=crop(self.input, y.inputs, x.inputs),
            pad=(y.pad, x.pad),
            kernel=(y.taps, x.taps),
        )

    def __str__(self) -> str:
        kind = "avg_pool" if self.average else "max_pool"
        return (
            f"{kind} {self.name}: {self.output} = {self.input} k={self.kernel} s={self.stride} "
            f"p={self.pad} zp={self.input_zp}; {self.epilogue}"
        )
