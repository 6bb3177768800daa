"""MoveLayer: PAD, TRANSPOSE and copies, through LOAD and STORE alone."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from spec.isa import DType, Engine
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.views import DTYPE, View


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLayer(Layer):
    """PAD, TRANSPOSE or a copy: element i is source element i − `before`, or `value` outside.

    The source is `tensor` at `offset` bytes, with `source_shape` and byte strides (of any sign)
    per dimension. The result has as many dimensions; where `shape` is given, it is that piece of
    the output's tensor, at `target_offset` with `target_strides`, and otherwise the output itself.
    """

    engine: ClassVar[Engine] = Engine.LOAD

    tensor: str
    offset: int
    source_shape: tuple[int, ...]
    source_strides: tuple[int, ...]
    before: tuple[int, ...] = (0, 0, 0, 0)
    value: int = 0
    shape: tuple[int, ...] = ()
    target_offset: int = 0
    target_strides: tuple[int, ...] = ()

    @property
    def dtype(self) -> DType:
        return DTYPE[self.output.dtype]

    @property
    def target(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """(offset, shape, strides) of the result in the output's tensor, bytes."""
        if self.shape:
            return self.target_offset, self.shape, self.target_strides
        view = self.output
        return view.offset, view.shape, (*view.strides, view.item)

    @property
    def inputs(self) -> tuple[View, ...]:
        (n, h, w), shape = (0, 0, 0), (1, 1, 1, 1)
        if len(self.source_shape) == 4:
            n, h, w, _ = self.source_strides
            a, b, c, d = self.source_shape
            shape = (a, b, c, d)
        return (
            View(
                tensor=self.tensor,
                dtype=self.output.dtype,
                shape=shape,
                strides=(n, h, w),
                offset=self.offset,
            ),
        )

    @property
    def memory_views(self) -> tuple[View, ...]:
        """One side of a copy may lie on chip: then it is a LOAD or a STORE alone (`plan_move`)."""
        return () if self.copies else (*self.inputs, *self.outputs)

    @property
    def copies(self) -> bool:
        """Whether nothing is filled, and every element has its own place on both sides."""
        _, shape, strides = self.target
        whole = not any(self.before) and tuple(self.source_shape) == tuple(shape)
        sides = (self.source_strides, strides)
        return whole and all(
            step > 0 for side in sides for n, step in zip(shape, side, strict=True) if n > 1
        )

    @property
    def signature(self) -> Hashable:
        return self.source_shape, self.source_strides, self.before, self.target

    def __str__(self) -> str:
        offset, shape, strides = self.target
        where = f"+{offset}{list(shape)}@{list(strides)}" if self.shape else ""
        return (
            f"move {self.name}: {self.output}{where} = %{self.tensor}+{self.offset}"
            f"{list(self.source_shape)}@{list(self.source_strides)} before={list(self.before)} "
            f"value={self.value}"
        )
