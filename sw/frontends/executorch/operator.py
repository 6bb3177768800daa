"""`systola::program`: the operator that stands for a compiled part in a graph of PyTorch.

It takes the payload as a tensor of bytes, so that the program is a constant of the graph like any
weight, and the part's inputs; `results` says what it returns. ExecuTorch carries it to the
partitioner, whose delegate it becomes. It computes nothing in PyTorch.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any

import torch

NAMESPACE, NAME = "systola", "program"


@functools.cache
def program_operator() -> Any:
    """The operator, defined in this process at the first call."""
    _library()
    return torch.ops.systola.program.default


@functools.cache
def _library() -> torch.library.Library:
    """Lives as long as the process: operators go with their library."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(f"{NAME}(Tensor payload, Tensor[] inputs, str results) -> Tensor[]")
    library.impl(NAME, _shapes, "Meta")
    library.impl(NAME, _shapes, "CPU")
    return library


def described(results: Sequence[torch.Tensor]) -> str:
    """The operator's argument `results` for tensors like these."""
    return json.dumps([[str(t.dtype).removeprefix("torch."), list(t.shape)] for t in results])


def _shapes(
    payload: torch.Tensor, inputs: Sequence[torch.Tensor], results: str
) -> list[torch.Tensor]:
    """Tensors of the right shapes and types, of zeros: export asks for no more."""
    return [
        torch.zeros(shape, dtype=getattr(torch, dtype), device=payload.device)
        for dtype, shape in json.loads(results)
    ]


def is_program(node: torch.fx.Node) -> bool:
    """Whether a node of a graph, in the edge dialect or before it, is the operator."""
    target = getattr(node.target, "_op", node.target)
    return getattr(target, "_schema", None) is not None and target._schema.name == (
        f"{NAMESPACE}::{NAME}"
    )
