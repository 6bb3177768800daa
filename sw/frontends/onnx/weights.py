"""Weights: large tensors leave the message before anything else reads it.

Data of files beside the model are mapped into memory, not read, and only from inside the model's
folder. The graph keeps an input of the weight's type, so that what onnx checks, infers and converts
stays small.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sw.frontends.beside import beside
from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.types import dtype_of, tensor_of

LARGE = 1 << 16
"""Bytes from which on a weight is taken out of the message. Shapes and axes stay inside."""

_BF16 = torch.bfloat16


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Bytes of a file beside the model."""

    file: Path
    offset: int
    length: int

    def read(self) -> bytes:
        with self.file.open("rb") as stream:
            stream.seek(self.offset)
            return stream.read(self.length)

    def mapped(self, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        """The region as a tensor. What is written to it stays in memory."""
        kind = "uint16" if dtype is _BF16 else str(dtype).removeprefix("torch.")
        kind = "bool_" if kind == "bool" else kind
        array = np.memmap(
            self.file, np.dtype(getattr(np, kind)), "c", offset=self.offset, shape=shape
        )
        # A subclass of ndarray would be carried along; the map lives as long as its memory is used.
        return torch.from_numpy(np.asarray(array)).view(dtype)


def join_weights(model: Any, file: str, folder: Path | None) -> None:
    """Data of other files become part of the message; `OnnxError` as `take_weights`."""
    from onnx import TensorProto, external_data_helper

    for tensor in external_data_helper._get_all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            _join(tensor, _region(tensor, file, folder))


def _join(tensor: Any, region: Region) -> None:
    from onnx import TensorProto

    tensor.raw_data = region.read()
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def take_weights(model: Any, file: str, folder: Path | None) -> dict[str, torch.Tensor]:
    """The large initializers by name; they are inputs of the graph from now on.

    Small data of other files become part of the message. `OnnxError` names a tensor whose data are
    missing, too short, or outside of the folder.
    """
    from onnx import TensorProto, external_data_helper

    initializers = {id(each) for each in model.graph.initializer}
    regions: dict[str, Region] = {}
    for tensor in external_data_helper._get_all_tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            _require_whole(tensor, file)
            continue
        region = _region(tensor, file, folder)
        if id(tensor) in initializers and region.length >= LARGE:
            regions[tensor.name] = region
        else:
            _join(tensor, region)
    found = {}
    for tensor in model.graph.initializer:
        if tensor.name in regions:
            found[tensor.name] = regions[tensor.name].mapped(
                dtype_of(tensor.data_type), tuple(tensor.dims)
            )
        elif len(tensor.raw_data) >= LARGE:
            found[tensor.name] = _located(tensor, file)
            tensor.ClearField("raw_data")
    _make_inputs(model.graph, found)
    return found


def _require_whole(tensor: Any, file: str) -> None:
    """`OnnxError` for bytes that do not fit the shape: onnx reads beyond their end."""
    try:
        size = dtype_of(tensor.data_type).itemsize
    except OnnxError:
        return  # said where the tensor is used
    wanted = math.prod(tensor.dims) * size
    if tensor.HasField("raw_data") and len(tensor.raw_data) != wanted:
        raise OnnxError(
            f"tensor {tensor.name}: {len(tensor.raw_data):,} bytes, its shape "
            f"{list(tensor.dims)} has {wanted:,}",
            file=file, hint="export the model again",
        )  # fmt: skip


def _located(tensor: Any, file: str) -> torch.Tensor:
    try:
        return tensor_of(tensor)
    except OnnxError as error:
        raise OnnxError(
            f"initializer {tensor.name}: {error.reason}", hint=error.hint, file=file
        ) from None


def _make_inputs(graph: Any, weights: dict[str, torch.Tensor]) -> None:
    from onnx import TensorProto, helper

    inputs = {each.name for each in graph.input}
    kept = []
    for tensor in graph.initializer:
        if tensor.name not in weights:
            copy = TensorProto()
            copy.CopyFrom(tensor)
            kept.append(copy)
        elif tensor.name not in inputs:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.input.append(info)
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _region(tensor: Any, file: str, folder: Path | None) -> Region:
    """Where a tensor's data are. `OnnxError` for a place that the model may not name."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    name = entries.get("location", "")
    path = beside(folder, name)
    if path is None:
        raise OnnxError(
            f"tensor {tensor.name}: its data are in {name!r}, which is not beside the model",
            file=file, hint="copy that file into the model's folder",
        )  # fmt: skip
    try:
        dtype = dtype_of(tensor.data_type)
        if min(tensor.dims, default=0) < 0:
            raise ValueError(f"shape {list(tensor.dims)}")
        wanted, size = math.prod(tensor.dims) * dtype.itemsize, path.stat().st_size
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", wanted))
        if offset < 0 or length != wanted or offset + length > size:
            raise ValueError(
                f"bytes {offset:,} to {offset + length:,} of {size:,}; its shape "
                f"{list(tensor.dims)} has {wanted:,}"
            )
    except (OnnxError, OSError, ValueError) as error:
        why = error.reason if isinstance(error, OnnxError) else str(error)
        raise OnnxError(
            f"tensor {tensor.name}: cannot read its data from {name!r}: {why}",
            file=file, hint="copy the model and its data again",
        ) from None  # fmt: skip
    return Region(file=path, offset=offset, length=length)
