"""The TOSA graph as it is built, and values in it: tensors with a layout and a scale."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from spec.numerics import scale_to_multiplier
from spec.sequences import Sequence as Operators
from sw.compiler.frontend.layout import Layout, transpose_steps
from sw.compiler.frontend.quantization.calibrate import HUGE
from sw.compiler.frontend.quantization.values import Format, Scale
from sw.compiler.frontend.sources import module_path, source_line
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.operators.checker import MAX_RANK, MAX_TENSORS
from sw.compiler.tosa.sequences import emit


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """`tensor` lies in memory as `layout` says and stands for scale · (tensor − zero_point).

    A scale per channel belongs to the logical dimension `axis`, which is innermost in memory.
    `factors`: an int32 tensor with an element for each row, and what a step of it is: rows are to
    be multiplied by them, which the product that alone reads the value does.
    """

    tensor: str
    layout: Layout
    scale: Scale
    zero_point: int = 0
    axis: int = -1
    factors: tuple[str, float] | None = None

    @staticmethod
    def of(tensor: str, layout: Layout, form: Format) -> "Value":
        """A tensor in format `form`."""
        return Value(
            tensor=tensor, layout=layout, scale=form.scale, zero_point=form.zero_point,
            axis=form.axis,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def channelwise(self) -> bool:
        return isinstance(self.scale, np.ndarray)

    @property
    def step(self) -> float:
        """The scale of a value that has only one."""
        assert isinstance(self.scale, float)
        return self.scale


_LARGEST_RATIO = {"int8": 2.0**23, "int16": 2.0**15, "int32": 2.0**28}
"""By the type of a RESCALE's input: a ratio at which one step saturates int16 already.

