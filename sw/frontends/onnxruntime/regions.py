"""Regions of an ONNX graph: the nodes of a stage that run on the NPU, and a model of them alone."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sw.frontends.onnx.reading import inner_names, reads_of
from sw.frontends.onnx.types import number_of
from sw.frontends.onnxruntime.survey import Survey
from sw.torch_backend.partition import stages

_STEPS = (torch.int8, torch.uint8)
"""Types of what QuantizeLinear makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """nodes: positions in the graph, those of constants too. inputs, outputs: names of values.

    own: the positions that run in this region and nowhere else.
    """

    own: tuple[int, ...]
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def split(survey: Survey, why: dict[int, str]) -> list[Region]:
    """The regions without the nodes of `why`, as few as can be; it grows by what lies in between.

    Integers of QuantizeLinear never cross: what makes them is where all that read them are.
    """
    flow = _Flow(survey)
    flow.keep_grids_whole(why)
    npu = {i for i in survey.free if i not in why}
    found = stages(survey.free, flow.operands, npu)
    groups: dict[int, list[int]] = {}
    for i in survey.free:
        if i in npu:
            groups.setdefault(found[i], []).append(i)
    return [flow.region(groups[stage]) for stage in sorted(groups)]


class _Flow:
    """Who makes and who reads each value."""

    def __init__(self, survey: Survey) -> None:
        self.survey, self.nodes = survey, survey.graph.node
        self.results = {each.name for each in survey.graph.output}
        self.makers = {name: i for i, n in enumerate(self.nodes) for name in n.output if name}
        self.reads = [sorted(reads_of(n) - inner_names(n)) for n in self.nodes]
        self.readers: dict[str, list[int]] = {}
        for i in survey.free:
            for name in self.reads[i]:
                self.readers.setdefault(name, []).append(i)

    def operands(self, position: int) -> list[int]:
        return [self.makers[name] for name in self.reads[position] if name in self.makers]

    def keep_grids_whole(self, why: dict[int, str]) -> None:
        """Refuse what makes or reads int8 values of which the other side is not on the NPU."""
        free, values = set(self.survey.free), self.survey.values
        steps = [n for n, i in self.makers.items() if i in free and n in values]
        steps = [n for n in steps if values[n].dtype in _STEPS]
        before = -1
        while before != len(why):
            before = len(why)
            for name in steps:
                around = [self.makers[name], *self.readers.get(name, ())]
                if name in self.results or any(i in why for i in around):
                    for i in around:
                        why.setdefault(i, "its integers are made or read on the CPU")

    def region(self, own: list[int]) -> Region:
        nodes = sorted({*own, *self._constants(own)})
        made = {name for i in nodes for name in self.nodes[i].output if name}
        constants = self.survey.constants
        read = dict.fromkeys(name for i in nodes for name in _in_order(self.nodes[i]))
        outside = {n for i in self.survey.free if i not in set(own) for n in self.reads[i]}
        outside |= self.results
        return Region(
            own=tuple(own),
            nodes=tuple(nodes),
            inputs=tuple(n for n in read if n not in made and n not in constants),
            outputs=tuple(n for i in own for n in self.nodes[i].output if n in outside),
        )

    def _constants(self, own: Iterable[int]) -> set[int]:
        """The fixed nodes that these are computed from."""
        found: set[int] = set()
        todo = [j for i in own for j in self.operands(i) if j in self.survey.fixed]
        while todo:
            i = todo.pop()
            if i not in found:
                found.add(i)
                todo += [j for j in self.operands(i) if j in self.survey.fixed]
        return found


def _in_order(node: Any) -> list[str]:
    """What a node reads: its operands in order, then what its branches read."""
    own = [name for name in node.input if name]
    return own + sorted(reads_of(node) - inner_names(node) - set(own))


def cut(proto: Any, region: Region, survey: Survey) -> Any:
    """A ModelProto of the region alone, whose inputs and outputs are the region's."""
    from onnx import helper

    nodes = [survey.graph.node[i] for i in region.nodes]
    read = {name for node in nodes for name in reads_of(node)}
    graph = helper.make_graph(
        nodes,
        survey.graph.name,
        [_info(name, survey.values) for name in region.inputs],
        [_info(name, survey.values) for name in region.outputs],
        initializers(survey.constants, read),
    )
    return helper.make_model(graph, opset_imports=proto.opset_import, ir_version=proto.ir_version)


def initializers(constants: Mapping[str, Tensor], names: Collection[str]) -> list[Any]:
    """The constants of these names as ONNX stores them."""
    return [_stored(name, constants[name]) for name in sorted(names) if name in constants]


def _stored(name: str, tensor: Tensor) -> Any:
    from onnx import helper, numpy_helper

    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        data = tensor.contiguous().view(torch.int16).numpy().tobytes()
        kind = number_of(tensor.dtype)
        return helper.make_tensor(name, kind, list(tensor.shape), data, raw=True)
    return numpy_helper.from_array(tensor.numpy(), name)


def _info(name: str, values: Mapping[str, Tensor]) -> Any:
    from onnx import helper

    value = values[name]
    return helper.make_tensor_value_info(name, number_of(value.dtype), list(value.shape))
