"""Copies of elements between roots: what every lowering that moves data is made of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sw.compiler.kernels.layers import MoveLayer
from sw.compiler.kernels.views import View
from sw.compiler.lower.context import Context
from sw.compiler.tosa.graph import Op


@dataclass(frozen=True, slots=True)
class CopyAxis:
    """One dimension of a copy: elements of the target, byte strides in source and target.

    `source_size`: elements of the source, if it has not as many. `before`: elements of the target
    before the first of the source. Outside the source the target is filled with a value.
    """

    size: int
    source_stride: int
    target_stride: int
    source_size: int | None = None
    before: int = 0

    @property
    def extent(self) -> int:
        """Elements of the source."""
        return self.size if self.source_size is None else self.source_size


def copy_axes(
    sizes: Iterable[int], source_strides: Iterable[int], target_strides: Iterable[int]
) -> list[CopyAxis]:
    """The dimensions of a copy that fills nothing."""
    return [CopyAxis(*row) for row in zip(sizes, source_strides, target_strides, strict=True)]


def add_copy(
    ctx: Context,
    op: Op,
    source: tuple[str, int],
    target: View,
    dims: Sequence[CopyAxis],
    label: str,
    *,
    kind: str = "IDENTITY",
    value: int = 0,
    to: int = 0,
) -> None:
    """Add a layer that copies from `source` (root, byte offset) to `target`, `to` bytes on.

    label, kind: name of the layer, and the operator that it is reported as.
    """
    root, offset = source
    ctx.layers.append(
        MoveLayer(
            name=label,
            output=target,
            ops=(kind,),
            source=op.source,
            tensor=root,
            offset=offset,
            source_shape=tuple(d.extent for d in dims),
            source_strides=tuple(d.source_stride for d in dims),
            before=tuple(d.before for d in dims),
            value=value,
            shape=tuple(d.size for d in dims),
            target_offset=target.offset + to,
            target_strides=tuple(d.target_stride for d in dims),
        )
    )


def add_fill(ctx: Context, op: Op, root: str, target: View, value: int) -> None:
    """Add a layer that fills the row `target` with a value; of `root` it reads nothing."""
    nothing = CopyAxis(target.shape[3], 0, target.item, source_size=0)
    add_copy(ctx, op, (root, 0), target, [nothing], f"{op.name}.fill", kind="PAD", value=value)


def merged(dims: Sequence[CopyAxis]) -> list[CopyAxis]:
    """Without dimensions of one element, and with those joined that follow one another."""
    out: list[CopyAxis] = []
    for dim in dims:
        if dim.size == dim.extent == 1:
            continue
        whole = not dim.before and dim.size == dim.extent
        strides = (dim.size * dim.source_stride, dim.size * dim.target_stride)
        if out and whole and (out[-1].source_stride, out[-1].target_stride) == strides:
            last, n = out[-1], dim.size
            out[-1] = CopyAxis(
                last.size * n,
                dim.source_stride,
                dim.target_stride,
                last.extent * n,
                last.before * n,
            )
        else:
            out.append(dim)
    return out or [CopyAxis(1, 0, 0)]
