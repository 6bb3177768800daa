"""A layer of the vector engine as tile search and emitters see it: windows over operands.

An elementwise layer is one of 1 x 1 windows.
"""

from dataclasses import dataclass, replace

from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.views import View
from sw.compiler.machine.costs import VECTOR_TILE_CYCLES


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorWork:
    """Operands and result, as one row of elements where they are `flat`, and the window.

    `per_channel`: every channel has parameters. `cycles`: of the vector engine for a vector of
    results. `tile_cycles`: of a tile besides its vectors. `separate`: windows are taken by rows,
    then by columns, with a buffer between. `overlapping`: windows of neighbouring tiles read the
    same bytes, which each loads.
    """

    ins: tuple[View, ...]
    out: View
    per_channel: bool
    flat: bool = False
    cycles: float = 1
    tile_cycles: int = VECTOR_TILE_CYCLES
    separate: bool = False
    overlapping: bool = False
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)

    def reads(self, box: Box) -> Box:
        """What `box` of the result reads of an operand, clipped to it."""
        _, h, w, _ = self.ins[0].shape
        (ky, kx), (sy, sx), (py, px) = self.kernel, self.stride, self.pad
        y0, x0 = box.y0 * sy - py, box.x0 * sx - px
        y1, x1 = (box.y1 - 1) * sy - py + ky, (box.x1 - 1) * sx - px + kx
        return replace(box, y0=max(0, y0), y1=min(h, y1), x0=max(0, x0), x1=min(w, x1))

    def columns(self, tw: int) -> int:
        """Most columns of an operand that a tile of tw columns reads."""
        return min(self.ins[0].shape[2], (tw - 1) * self.stride[1] + self.kernel[1])

    def pixels(self, th: int, tw: int) -> int:
        """Most pixels of an operand that a tile of th x tw pixels reads."""
        rows = min(self.ins[0].shape[1], (th - 1) * self.stride[0] + self.kernel[0])
        return rows * self.columns(tw)
