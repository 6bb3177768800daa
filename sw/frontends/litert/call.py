"""What the function of an operator is told: its options, and the constants among its operands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from sw.frontends.litert import schema
from sw.frontends.litert.errors import LiteRtError
from sw.frontends.litert.grids import settled
from sw.frontends.litert.records import Array, Operator, Pads, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operator of a file.

    inputs: None for an operand that is left out; those that are constants have `data`. Functions
    take the operands that are values as tensors, floats for quantized ones.
    """

    file: str
    operator: Operator
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    options_class: str = ""

    def fail(
        self, message: str, hint: str = "convert the model again", tensor: Tensor | None = None
    ) -> NoReturn:
        """Raise `LiteRtError` for this operator."""
        raise LiteRtError(
            message,
            file=self.file,
            operator=str(self.operator),
            tensor=tensor.name if tensor else "",
            hint=hint,
        )

    @property
    def options(self) -> Any:
        """The options of the operator; those that the schema has by default where it has none."""
        given = self.operator.options
        if given is None:
            return schema.no_options(self.options_class)
        if type(given).__name__ != self.options_class:
            self.fail(f"options of class {type(given).__name__}, not {self.options_class}")
        return given

    def has(self, index: int) -> bool:
        """Whether operand `index` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def array(self, index: int) -> Array:
        """The constant operand `index`."""
        tensor = self.inputs[index] if self.has(index) else None
        if tensor is None:
            self.fail(f"operand {index} is missing")
        if tensor.data is None:
            self.fail(
                f"operand {index} is computed at run time; it must be a constant",
                "convert the model with fixed shapes",
                tensor,
            )
        return tensor.data

    def ints(self, index: int) -> list[int]:
        """The integers of the constant operand `index`."""
        return [int(v) for v in self.array(index).reshape(-1)]

    def real(self, index: int) -> float:
        """The real value of the constant scalar operand `index`."""
        tensor, array = self.inputs[index], self.array(index).reshape(-1)
        q = tensor.quantization if tensor is not None else None
        if q is None:
            return float(array[0])
        return (int(array[0]) - q.zero_point[0]) * q.scale[0]

    def axes(self, index: int, rank: int) -> list[int]:
        """The dimensions that the constant operand `index` names, from 0 to `rank` − 1."""
        return [self.axis(a, rank) for a in self.ints(index)]

    def axis(self, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} of a tensor of {rank} dimensions")
        return axis % rank

    def is_constant(self, index: int) -> bool:
        tensor = self.inputs[index] if self.has(index) else None
        return tensor is not None and tensor.data is not None

    def image(self, x: torch.Tensor, index: int = 0) -> torch.Tensor:
        """`x`, operand `index`, as [N, C, H, W].

        It is quantized there once more, which changes nothing: the importer looks for the grid of a
        pool's operand right in front of it.
        """
        tensor = self.inputs[index]
        return nchw(x) if tensor is None else settled(nchw(x), tensor)

    def activated(self, x: torch.Tensor) -> torch.Tensor:
        """`x` through the activation that is fused into the operator."""
        number = int(self.options.FusedActivationFunction())
        if number not in _ACTIVATIONS:
            self.fail(f"the fused activation {number} is not taken", "convert the model without it")
        return _ACTIVATIONS[number](x)


_ACTIVATIONS: dict[int, Callable[[torch.Tensor], torch.Tensor]] = {
    0: lambda x: x,
    1: torch.relu,
    2: lambda x: torch.clamp(x, -1.0, 1.0),
    3: lambda x: torch.clamp(x, 0.0, 6.0),
    4: torch.tanh,
}
"""By their numbers in the schema: none, RELU, RELU_N1_TO_1, RELU6, TANH."""


def nchw(x: torch.Tensor) -> torch.Tensor:
    """An image [N, H, W, C] as [N, C, H, W]."""
    return x.permute(0, 3, 1, 2)


def nhwc(x: torch.Tensor) -> torch.Tensor:
    """An image [N, C, H, W] as [N, H, W, C]."""
    return x.permute(0, 2, 3, 1)


def same_pads(
    size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Pads:
    """(before, behind) of height and width, for padding SAME: the larger half is behind."""
    pads = []
    for extent, k, s, d in zip(size, kernel, stride, dilation, strict=True):
        total = max((-(-extent // s) - 1) * s + (k - 1) * d + 1 - extent, 0)
        pads.append((total // 2, total - total // 2))
    height, width = pads
    return height, width
