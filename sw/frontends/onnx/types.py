"""Element types and tensors of ONNX as those of PyTorch."""

from typing import Any

import torch

from sw.frontends.onnx.errors import refused

NUMBERS = {
    "FLOAT": 1, "UINT8": 2, "INT8": 3, "INT16": 5, "INT32": 6, "INT64": 7, "BOOL": 9,
    "FLOAT16": 10, "DOUBLE": 11, "BFLOAT16": 16,
}  # fmt: skip
"""ONNX's numbers of the types that PyTorch computes with."""

_NAMES = {
    "FLOAT": torch.float32,
    "DOUBLE": torch.float64,
    "FLOAT16": torch.float16,
    "BFLOAT16": torch.bfloat16,
    "BOOL": torch.bool,
    "INT8": torch.int8,
    "UINT8": torch.uint8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT64": torch.int64,
}
"""Types that PyTorch computes with; it only stores the other unsigned ones."""


def type_name(number: int) -> str:
    """`FLOAT` for 1, as ONNX calls it."""
    for name, known in NUMBERS.items():
        if known == number:
            return name
    from onnx import TensorProto

    others: dict[int, str] = {v: k for k, v in TensorProto.DataType.items()}
    return others.get(number, str(number))


def dtype_of(number: int) -> torch.dtype:
    """The type of PyTorch for ONNX's number; `OnnxError` for those it does not compute with."""
    name = type_name(number)
    if name not in _NAMES:
        raise refused(
            f"elements of type {name}",
            f"use one of {', '.join(_NAMES)}",
        )
    return _NAMES[name]


def number_of(dtype: torch.dtype) -> int:
    """ONNX's number of a type of PyTorch."""
    return NUMBERS[{v: k for k, v in _NAMES.items()}[dtype]]


def tensor_of(proto: Any) -> torch.Tensor:
    """A stored tensor. `OnnxError` where its data are missing or do not fit its shape."""
    from onnx import numpy_helper

    dtype = dtype_of(proto.data_type)
    if proto.data_location == proto.EXTERNAL:
        raise refused("its data are in another file", "give the model's path, or put them inside")
    try:
        array = numpy_helper.to_array(proto)
    except Exception as error:  # whatever damaged data lead to
        first = (str(error).strip().splitlines() or [repr(error)])[0]
        raise refused(f"damaged: {first[:200]}", "export the model again") from None
    if dtype is torch.bfloat16:
        array = array.astype("float32")
    return torch.from_numpy(array.copy()).to(dtype)
