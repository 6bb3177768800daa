"""The arguments of a call on the device: which are inputs of a program, which are its constants.

A program is compiled for its constants. Constants are parameters and views of them, arguments that
are parameters by their names or that the compiler's table wants to be constant, and numbers. All
other tensors are inputs.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_unflatten

from sw.compiler.frontend.operators import row_of
from sw.torch_backend.bind import version
from sw.torch_device.memory import host

Key = tuple[Any, ...]

_LEAST = 16
"""A call whose largest tensor has fewer values is left to the CPU."""

_PARAMETERS = ("weight", "bias", "running_mean", "running_var")
"""Names of arguments in PyTorch's schemas that take what a layer has learnt."""

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
        fixed = _fixed(op)
        names = [a.name for a in op._schema.arguments][: len(args)] + list(kwargs)
        for name, argument in zip(names, (*args, *kwargs.values()), strict=True):
            for leaf in tree_flatten(argument)[0]:
                if isinstance(leaf, torch.Tensor):
                    _require_device(op, leaf)
                    leaves.append(_operand(leaf, name in fixed))
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
        """The caller's tensors that a program is compiled for, without numbers."""
        held = (x.tensor for x in self.tensors if x.kind == "constant")
        return [_owner(t) for t in held if not _is_number(t)]

    @property
    def versions(self) -> tuple[int, ...]:
        """Change when a constant is written to."""
        return tuple(version(x.tensor) for x in self.tensors if x.kind == "constant")

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

    def key(self, values: bool = True) -> Key:
        """What a program depends on, but for versions of constants.

        Shapes, strides, types; of a float input its signs and the power of two above its largest
        magnitude, so that a program's ranges are never more than twice too wide. values:
        numbers and constants that are no parameters count.
        """
        curved = _is_curved(self.op)
        return (self.structure, *(_leaf_key(x, values, curved) for x in self.leaves))


@functools.cache
def _fixed(op: OpOverload) -> frozenset[str]:
    """Names of the arguments that have to be constants."""
    row = row_of(op)
    positions = () if row is None else row.constants
    names = [a.name for a in op._schema.arguments]
    return frozenset((*_PARAMETERS, *(names[at] for at in positions if at < len(names))))


def _owner(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that `tensor` is a view of, or itself."""
    base: torch.Tensor | None = tensor._base
    return tensor if base is None else base


def _operand(tensor: torch.Tensor, fixed: bool) -> Operand:
    parameter = isinstance(_owner(tensor), torch.nn.Parameter)
    kind = "constant" if fixed or parameter or _is_number(tensor) else "input"
    return Operand(kind=kind, tensor=tensor, host=host(tensor))


def _is_number(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 0 and tensor.device.type == "cpu"


def _leaf_key(leaf: Any, values: bool, curved: bool) -> Key:
    if not isinstance(leaf, Operand):
        return (type(leaf), None if isinstance(leaf, float) and not values else repr(leaf))
    tensor, owner = leaf.host, _owner(leaf.tensor)
    form = (tuple(tensor.shape), tensor.stride(), tensor.dtype)
    if leaf.kind == "input":
        return (*form, *_range_key(tensor, curved))
    if not values and not isinstance(owner, torch.nn.Parameter):
        return form
    if _is_number(leaf.tensor):
        return (*form, repr(tensor.item()))
    return (*form, id(owner), tensor.data_ptr())


def _is_curved(op: OpOverload) -> bool:
    """Whether results may be steep near zero: a quotient, a logarithm, what is rewritten."""
    row = row_of(op)
    return row is not None and row.rule in ("univariate", "divide", "")


def _range_key(tensor: torch.Tensor, curved: bool) -> Key:
    """Signs of a float tensor, powers of two above its largest and, if curved, least magnitude."""
    if tensor.dtype is not torch.float32:
        return ()
    low, high = (float(end) for end in tensor.aminmax())
    largest = max(-low, high)
    if not largest or not math.isfinite(largest):
        return (largest != 0,)
    top = math.frexp(largest)[1]
    least = max(low, -high, 0.0)
    near = max(math.frexp(least)[1], top - _OCTAVES) if curved and least else None
    return low < 0, high > 0, top, near


_OCTAVES = 12
"""Least magnitudes that are smaller than the largest by this power of two are all the same."""


def _require_device(op: OpOverload, tensor: torch.Tensor) -> None:
    name = op._schema.name.removeprefix("aten::")
    kind = tensor.device.type
    if kind != "systola" and tensor.dim() and name not in _INDICES:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"systola:0 and {tensor.device}! (operator aten::{name})"
        )
