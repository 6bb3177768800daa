"""Storage of the device: memory of the host, which is freed with the last tensor that uses it.

PyTorch exchanges memory between devices by DLPack. A capsule names the device of its memory. A
tensor of the host becomes one of the device by another name in its capsule, and the other way
round; both share the bytes, and PyTorch itself keeps and frees them.
"""

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from spec.available import available_memory

_HOST, _EXTENSION = 1, 12
"""kDLCPU and kDLExtDev of DLPack; PyTorch takes the second for PrivateUse1."""


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _Tensor(ctypes.Structure):
    """The first members of DLPack's DLTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device", _Device))


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _renamed(tensor: torch.Tensor, device: int) -> torch.Tensor:
    """The same memory, shape and strides on another device."""
    capsule = torch._C._to_dlpack(tensor)
    _Tensor.from_address(_pointer(capsule, b"dltensor")).device.type = device
    found = torch._C._from_dlpack(capsule)
    if found.stride() != tensor.stride():  # DLPack forgets strides of dimensions of one element
        found.as_strided_(tensor.shape, tensor.stride())
    return found


def host(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the CPU on the same memory as one of the device; it keeps that alive."""
    plain = tensor.detach()
    if plain.is_conj():
        return host(plain.conj()).conj()
    if plain.is_neg():
        return host(torch._neg_view(plain))._neg_view()
    return _renamed(plain, _HOST)


@dataclass(slots=True, kw_only=True)
class Memory:
    """Bytes of the device's storage: `used` now, `peak` since the start or the last reset."""

    used: int = 0
    peak: int = 0

    def allocate(
        self, shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype
    ) -> torch.Tensor:
        """A tensor of the device, not initialised.

        `torch.OutOfMemoryError` where the process cannot have that much memory; RuntimeError for a
        dtype that DLPack does not know.
        """
        size = _bytes(shape, strides, dtype)
        free = available_memory() if size > _LARGE else None
        if free is not None and size > free:
            raise torch.OutOfMemoryError(
                f"systola: out of memory: {size:,} bytes are wanted, this process can have {free:,}"
            )
        buffer = np.empty(max(size, dtype.itemsize), np.uint8)
        try:
            flat = torch.from_numpy(buffer).view(dtype)
            tensor = _renamed(flat.as_strided(tuple(shape), tuple(strides)), _EXTENSION)
        except (RuntimeError, BufferError):
            tensor = None
        if tensor is None or tensor.dtype is not dtype:
            raise RuntimeError(f"systola: tensors of {dtype} cannot be on the device")
        self.used += size
        self.peak = max(self.peak, self.used)
        weakref.finalize(buffer, self._free, size).atexit = False
        return tensor

    def _free(self, size: int) -> None:
        self.used -= size


_LARGE = 1 << 24
"""Bytes above which it is worth asking the system how much memory there is."""


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
