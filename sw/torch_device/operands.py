"""The arguments of a call on the device: which are inputs of a program, which are its constants.

A program is compiled for its constants. Constants are parameters and views of them, operands that
the compiler's table wants to be constant, and numbers. All other tensors are inputs.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_unflatten

from sw.compiler.frontend.operators import row_of
from sw.torch_backend.bind import version
from sw.torch_device.kernels import on_host

Key = tuple[Any, ...]

_LEAST = 16
"""A call whose largest tensor has fewer values is left to the CPU."""

_INDICES = ("index", "index_put", "index_put_", "_index_put_impl_")
"""Operators whose indices may be on the CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A tensor of a call. kind: `input` or `constant`. tensor: the caller's; host: its memory."""

    kind: str
    tensor: torch.Tensor
    host: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """A call's arguments: `leaves` are operands, or values that are no tensors."""

    op: OpOverload
    leaves: tuple[Any, ...]
    structure: Any

    @classmethod
    def of(cls, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> "Operands":
        """RuntimeError for tensors of several devices."""
        leaves: list[Any] = []
        for position, argument in enumerate((*args, *kwargs.values())):
            for leaf in tree_flatten(argument)[0]:
                if isinstance(leaf, torch.Tensor):
                    _require_device(op, leaf)
                    leaves.append(_operand(op, position, leaf))
                else:
                    leaves.append(leaf)
        structure = tree_flatten((tuple(args), dict(kwargs)))[1]
        return cls(op=op, leaves=tuple(leaves), structure=structure)

    @property
    def tensors(self) -> list[Operand]:
        return [x for x in self.leaves if isinstance(x, Operand)]

    @property
    def inputs(self) -> list[torch.Tensor]:
        """The tensors that a program reads at run time, on the host."""
        return [x.host for x in self.tensors if x.kind == "input"]

    @property
    def constants(self) -> list[torch.Tensor]:
        """The caller's tensors that a program is compiled for."""
        return [x.tensor for x in self.tensors if x.kind == "constant"]

    @property
    def versions(self) -> tuple[int, ...]:
        """Change when a constant is written to."""
        return tuple(
            version(x.host) if x.tensor.is_inference() else x.tensor._version
            for x in self.tensors
            if x.kind == "constant"
        )

    def call(self, values: Iterator[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs) with the next of `values` in place of each tensor."""
        leaves = [next(values) if isinstance(x, Operand) else x for x in self.leaves]
        args, kwargs = tree_unflatten(leaves, self.structure)
        return args, kwargs

    def unfit(self) -> str:
        """Why the NPU is not asked at all; '' if it is."""
        hosts = [x.host for x in self.tensors]
        if not any(t.dtype is torch.float32 for t in hosts):
            return "no operand of float32"
        if max(t.numel() for t in hosts) < _LEAST:
            return f"fewer than {_LEAST} values"
        if any(not t.numel() for t in hosts):
            return "an empty tensor"
        return ""

    def key(self, numbers: bool = True) -> Key:
        """What a program depends on, but for versions of constants.

        Shapes, strides, types; of a float input the power of two above its largest magnitude, so
        that a program's ranges are never more than twice too wide. numbers: floats count.
        """
        return (self.structure, *(_leaf_key(x, numbers) for x in self.leaves))


def _operand(op: OpOverload, position: int, tensor: torch.Tensor) -> Operand:
    row = row_of(op)
    fixed = row is not None and position in row.constants
    scalar = tensor.dim() == 0 and tensor.device.type == "cpu"
    parameter = isinstance(tensor, torch.nn.Parameter) or isinstance(
        tensor._base, torch.nn.Parameter
    )
    kind = "constant" if fixed or scalar or parameter else "input"
    return Operand(kind=kind, tensor=tensor, host=on_host(tensor.detach()))


def _leaf_key(leaf: Any, numbers: bool) -> Key:
    if not isinstance(leaf, Operand):
        return (type(leaf), None if isinstance(leaf, float) and not numbers else repr(leaf))
    tensor = leaf.host
    form = (tuple(tensor.shape), tensor.stride(), tensor.dtype)
    if leaf.kind == "input":
        return (*form, _magnitude(tensor))
    if tensor.dim() == 0 and leaf.tensor.device.type == "cpu":
        return (*form, repr(tensor.item()) if numbers else None)
    return (*form, id(leaf.tensor._base if leaf.tensor._is_view() else leaf.tensor),
            tensor.data_ptr())  # fmt: skip


def _magnitude(tensor: torch.Tensor) -> int | None:
    """The power of two above a float tensor's largest magnitude; None if it has none."""
    if tensor.dtype is not torch.float32:
        return None
    largest = float(tensor.abs().max())
    return math.frexp(largest)[1] if largest and math.isfinite(largest) else None


def _require_device(op: OpOverload, tensor: torch.Tensor) -> None:
    name = op._schema.name.removeprefix("aten::")
    kind = tensor.device.type
    if kind != "systola" and tensor.dim() and name not in _INDICES:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"systola:0 and {tensor.device}! (operator aten::{name})"
        )