No value of int8 or int16 wraps around there.
"""


class Building:
    """A graph, and what rules add to it for the node `current`."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name=name)
        self.current: Node | None = None
        self._converted: dict[tuple[str, str, bytes, int], str] = {}

    def is_constant(self, value: Value) -> bool:
        return self.graph.tensors[value.tensor].is_constant

    def dtype(self, value: Value) -> str:
        return self.graph.tensors[value.tensor].dtype

    def quantized(self, name: str, data: NDArray[np.float64], want: Format) -> Value:
        """A constant tensor in format `want`."""
        if want.dtype == "bool":
            tensor = self.graph.add_constant(f"{name}_constant", data != 0, "bool")
            return Value(tensor=tensor, layout=Layout.of(data.shape), scale=1.0)
        bits = {"int8": 7, "int16": 15, "int32": 31}[want.dtype]
        limit = (1 << bits) - 1
        steps = np.rint(data / want.scale) + want.zero_point
        if bits == 31:  # masks: room for what is added to them
            steps = np.where(np.abs(data) < HUGE, steps, np.sign(data) * 2.0**30)
        tensor = self.graph.add_constant(
            f"{name}_constant", np.clip(steps, -limit - 1, limit), want.dtype
        )
        return Value.of(tensor, Layout.of(data.shape), want)

    def op(self, node: Node | None, kind: str, inputs: Sequence[str], attributes: Any = None,
           *, name: str = "", out_dtype: str = "") -> str:  # fmt: skip
        """Append an operator of `node` (None: what the present node needs besides its own)."""
        origin = node if node is not None else self.current
        name = self.graph.fresh_name(name or (node.name if node is not None else kind.lower()))
        source = ""
        if origin is not None:
            self.graph.modules[name] = module_path(origin)
            source = source_line(origin)
        return self.graph.add_op(
            kind, inputs, attributes, name=name, source=source, out_dtype=out_dtype
        )

    def concat(self, node: Node | None, tensors: Sequence[str], axis: int) -> str:
        """The tensors side by side along `axis` of memory, in several CONCATs if they are many."""
        while len(tensors) > MAX_TENSORS:
            runs = [tensors[i : i + MAX_TENSORS] for i in range(0, len(tensors), MAX_TENSORS)]
            tensors = [self.concat(node, run, axis) for run in runs]
        if len(tensors) == 1:
            return tensors[0]
        return self.op(node, "CONCAT", list(tensors), {"axis": axis})

    def scalar(self, value: int, dtype: str) -> str:
        """A one-element constant, shared by all users of that value."""
        name = f"{dtype}_{value}".replace("-", "m")
        if name not in self.graph.tensors:
            self.graph.add_constant(name, [value], dtype)
        return name

    def number(self, value: int, like: str) -> str:
        """An int32 constant of one element, of the rank of tensor `like`."""
        rank = len(self.graph.tensors[like].shape)
        name = f"number_{value}_{rank}".replace("-", "m")
        if name not in self.graph.tensors:
            self.graph.add_constant(name, np.full((1,) * rank, value), "int32")
        return name

    def sequence(self, node: Node, operators: Operators, *inputs: str) -> list[str]:
        """Append a sequence of `spec.sequences`; names of its results."""
        return emit(
            self.graph,
            operators,
            inputs,
            name=node.name,
            source=source_line(node),
            module=module_path(node),
        )

    def int32(self, node: Node, tensor: str) -> str:
        """`tensor` with 32 bits."""
        if self.graph.tensors[tensor].dtype == "int32":
            return tensor
        return self.op(node, "CAST", [tensor], name=f"{node.name}_cast", out_dtype="int32")

    def slice(
        self, node: Node, tensor: str, start: Sequence[int], size: Sequence[int], name: str = ""
    ) -> str:
        """SLICE of `size` from `start`, in memory order."""
        first = self.graph.add_constant(f"{node.name}_start", list(start), "shape")
        extent = self.graph.add_constant(f"{node.name}_size", list(size), "shape")
        return self.op(node, "SLICE", [tensor, first, extent], name=name)

    def reshaped(self, tensor: str, shape: Sequence[int]) -> str:
        """`tensor` under another shape of the same element order."""
        old = self.graph.tensors[tensor]
        if old.shape == tuple(shape):
            return tensor
        if old.data is not None:
            return self.graph.add_constant(tensor, old.data.reshape(shape), old.dtype)
        target = self.graph.add_constant(f"{tensor}_shape", list(shape), "shape")
        return self.op(None, "RESHAPE", [tensor, target], name=f"{tensor}_reshape")

    def ordered(self, value: Value, axes: Sequence[int] | None = None) -> Value:
        """`value` with its dimensions in memory order `axes` (row-major), one each.

        Transposed only where need be.
        """
        axes = range(len(value.shape)) if axes is None else axes
        shape = [value.shape[a] for a in axes]
        tensor = value.tensor
        if not value.layout.is_ordered(axes):
            assert not value.channelwise or axes[-1] == value.axis % len(value.shape)
            memory, perms = value.layout.transposition(axes)
            old = self.graph.tensors[tensor]
            if old.data is not None:
                data = old.data.reshape(memory).transpose(perms)
                tensor = self.graph.add_constant(tensor, data, old.dtype)
            else:
                name = f"{value.tensor}_transpose"
                for sizes, order in transpose_steps(memory, perms, MAX_RANK):
                    tensor = self.reshaped(tensor, sizes)
                    tensor = self.op(None, "TRANSPOSE", [tensor], {"perms": order}, name=name)
        tensor = self.reshaped(tensor, shape)
        return replace(value, tensor=tensor, layout=Layout.of(value.shape, axes))

    def rescale(self, tensor: str, ratio: Scale, dtype: str, *, input_zp: int = 0,
                output_zp: int = 0, name: str = "") -> str:  # fmt: skip
        """RESCALE by `ratio` (per channel if an array), saturating to `dtype`."""
        source = self.graph.tensors[tensor].dtype
        # Narrow results saturate, where larger ratios would wrap around. int32 may wrap around: the
        # difference of two such values is right again. Beyond 2^29 nothing but zero was ever seen.
        limit = _LARGEST_RATIO[source]
        ratios = np.atleast_1d(np.asarray(ratio, np.float64))
        ratios = np.where(ratios < (2.0**29 if dtype == "int32" else limit), ratios, limit)
        pairs = [scale_to_multiplier(float(r)) for r in ratios]
        name = name or f"{tensor}_rescale"
        multiplier = self.graph.add_constant(f"{name}_multiplier", [m for m, _ in pairs], "int32")
        shift = self.graph.add_constant(f"{name}_shift", [s for _, s in pairs], "int8")
        zps = [self.scalar(input_zp, source), self.scalar(output_zp, dtype)]
        return self.op(
            None,
            "RESCALE",
            [tensor, multiplier, shift, *zps],
            {"per_channel": isinstance(ratio, np.ndarray)},
            name=name,
            out_dtype=dtype,
        )

    def convert(self, value: Value, want: Format, name: str = "") -> Value:
        """`value` in another format: a RESCALE, or nothing."""
        if self.dtype(value) == "bool" and want.dtype != "bool":
            tensor = self.op(None, "CAST", [value.tensor], name=f"{name or value.tensor}_int8",
                             out_dtype="int8")  # fmt: skip
            value = replace(value, tensor=tensor)
        scale = want.scale
        if isinstance(scale, float) and scale == 0.0:  # int32 at the value's own scale
            if self.dtype(value) == "int32" and not value.channelwise:
                return value
            smallest = float(np.min(value.scale))
            scale = smallest / 256 if self.dtype(value) != "int32" else smallest
        alike = self.dtype(value) == want.dtype and value.zero_point == want.zero_point
        if alike and np.array_equal(value.scale, scale):
            return value
        rank = len(value.shape)
        other = value.channelwise and value.axis % rank != want.axis % rank
        if isinstance(scale, np.ndarray) and other:
            value = self.convert(value, Format(dtype="int32", scale=0.0), name)
        ratio: Scale = value.scale / scale
        axis = value.axis if value.channelwise else want.axis
        if isinstance(ratio, np.ndarray) and not self._channels_last(value, axis, len(ratio)):
            value = self.ordered(value, innermost(value.layout, axis))
        steps = np.asarray(ratio, np.float64).tobytes()
        key = (value.tensor, want.dtype, steps, want.zero_point)
        if key not in self._converted:
            self._converted[key] = self.rescale(
                value.tensor,
                ratio,
                want.dtype,
                input_zp=value.zero_point,
                output_zp=want.zero_point,
                name=f"{name or value.tensor}_{want.dtype}",
            )
        return Value.of(self._converted[key], value.layout, replace(want, scale=scale))

    def _channels_last(self, value: Value, axis: int, channels: int) -> bool:
        """Whether dimension `axis` is the tensor's last one as it lies."""
        shape = self.graph.tensors[value.tensor].shape
        factors = value.layout.suffix(axis % len(value.shape))
        return factors is not None and bool(shape) and shape[-1] == channels


def innermost(layout: Layout, axis: int) -> tuple[int, ...]:
    """A memory order with dimension `axis` last: the layout's own where it is one."""
    rank = len(layout.shape)
    own, axis = layout.axes, axis % rank
    if own is not None and own[-1] == axis:
        return own
    return (*(a for a in range(rank) if a != axis), axis)


def equal_ranks(value_shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """`value_shape` with ones in front."""
    return (*(1,) * (rank - len(value_shape)), *value_shape)
