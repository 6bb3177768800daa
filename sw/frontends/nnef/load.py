"""`load`: from an NNEF model to a PyTorch module with example inputs."""

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from spec.names import did_you_mean
from sw.compiler.frontend.threads import quiet
from sw.frontends.nnef.call import Call
from sw.frontends.nnef.errors import NnefError
from sw.frontends.nnef.operators.table import ROWS
from sw.frontends.nnef.parsing import LOWERED, parse
from sw.frontends.nnef.records import Contents, Operation, refs
from sw.frontends.nnef.source import Source, source_of
from sw.frontends.nnef.tensors import read_tensor
from sw.frontends.onnx.building import Building
from sw.frontends.onnx.errors import OnnxError

_MEND = "mend the model"
_MOST = 1 << 28
"""Elements of a tensor that is made: a damaged file may ask for anything."""
_DTYPES = {"scalar": torch.float32, "integer": torch.int64, "logical": torch.bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class NnefModel:
    """An NNEF graph for `systola.compile(model.module, model.example)`.

    example: a tensor for each input: floats are random, others 0. inputs, outputs: the graph's
    names, in the order of the module's arguments and results.
    """

    module: torch.nn.Module
    example: tuple[torch.Tensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def load(path: str | Path) -> NnefModel:
    """See `sw.frontends.nnef.load_nnef`."""
    try:
        source = source_of(Path(path))
        contents = parse(source.graph, source.quantization)
        if contents.quantized:
            raise NnefError(
                f"graph.quant quantizes {contents.quantized[0]!r}: quantized models are not taken",
                hint="export the model in float; compiling quantizes it",
            )
        with quiet(logging.CRITICAL):
            return _Loading(source, contents).model()
    except NnefError as error:
        raise error.at(file=str(path)) from error.__cause__


class _Loading:
    def __init__(self, source: Source, contents: Contents) -> None:
        self.source, self.contents = source, contents
        self.graph = Building({})
        self.names: dict[str, str] = {}
        self.example: dict[str, torch.Tensor] = {}

    def model(self) -> NnefModel:
        contents = self.contents
        for operation in contents.operations:
            self._visit(operation)
        for name in (*contents.inputs, *contents.outputs):
            if name not in self.names:
                raise NnefError(f"{name!r} is made by no operation", hint=_MEND)
        for name in contents.inputs:
            if name not in self.example:
                raise NnefError(f"input {name!r} is not external", hint=_MEND)
        self.graph.inputs = list(contents.inputs)
        return NnefModel(
            module=self.graph.module([self.names[name] for name in contents.outputs]),
            example=tuple(self.example[name] for name in contents.inputs),
            inputs=contents.inputs,
            outputs=contents.outputs,
        )

    def _visit(self, operation: Operation) -> None:
        """Whatever goes wrong in an operation is an error of the file."""
        try:
            found = self._made(operation)
        except NnefError as error:
            raise error.at(operation=str(operation)) from error.__cause__
        except OnnxError as error:
            raise NnefError(
                error.reason, hint="check its attributes and the shapes of its operands",
                operation=str(operation),
            ) from error.__cause__  # fmt: skip
        except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise NnefError(
                f"its attributes do not fit: {first[:200]}", hint=_MEND, operation=str(operation)
            ) from error
        made = operation.makes
        if len(found) != len(made):
            raise NnefError(
                f"{len(made)} results, it makes {len(found)}", hint=_MEND, operation=str(operation)
            )
        for name, node in zip(made, found, strict=True):
            if name in self.names:
                raise NnefError(f"{name!r} is made twice", hint=_MEND, operation=str(operation))
            self.names[name] = node

    def _made(self, operation: Operation) -> tuple[str, ...]:
        self.graph.place = operation.makes[0] if operation.makes else operation.kind
        for ref in refs(list(operation.inputs.values())):
            if ref.name not in self.names:
                raise NnefError(f"{ref.name!r} is made by no operation before it", hint=_MEND)
        match operation.kind:
            case "external":
                return (self._external(operation),)
            case "variable":
                return (self._variable(operation),)
            case "constant":
                return (self._constant(operation),)
        row = ROWS.get(operation.kind)
        if row is None:
            known = [*ROWS, *LOWERED]
            raise NnefError(
                f"operation {operation.kind} is not taken{did_you_mean(operation.kind, known)}",
                hint="write the model without it",
            )
        found = row(Call(operation, self.graph, self.names))
        names = (found,) if isinstance(found, str) else tuple(found)
        for name in names:
            if self.graph.value(name).numel() > _MOST:
                raise NnefError(f"more than {_MOST:,} elements", hint="make the model smaller")
        return names

    def _external(self, operation: Operation) -> str:
        name, shape = operation.makes[0], _shape(operation)
        dtype = _DTYPES.get(operation.dtype, torch.float32)
        if name not in self.contents.inputs:
            raise NnefError(f"{name!r} is no input of the graph", hint=_MEND)
        self.graph.open(name, shape, dtype)
        if dtype is torch.float32:
            generator = torch.Generator().manual_seed(len(self.example))
            self.example[name] = torch.randn(shape, generator=generator)
        else:
            self.example[name] = torch.zeros(shape, dtype=dtype)
        return name

    def _variable(self, operation: Operation) -> str:
        """The values are in the file of its label, in the model's folder."""
        label, shape = str(operation.attributes.get("label", "")), _shape(operation)
        data = self.source.read(f"{label}.dat")
        if data is None:
            raise NnefError(
                f"its values are in {label + '.dat'!r}, which is not in the model's folder",
                hint="copy that file into the model's folder",
            )
        return self.graph.hold(read_tensor(data, label, shape))

    def _constant(self, operation: Operation) -> str:
        """Its values are in the graph: as many as its elements, or one for all."""
        shape, values = _shape(operation), operation.attributes.get("value")
        values = list(values) if isinstance(values, list | tuple) else [values]
        dtype = _DTYPES.get(operation.dtype, torch.float32)
        if len(values) not in (1, math.prod(shape)):
            raise NnefError(f"{len(values)} values of shape {shape}", hint=_MEND)
        tensor = torch.tensor(values, dtype=dtype)
        whole = tensor.expand(math.prod(shape)) if len(values) == 1 else tensor
        return self.graph.hold(whole.reshape(shape).contiguous())


def _shape(operation: Operation) -> list[int]:
    shape: Any = operation.attributes.get("shape")
    good = isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)
    if not good or len(shape) > 8 or math.prod(shape) > _MOST:
        raise NnefError(f"shape {shape}", hint="give sizes of 1 and more")
    return list(shape)
