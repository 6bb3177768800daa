"""Memory of the device: storage that PyTorch frees, and the same bytes as a tensor of the host.

PyTorch exchanges memory between devices by DLPack, whose capsules name the device of their memory.
Under another name in its capsule a tensor of the device is one of the host.
"""

import ctypes
from collections.abc import Sequence

import torch

from spec.available import available_memory
from sw.torch_device.allocator import allocator
from sw.torch_device.errors import DeviceError

aten = torch.ops.aten

CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
"""Redispatches to a kernel of the CPU, for those that look at no memory."""

_LARGE = 1 << 24
"""Bytes above which it is worth asking the system how much memory there is."""

_HOST = 1
"""kDLCPU of DLPack."""


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _Tensor(ctypes.Structure):
    """The first members of DLPack's DLTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device", _Device))


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def host(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the CPU on the memory of one of the device; it keeps that alive.

    A tensor of the CPU is returned as it is. RuntimeError for a dtype that DLPack does not know.
    """
    if tensor.device.type == "cpu":
        return tensor
    plain = tensor.detach()
    if plain.is_conj():
        return host(plain.conj()).conj()
    if plain.is_neg():
        return torch._neg_view(host(torch._neg_view(plain)))
    try:
        capsule = torch._C._to_dlpack(plain)
    except (RuntimeError, BufferError):
        raise DeviceError(f"systola: {plain.dtype} cannot be computed with") from None
    _Tensor.from_address(_pointer(capsule, b"dltensor")).device.type = _HOST
    found = torch._C._from_dlpack(capsule)
    if found.stride() != plain.stride():  # DLPack forgets strides of dimensions of one element
        found.as_strided_(plain.shape, plain.stride())
    return found


def allocate(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of the device, not initialised.

    `torch.OutOfMemoryError` where the process cannot have that much memory.
    """
    allocator()
    size = _bytes(shape, strides, dtype)
    free = available_memory() if size > _LARGE else None
    if free is not None and size > free:
        raise torch.OutOfMemoryError(
            f"systola: out of memory: {size:,} bytes are wanted, this process can have {free:,}"
        )
    storage = torch.UntypedStorage(size, device="systola")
    tensor = torch._C._acc.create_empty_tensor((0,), dtype)
    found: torch.Tensor = aten.set_.source_Storage_storage_offset.redispatch(
        CPU, tensor, storage, 0, tuple(shape), tuple(strides)
    )
    return found


def _bytes(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> int:
    """From the first element to the end of the last."""
    if 0 in shape:
        return 0
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return (last + 1) * dtype.itemsize


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    strides, step = list[int](), 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
