"""Whether a network's activations are alive: figures of a network of zeros mean nothing."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph

MAX_SHARE = 0.95
"""Largest share of elements of a tensor that may be zero or at a limit of int8."""


def activation_health(graph: Graph, inputs: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Every int8 tensor that an operator of `graph` writes, on these inputs.

    Returns `tensors`: how many; `worst` and `worst_share`: the one with the most elements that are
    zero (at its zero point) or saturated; `dead`: what is wrong with each tensor that is constant
    or has more than `MAX_SHARE` of them.
    """
    values = run_graph(graph, inputs, keep=True)
    names = [out for op in graph.ops for out in op.outputs if graph.tensors[out].dtype == "int8"]
    dead = []
    worst, worst_share = "", 0.0
    for name in names:
        tensor, value = graph.tensors[name], values[name]
        share = float(np.mean((value == tensor.zero_point) | (value == -128) | (value == 127)))
        if share >= worst_share:
            worst, worst_share = name, share
        if value.size > 1 and value.min() == value.max():
            dead.append(f"{name} is constant ({int(value.flat[0])})")
        elif share > MAX_SHARE and value.size > 1:
            dead.append(f"{name} is {share:.1%} zero or saturated")
    return {"tensors": len(names), "worst": worst, "worst_share": worst_share, "dead": dead}
