"""Binary files of tensors: a header of 128 bytes, and the values (NNEF 1.0.5, section 6)."""

import math
import struct

import numpy as np
import torch

from sw.frontends.nnef.errors import NnefError

HEADER = 128
_MAGIC = b"\x4e\xef"
_RANK = 8
_QUANTIZED = (2, 3)
_KINDS = {
    **{(0, bits): f"<f{bits // 8}" for bits in (16, 32, 64)},
    **{(1, bits): f"<u{bits // 8}" for bits in (8, 16, 32)},
    **{(4, bits): f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
}
"""NumPy's types by the item's code and its bits."""
_BOOL = (5, 1)
_MOST = 1 << 31
_HINT = "export the model again"


def read_tensor(data: bytes, label: str, shape: list[int]) -> torch.Tensor:
    """The values of a file, of the shape that the graph says; floats as float32.

    `NnefError` for a header that is damaged or does not fit, and for quantized values.
    """
    try:
        return _read(data, tuple(shape))
    except NnefError as error:
        raise NnefError(f"{label}.dat: {error.reason}", hint=error.hint) from None


def _read(data: bytes, shape: tuple[int, ...]) -> torch.Tensor:
    if len(data) < HEADER or data[:2] != _MAGIC:
        raise NnefError("no tensor of NNEF", hint=_HINT)
    if (data[2], data[3]) != (1, 0):
        raise NnefError(f"version {data[2]}.{data[3]}, not 1.0", hint=_HINT)
    length, rank, *rest = struct.unpack_from("<12I", data, 4)
    sizes, (bits, code) = tuple(rest[:_RANK]), rest[_RANK : _RANK + 2]
    if len(data) != HEADER + length:
        raise NnefError(f"{len(data):,} bytes, the header says {HEADER + length:,}", hint=_HINT)
    if rank > _RANK or sizes[:rank] != shape:
        raise NnefError(
            f"shape {list(sizes[: min(rank, _RANK)])}, the graph says {list(shape)}", hint=_HINT
        )
    if code in _QUANTIZED:
        raise NnefError(
            "its values are quantized, which is not taken", hint="export the model in float"
        )
    count = math.prod(shape)
    (flag,) = struct.unpack_from("<I", data, 52)
    code = 4 if code == 1 and flag else code  # how signed integers were written before 1.0.3
    width = 1 if (code, bits) == _BOOL else bits
    if count > _MOST or length != (count * width + 7) // 8:
        raise NnefError(f"{length:,} bytes of {count:,} values of {bits} bits", hint=_HINT)
    return _values(data, code, bits, count).reshape(shape)


def _values(data: bytes, code: int, bits: int, count: int) -> torch.Tensor:
    if (code, bits) == _BOOL:
        packed = np.frombuffer(data, np.uint8, offset=HEADER)
        return torch.from_numpy(np.unpackbits(packed)[:count].astype(bool))
    kind = _KINDS.get((code, bits))
    if kind is None:
        raise NnefError(f"values of code {code} with {bits} bits", hint=_HINT)
    values = np.frombuffer(data, kind, count, HEADER)
    return torch.from_numpy(values.astype(np.float32 if code == 0 else np.int64))
