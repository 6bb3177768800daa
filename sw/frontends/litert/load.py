"""`load`: from a LiteRT file to a PyTorch module, its example inputs and its ports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from sw.frontends.litert.build import build
from sw.frontends.litert.errors import LiteRtError
from sw.frontends.litert.grids import is_quantized
from sw.frontends.litert.module import LiteRtModule
from sw.frontends.litert.reading import read
from sw.frontends.litert.records import Contents, Port, Tensor


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


def load(
    source: str | Path | bytes, *, shapes: Mapping[str, Sequence[int]] | None = None
) -> LiteRtModel:
    """See `sw.frontends.litert.load_litert`."""
    if isinstance(source, bytes):
        data, name = source, "LiteRT model"
    else:
        data, name = _bytes(Path(source)), str(source)
    module = build(_reshaped(read(data, name), shapes or {}))
    inputs, outputs = module.inputs, module.outputs
    generator = torch.Generator().manual_seed(0)
    return LiteRtModel(
        module=module,
        example=tuple(_example(tensor, generator) for tensor in inputs),
        inputs=tuple(map(_port, inputs)),
        outputs=tuple(map(_port, outputs)),
    )


def _reshaped(contents: Contents, shapes: Mapping[str, Sequence[int]]) -> Contents:
    """The contents with the sizes of inputs that the file leaves open."""
    tensors = list(contents.tensors)
    inputs = {tensors[i].name: tensors[i] for i in contents.inputs}
    for name, shape in shapes.items():
        if name not in inputs:
            raise LiteRtError(
                f"no input {name!r}", file=contents.file, hint=f"the inputs are {', '.join(inputs)}"
            )
        tensor = inputs[name]
        signature = tensor.signature or tensor.shape
        pairs = zip(signature, shape, strict=False)
        if len(shape) != len(signature) or any(s not in (-1, n) for s, n in pairs):
            raise LiteRtError(
                f"shape {list(shape)} of an input of {list(signature)}", file=contents.file,
                tensor=name, hint="only sizes that the file has as -1 can be given",
            )  # fmt: skip
        tensors[tensor.index] = replace(tensor, shape=tuple(shape))
    return replace(contents, tensors=tuple(tensors))


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
