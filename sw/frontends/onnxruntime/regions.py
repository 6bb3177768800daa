"""The flow of an ONNX graph, and a model of a region alone."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from sw.frontends.delegates.regions import Flow, Region
from sw.frontends.onnx.node import reads_of
from sw.frontends.onnx.reading import inner_names
from sw.frontends.onnx.types import number_of
from sw.frontends.onnxruntime.survey import Survey

_STEPS = (torch.int8, torch.uint8)
"""Types of what QuantizeLinear makes."""


def flow_of(survey: Survey) -> Flow:
    """Who makes and who reads each value of the graph."""
    nodes = survey.graph.node
    return Flow(
        reads=[_in_order(node) for node in nodes],
        makes=[[name for name in node.output if name] for node in nodes],
        results={each.name for each in survey.graph.output},
        free=survey.free,
        fixed=survey.fixed,
        constants=survey.constants.keys(),
        grids={name for name, value in survey.values.items() if value.dtype in _STEPS},
    )


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
