"""Which nodes of an ONNX graph have a function of PyTorch for shapes that are known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.model import initializer_of
from sw.frontends.onnx.node import reads_of
from sw.frontends.onnx.reading import inner_names, version_of
from sw.frontends.onnx.shifting import shifted_values
from sw.frontends.onnx.types import dtype_of
from sw.frontends.onnx.walk import Walk


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is known of a graph before anything is compiled.

    why: of each node that cannot be computed, by position. folded: positions of nodes whose results
    are among `constants` now; fixed: of those that no input reaches, and that stay nodes. values:
    shape and type of each value that has a shape.
    """

    graph: Any
    why: dict[int, str]
    folded: frozenset[int]
    fixed: frozenset[int]
    constants: Mapping[str, Tensor]
    values: Mapping[str, Tensor]

    @property
    def free(self) -> list[int]:
        """Positions of the nodes that inputs reach, in an order of execution."""
        gone = self.folded | self.fixed
        return [i for i in range(len(self.graph.node)) if i not in gone]


def survey(proto: Any, example: Mapping[str, Tensor]) -> Survey:
    """The survey of a model that `prepared` gives. example: of its inputs, by name.

    A node that cannot be computed makes inputs of its results: what reads them is looked at too.
    """
    graph, version = proto.graph, version_of(proto)
    infos = {each.name: each for each in (*graph.value_info, *graph.output)}
    types = {name: info.type.tensor_type.elem_type for name, info in infos.items()}
    known = _initializers(graph)
    walk = Walk(known, example, shifted_values(graph.node, [o.name for o in graph.output], types))
    why: dict[int, str] = {}
    for position, node in enumerate(graph.node):
        reason = _visited(walk, node, version)
        if not reason:
            continue
        why[position] = reason
        for name in filter(None, node.output):
            walk.values.pop(name, None)
            _open(walk, name, infos.get(name))
    done = [i for i in range(len(graph.node)) if i not in why]
    named = {i: [n for n in graph.node[i].output if n] for i in done}
    return Survey(
        graph=graph,
        why=why,
        folded=frozenset(i for i in done if all(n in walk.known for n in named[i])),
        fixed=frozenset(i for i in done if all(n in walk.real for n in named[i])),
        constants=walk.known,
        values=walk.values,
    )


def _initializers(graph: Any) -> dict[str, Tensor]:
    """Those that PyTorch has a type for; what reads the others is refused."""
    known = {}
    for each in graph.initializer:
        try:
            known[each.name] = initializer_of(each)
        except OnnxError:
            continue
    return known


def _visited(walk: Walk, node: Any, version: int) -> str:
    """Walk over a node; why that cannot be done."""
    for name in sorted(reads_of(node) - inner_names(node)):
        if name not in walk.values:
            return f"operand {name!r} has no shape that is known before it runs"
    try:
        walk.visit(node, version)
    except OnnxError as error:
        return error.reason
    for name in (*node.input, *node.output):
        dtype = walk.values[name].dtype if name in walk.values else None
        if name not in walk.known and dtype in (torch.float16, torch.bfloat16, torch.float64):
            return f"{str(dtype).removeprefix('torch.')}: tensors to and from the NPU are float32"
    return ""


def _open(walk: Walk, name: str, info: Any) -> None:
    """Make an input of a value, if ONNX inferred its type and no size of it is open."""
    if info is None or not info.type.tensor_type.HasField("shape"):
        return
    dims = info.type.tensor_type.shape.dim
    if not all(d.HasField("dim_value") for d in dims):
        return
    try:
        dtype = dtype_of(info.type.tensor_type.elem_type)
    except OnnxError:
        return
    walk.open(name, [d.dim_value for d in dims], dtype)
