"""What PyTorch calls for operators on the device: memory and views here, the rest by the session.

A view changes no memory, and its kernel for the CPU looks at none. It serves the device as well.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from sw.compiler.frontend.operator_sets import MOVES, SAME, aten
from sw.compiler.frontend.operators import ROWS
from sw.torch_backend.gradients import without_gradient
from sw.torch_device.errors import DeviceError
from sw.torch_device.interface import set_device
from sw.torch_device.memory import CPU, allocate, contiguous_strides, host

Call = Callable[..., Any]

_VIEWS = (
    aten.as_strided.default,
    aten.view.default,
    aten._reshape_alias.default,
    aten.unfold.default,
    aten.view_as_real.default,
    aten.view_as_complex.default,
    aten.set_.source_Storage_storage_offset,
    aten.set_.source_Tensor,
    aten.set_.source_Storage,
    aten.resize_.default,
)


_FILLS = (
    "copy",
    "fill",
    "full_like",
    "zeros_like",
    "ones_like",
    "new_zeros",
    "new_ones",
    "new_full",
)
"""Operators of the table that write values without computing any."""


def npu_operators() -> list[OpOverload]:
    """The operators of the compiler's table that compute new values."""
    return [
        row.target
        for row in ROWS
        if isinstance(row.target, OpOverload)
        and row.target not in MOVES
        and row.target not in SAME
        and row.rule != "cast"
        and row.target._schema.name.removeprefix("aten::") not in _FILLS
        and not any(r.alias_info for r in row.target._schema.returns)
    ]


def view_kernels() -> dict[OpOverload, Call]:
    """Kernels of operators that make another tensor on the same memory."""
    return {op: _like_cpu(op) for op in _VIEWS}


def _like_cpu(op: OpOverload) -> Call:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return op.redispatch(CPU, *args, **kwargs)

    return kernel


def memory_kernels() -> dict[OpOverload, Call]:
    """Kernels that allocate memory of the device, and copy to it and from it."""

    def empty_strided(
        size: Sequence[int], stride: Sequence[int], *, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        _check_options(layout, device, pin_memory)
        return allocate(size, stride, dtype or torch.get_default_dtype())

    def empty(
        size: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: Any = None, memory_format: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        strides = contiguous_strides(size)
        if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
            strides = torch.empty(size, memory_format=memory_format, device="meta").stride()
        return empty_strided(
            size, strides, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory
        )

    return {
        aten.empty_strided.default: empty_strided,
        aten.empty.memory_format: empty,
        aten._copy_from.default: _copy_from,
        aten._copy_from_and_resize.default: _copy_from,
    }


def _check_options(layout: Any, device: Any, pin_memory: Any) -> None:
    if layout not in (None, torch.strided):
        raise DeviceError(f"systola: layout {layout}: the device has strided tensors only")
    if pin_memory:
        raise DeviceError("systola: pin_memory=True: memory of the device cannot be pinned")
    if device is not None:
        set_device(device)


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> Any:
    host(target).copy_(host(source))
    return target


def no_gradient(op: OpOverload) -> Call:
    """The kernel for autograd of an operator that has no gradient on the device."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            results = op(*args, **kwargs)
        if not torch.is_grad_enabled():
            return results
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        tensors = (t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad)
        anchor = next(tensors, None)
        if anchor is None:
            return results
        source = f"aten::{op._schema.name.removeprefix('aten::')} on device systola"
        if isinstance(results, torch.Tensor):
            return without_gradient(anchor, (results,), source)[0]
        return type(results)(without_gradient(anchor, tuple(results), source))

    return kernel
