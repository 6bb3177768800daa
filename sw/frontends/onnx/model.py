"""`load_onnx`: an ONNX model to a PyTorch module with example inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.module import GraphModule, module_class
from sw.frontends.onnx.reading import DOMAINS, prepared, read
from sw.frontends.onnx.shifting import shifted_values
from sw.frontends.onnx.types import dtype_of, tensor_of
from sw.frontends.onnx.walk import Walk


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


def load_onnx(
    source: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> OnnxModel:
    """The module of an ONNX file, or of a ModelProto.

    shapes: of inputs, by name; sizes that the model leaves open are 1 without it. constants: values
    of inputs (arrays, numbers) that the module then has no longer. `OnnxError` says what cannot be
    read or computed, and where.
    """
    proto, file, folder = read(source)
    try:
        return _loaded(prepared(proto, file), folder, dict(shapes or {}), dict(constants or {}))
    except OnnxError as error:
        raise error.at(file=file) from error.__cause__


def _loaded(
    proto: Any, folder: Path | None, shapes: dict[str, Sequence[int]], constants: dict[str, Any]
) -> OnnxModel:
    graph = proto.graph
    known = {each.name: _initializer(each, folder) for each in graph.initializer}
    if len(graph.sparse_initializer):
        name = graph.sparse_initializer[0].values.name
        raise OnnxError(f"initializer {name} is sparse", hint="store it as a dense tensor")
    open_inputs = [each for each in graph.input if each.name not in known]
    names = [each.name for each in open_inputs]
    for name in [*shapes, *constants]:
        if name not in names:
            raise OnnxError(f"no input {name!r}", hint=f"the inputs are {', '.join(names)}")
    example = {each.name: _example(each, shapes.get(each.name), i)
               for i, each in enumerate(open_inputs) if each.name not in constants}  # fmt: skip
    types = {each.name: each for each in open_inputs}
    for name, value in constants.items():
        known[name] = torch.as_tensor(value, dtype=_element(types[name]))
    module = _module(proto, known, example)
    return OnnxModel(
        module=module,
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
    version = next(int(each.version) for each in proto.opset_import if each.domain in DOMAINS)
    for node in graph.node:
        walk.visit(node, version)
    read = {name for step in walk.steps for name in step.reads} | set(outputs)
    used = {name: tensor for name, tensor in walk.known.items() if name in read}
    return module_class(list(example))(walk.steps, used, list(example), outputs)


def _initializer(proto: Any, folder: Path | None) -> torch.Tensor:
    try:
        return tensor_of(proto, folder)
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


def _example(info: Any, given: Sequence[int] | None, seed: int) -> torch.Tensor:
    dtype = _element(info)
    if not info.type.tensor_type.HasField("shape") and given is None:
        raise OnnxError(
            f"input {info.name!r} has no shape",
            hint=f"give it: load_onnx(…, shapes={{{info.name!r}: (1, …)}})",
        )
    dims = info.type.tensor_type.shape.dim
    sizes = [d.dim_value if d.HasField("dim_value") else 1 for d in dims]
    if given is not None:
        if info.type.tensor_type.HasField("shape"):
            _require_fits(info.name, dims, given)
        sizes = list(given)
    if not dtype.is_floating_point:
        return torch.zeros(sizes, dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator).to(dtype)


def _require_fits(name: str, dims: Any, given: Sequence[int]) -> None:
    fixed = [d.dim_value if d.HasField("dim_value") else None for d in dims]
    if len(fixed) != len(given) or any(f not in (None, g) for f, g in zip(fixed, given)):
        shown = ", ".join(d.dim_param or str(f or "?") for d, f in zip(dims, fixed))
        raise OnnxError(
            f"shape {list(given)} of input {name!r}: the model has [{shown}]",
            hint="only sizes that the model leaves open can be given",
        )
