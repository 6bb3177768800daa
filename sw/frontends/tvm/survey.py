"""Which calls of a Relax function have nodes of ONNX, and regions of them as modules."""

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sw.compiler.frontend.threads import quiet
from sw.frontends.delegates.compiling import Loaded, Refused
from sw.frontends.delegates.regions import Flow, Region
from sw.frontends.onnx.building import Building
from sw.frontends.onnx.errors import OnnxError
from sw.frontends.tvm.call import Call
from sw.frontends.tvm.operators.table import ROWS
from sw.frontends.tvm.records import Call as Record
from sw.frontends.tvm.records import Function, Type, leaves

DTYPES = ("float32", "bool", "uint8", "int8", "int32", "int64")
"""Types of tensors that cross between the NPU and TVM."""

_MOST = 1 << 28
"""Elements of a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """why: of each call that has no nodes, by position. constants: values that no input reaches.

    folded: positions of the calls that make such values.
    """

    function: Function
    why: dict[int, str]
    folded: frozenset[int]
    constants: Mapping[str, Tensor]

    @property
    def flow(self) -> Flow:
        calls = self.function.calls
        return Flow(
            reads=[call.reads for call in calls],
            makes=[call.makes for call in calls],
            results=set(leaves(self.function.results)),
            free=[i for i in range(len(calls)) if i not in self.folded],
            constants=self.constants.keys(),
        )


def survey(function: Function) -> Survey:
    """Each call once, on tensors without data."""
    written = _Written(function, function.constants, function.params)
    why: dict[int, str] = {}
    with quiet(logging.CRITICAL):
        for position, call in enumerate(function.calls):
            try:
                written.write(position)
            except OnnxError as error:
                why[position] = error.reason
                written.open(call.makes)
    known = {}
    folded = []
    for position, call in enumerate(function.calls):
        values = {name: written.constant(name) for name in call.makes}
        if position not in why and call.makes and all(v is not None for v in values.values()):
            folded.append(position)
            known.update(values)
    return Survey(
        function=function,
        why=why,
        folded=frozenset(folded),
        constants={**function.constants, **known},
    )


def loaded(found: Survey, region: Region) -> Loaded | Refused:
    """A region as a module."""
    function = found.function
    try:
        with quiet(logging.CRITICAL):
            written = _Written(function, found.constants, region.inputs)
            for position in region.nodes:
                written.write(position)
            module = written.graph.module([written.names[name] for name in region.outputs])
    except OnnxError as error:
        return {position: error.reason}
    example = tuple(example_of(function.types[name], i) for i, name in enumerate(region.inputs))
    return Loaded(module=module, example=example, inputs=region.inputs, outputs=region.outputs)


def example_of(kind: Type, seed: int) -> Tensor:
    """A value of a type: random floats, or zeros."""
    assert kind.shape is not None
    if kind.dtype != "float32":
        return torch.zeros(kind.shape, dtype=getattr(torch, kind.dtype))
    return torch.randn(kind.shape, generator=torch.Generator().manual_seed(seed))


class _Written:
    """Calls written down as nodes. names: of each value among the nodes'."""

    def __init__(
        self, function: Function, constants: Mapping[str, Tensor], inputs: Iterable[str]
    ) -> None:
        self.function, self.names = function, dict[str, str]()
        self.graph = Building({}, constants)
        for name in constants:
            self.names[name] = name
        self.open(inputs)
        self.graph.inputs = list(inputs)

    def open(self, names: Iterable[str]) -> None:
        """Make inputs of values, as far as tensors of their types can cross."""
        for name in names:
            kind = self.function.types[name]
            if not _unfit(kind):
                assert kind.shape is not None
                self.graph.open(name, kind.shape, getattr(torch, kind.dtype))
                self.names[name] = name

    def constant(self, name: str) -> Tensor | None:
        return self.graph.constant(self.names[name]) if name in self.names else None

    def write(self, position: int) -> None:
        """`OnnxError` where a call has no nodes."""
        call = self.function.calls[position]
        self.graph.place, self.graph.walk.position = call.name, position
        reason = call.why or self._reason(call)
        if reason:
            raise OnnxError(reason, hint="leave it to TVM")
        made = ROWS[call.op](Call(call, self.graph, self.names))
        for name, node in zip(call.makes, _flat(made), strict=True):
            self._check(name, node)
            self.names[name] = node

    def _reason(self, call: Record) -> str:
        if call.op not in ROWS:
            return f"operator {call.op} has no rule"
        for name in (*call.reads, *call.makes):
            if reason := _unfit(self.function.types[name]):
                return reason
            if name not in self.names and name not in call.makes:
                return f"{name} is not known before it runs"
        return ""

    def _check(self, name: str, node: str) -> None:
        """That a result has the shape and the type that TVM says."""
        made, kind = self.graph.value(node), self.function.types[name]
        dtype = str(made.dtype).removeprefix("torch.")
        if (tuple(made.shape), dtype) != (kind.shape, kind.dtype):
            raise OnnxError(
                f"TVM says {kind}, PyTorch makes {dtype}{list(made.shape)}", hint="leave it to TVM"
            )


def _unfit(kind: Type) -> str:
    """Why a value cannot cross between TVM and the NPU; '' if it can."""
    if kind.shape is None:
        return "a size is known at run time only"
    if kind.dtype not in DTYPES:
        return f"{kind.dtype}: tensors to and from the NPU are float32"
    return "an operand is too large" if math.prod(kind.shape) > _MOST else ""


def _flat(made: Any) -> list[str]:
    return [made] if isinstance(made, str) else [name for each in made for name in _flat(each)]
