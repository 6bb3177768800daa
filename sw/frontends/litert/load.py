"""`load`: from a LiteRT file to a PyTorch module, its example inputs and its ports."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from sw.frontends.litert.build import build
from sw.frontends.litert.errors import LiteRtError
from sw.frontends.litert.grids import is_quantized
from sw.frontends.litert.module import LiteRtModule
from sw.frontends.litert.reading import read
from sw.frontends.litert.records import Port, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteRtModel:
    """A LiteRT file for `systola.compile(model.module, model.example)`.

    example: random values, of the whole range of quantized inputs and from −1 to 1 of float ones;
    integers are 0. Float models are better calibrated with data of their own. inputs, outputs: in
    the file's order.
    """

    module: LiteRtModule
    example: tuple[torch.Tensor, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def load(source: str | Path | bytes) -> LiteRtModel:
    """The model of a file, or of the bytes of one. `LiteRtError` says what is wrong."""
    if isinstance(source, bytes):
        data, name = source, "LiteRT model"
    else:
        data, name = _bytes(Path(source)), str(source)
    contents = read(data, name)
    module = build(contents)
    inputs, outputs = ([contents.tensors[i] for i in each] for each in
                       (contents.inputs, contents.outputs))  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    return LiteRtModel(
        module=module,
        example=tuple(_example(tensor, generator) for tensor in inputs),
        inputs=tuple(map(_port, inputs)),
        outputs=tuple(map(_port, outputs)),
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LiteRtError(
            f"cannot read: {error.strerror}", file=str(path), hint="give a .tflite file"
        ) from None


def _port(tensor: Tensor) -> Port:
    q = tensor.quantization
    if q is None or not is_quantized(tensor):
        return Port(name=tensor.name, shape=tensor.shape, dtype=tensor.dtype)
    shift = 128 if tensor.shifted else 0
    return Port(
        name=tensor.name, shape=tensor.shape, dtype="uint8" if shift else tensor.dtype,
        scale=q.scale[0], zero_point=q.zero_point[0] + shift,
    )  # fmt: skip


def _example(tensor: Tensor, generator: torch.Generator) -> torch.Tensor:
    q = tensor.quantization
    if q is not None and is_quantized(tensor):
        steps = torch.randint(-128, 128, tensor.shape, generator=generator, dtype=torch.int16)
        return ((steps - q.zero_point[0]) * np.float32(q.scale[0])).float()
    if tensor.dtype == "float32":
        return torch.rand(tensor.shape, generator=generator) * 2 - 1
    return torch.zeros(tensor.shape, dtype=getattr(torch, tensor.dtype))
