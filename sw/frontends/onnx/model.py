"""`load`: an ONNX model to a PyTorch module with example inputs."""

import logging
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sw.compiler.frontend.threads import quiet
from sw.frontends.onnx.building import module_of
from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.module import GraphModule
from sw.frontends.onnx.reading import prepared, read, version_of
from sw.frontends.onnx.shifting import shifted_values
from sw.frontends.onnx.types import dtype_of, tensor_of
from sw.frontends.onnx.walk import Walk
from sw.frontends.onnx.weights import take_weights

MOST_MADE = 1 << 25
"""Elements of an input, which gets example values: a damaged file may ask for anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxModel:
    """A module that computes what an ONNX graph does.

    example: a tensor for each input: floats are random, integers 0. inputs, outputs: ONNX's names,
    in the order of the module's arguments and results.
    """

    module: torch.nn.Module
    example: tuple[torch.Tensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def load(
    source: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> OnnxModel:
    """See `sw.frontends.onnx.load_onnx`."""
    proto, file, folder = read(source)
    given = dict(constants or {})
    weights = take_weights(proto, file, folder)
    # A message keeps the memory of what was taken out of it; a copy does not.
    proto = type(proto).FromString(proto.SerializeToString())
    try:
        set_shapes(open_inputs(proto.graph, weights), dict(shapes or {}), given)
        return _loaded(prepared(proto, file), weights, given)
    except OnnxError as error:
        raise error.at(file=file) from error.__cause__


def open_inputs(graph: Any, weights: Container[str] = ()) -> dict[str, Any]:
    """The inputs that neither an initializer nor a weight gives a value, by name."""
    known = {each.name for each in graph.initializer}
    known |= {each.name for each in graph.input if each.name in weights}
    return {each.name: each for each in graph.input if each.name not in known}


def set_shapes(
    inputs: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], constants: Mapping[str, Any]
) -> None:
    """Write the shapes that are given into the inputs; `OnnxError` if they do not fit."""
    for name in [*shapes, *constants]:
        if name not in inputs:
            raise OnnxError(f"no input {name!r}", hint=f"the inputs are {', '.join(inputs)}")
    for name, info in inputs.items():
        _element(info)
        tensor = info.type.tensor_type
        shape = shapes.get(name, np.shape(constants[name]) if name in constants else None)
        if shape is None and not tensor.HasField("shape"):
            raise OnnxError(
                f"input {name!r} has no shape",
                hint=f"give it: load_onnx(…, shapes={{{name!r}: (1, …)}})",
            )
        if shape is None:
            shape = [_size(d) or 1 for d in tensor.shape.dim]
        if tensor.HasField("shape"):
            _require_fits(name, tensor.shape.dim, shape)
        tensor.shape.CopyFrom(type(tensor.shape)(dim=[{"dim_value": int(n)} for n in shape]))


def _size(dim: Any) -> int | None:
    """A size of an input's shape; None where the model leaves it open, with −1 too."""
    known = dim.HasField("dim_value") and dim.dim_value >= 0
    return int(dim.dim_value) if known else None


def _require_fits(name: str, dims: Any, given: Sequence[int]) -> None:
    fixed = [_size(d) for d in dims]
    fits = len(fixed) == len(given)
    if not fits or any(f not in (None, g) for f, g in zip(fixed, given, strict=True)):
        shown = ", ".join(d.dim_param or str(d.dim_value or "?") for d in dims)
        raise OnnxError(
            f"shape {list(given)} of input {name!r}: the model has [{shown}]",
            hint="only sizes that the model leaves open can be given",
        )


def _loaded(
    proto: Any, weights: Mapping[str, torch.Tensor], constants: Mapping[str, Any]
) -> OnnxModel:
    graph = proto.graph
    if len(graph.sparse_initializer):
        name = graph.sparse_initializer[0].values.name
        raise OnnxError(f"initializer {name} is sparse", hint="store it as a dense tensor")
    known = {each.name: initializer_of(each) for each in graph.initializer}
    known |= weights
    inputs = open_inputs(graph, weights)
    for name, value in constants.items():
        known[name] = torch.as_tensor(value, dtype=_element(inputs[name]))
    free = [info for name, info in inputs.items() if name not in constants]
    example = {each.name: example_of(each, seed) for seed, each in enumerate(free)}
    return OnnxModel(
        module=_module(proto, known, example),
        example=tuple(example.values()),
        inputs=tuple(example),
        outputs=tuple(each.name for each in graph.output),
    )


def _module(
    proto: Any, known: Mapping[str, torch.Tensor], example: Mapping[str, torch.Tensor]
) -> GraphModule:
    graph = proto.graph
    infos = [*graph.value_info, *graph.output]
    types = {each.name: each.type.tensor_type.elem_type for each in infos}
    outputs = [each.name for each in graph.output]
    walk = Walk(known, example, shifted_values(graph.node, outputs, types))
    version = version_of(proto)
    with quiet(logging.CRITICAL):
        for walk.position, node in enumerate(graph.node):
            walk.visit(node, version)
    return module_of(walk, list(example), outputs)


def initializer_of(proto: Any) -> torch.Tensor:
    """The value of an initializer; `OnnxError` names it."""
    try:
        return tensor_of(proto)
    except OnnxError as error:
        raise OnnxError(f"initializer {proto.name}: {error.reason}", hint=error.hint) from None


def _element(info: Any) -> torch.dtype:
    if not info.type.HasField("tensor_type"):
        raise OnnxError(
            f"input {info.name!r} is no tensor", hint="export the model with tensors as inputs"
        )
    try:
        return dtype_of(info.type.tensor_type.elem_type)
    except OnnxError as error:
        raise OnnxError(f"input {info.name!r}: {error.reason}", hint=error.hint) from None


def example_of(info: Any, seed: int) -> torch.Tensor:
    """A value for an input whose shape is fixed: random floats, or integers 0."""
    dtype = _element(info)
    sizes = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
    if math.prod(sizes) > MOST_MADE:
        raise OnnxError(
            f"input {info.name!r} of shape {sizes}: more than {MOST_MADE:,} elements",
            hint="make the model smaller",
        )
    if not dtype.is_floating_point:
        return torch.zeros(sizes, dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator).to(dtype)
