"""A product by constants and the Add of a constant for each channel behind it are one layer."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.module import Step
from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.products import conv


def _linear(node: Node, x: T, weight: T, bias: T) -> T:
    return F.linear(x, weight.t(), bias)


def join_biases(steps: Sequence[Step], known: dict[str, T], outputs: Collection[str]) -> list[Step]:
    """The steps with a layer in place of each such pair, under the name of its product.

    known: constants, to which biases are added. outputs: of the graph, which must stay.
    """
    readers = Counter(name for step in steps for name in step.reads)
    readers.update(outputs)
    products = {step.node.outputs[0]: step for step in steps if _is_product(step, known)}
    joined: list[Step] = []
    for step in steps:
        product, added = _pair(step, products)
        bias = None if product is None else _bias(product, known, added)
        if product is None or bias is None or readers[product.node.outputs[0]] > 1:
            joined.append(step)
            continue
        x, weight = product.operands[:2]
        name = added
        if known[added].dim() > 1:
            name = f"{product.node.name}/bias"
            known[name] = bias
        joined.remove(product)
        node = replace(product.node, inputs=(x, weight, name), outputs=step.node.outputs)
        function = _linear if node.op == "MatMul" else conv
        joined.append(Step(node, function, (x, weight, name), product.position))
    return joined


def _is_product(step: Step, known: Mapping[str, T]) -> bool:
    """Whether a step is a MatMul by a matrix of constants, or a Conv without a bias."""
    if step.node.op == "MatMul":
        return _rank(known, step.operands[1]) == 2
    given = [operand for operand in step.operands if operand is not None]
    return step.node.op == "Conv" and len(given) == 2 and _rank(known, step.operands[1]) > 2


def _bias(product: Step, known: Mapping[str, T], added: Any) -> T | None:
    """What is added as one number for each channel, if it is that."""
    if _rank(known, added) < 0:
        return None
    constant, weight = known[added], known[product.operands[1]]
    if product.node.op == "MatMul":
        wanted = (weight.shape[1],)
    else:
        wanted = (weight.shape[0], *[1] * (weight.dim() - 2))
    shape = tuple(constant.shape)
    extra = len(shape) - len(wanted)
    if extra not in (0, 1) or shape != (*[1] * extra, *wanted):
        return None
    return constant.reshape(-1)


def _pair(step: Step, products: Mapping[str, Step]) -> tuple[Step | None, Any]:
    """(the product, the other operand) of an Add of a product's result."""
    if step.node.op == "Add":
        for name, other in (step.operands, step.operands[::-1]):
            if isinstance(name, str) and name in products:
                return products[name], other
    return None, None


def _rank(known: Mapping[str, T], operand: Any) -> int:
    """The rank of a constant of floats, -1 for anything else."""
    constant = known.get(operand) if isinstance(operand, str) else None
    return constant.dim() if constant is not None and constant.is_floating_point() else -1
