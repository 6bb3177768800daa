"""A MatMul by constants and the Add of a constant row behind it are one linear layer."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.module import Step
from sw.frontends.onnx.node import Node


def _linear(node: Node, x: T, weight: T, bias: T) -> T:
    return F.linear(x, weight.t(), bias)


def join_biases(
    steps: Sequence[Step], known: Mapping[str, T], outputs: Collection[str]
) -> list[Step]:
    """The steps with a linear layer in place of each such pair, under the name of its MatMul.

    known: constants. outputs: of the graph, which must stay.
    """
    readers = Counter(name for step in steps for name in step.reads)
    readers.update(outputs)
    products = {
        step.node.outputs[0]: step
        for step in steps
        if step.node.op == "MatMul" and _rank(known, step.operands[1]) == 2
    }
    joined: list[Step] = []
    for step in steps:
        product, bias = _pair(step, products)
        if product is None or readers[product.node.outputs[0]] > 1:
            joined.append(step)
            continue
        x, weight = product.operands
        if _rank(known, bias) != 1 or known[bias].shape[0] != known[weight].shape[1]:
            joined.append(step)
            continue
        joined.remove(product)
        node = Node(
            name=product.node.name,
            op="MatMul",
            inputs=(x, weight, bias),
            outputs=step.node.outputs,
            attributes={},
            version=step.node.version,
        )
        joined.append(Step(node, _linear, (x, weight, bias), product.position))
    return joined


def _pair(step: Step, products: Mapping[str, Step]) -> tuple[Step | None, Any]:
    """(the MatMul, the other operand) of an Add of a MatMul's result."""
    if step.node.op == "Add":
        for name, other in (step.operands, step.operands[::-1]):
            if isinstance(name, str) and name in products:
                return products[name], other
    return None, None


def _rank(known: Mapping[str, T], operand: Any) -> int:
    """The rank of a constant of floats, -1 for anything else."""
    constant = known.get(operand) if isinstance(operand, str) else None
    return constant.dim() if constant is not None and constant.is_floating_point() else -1
