"""Other words for operators that have no rule, or that lie beyond the limits of theirs.

An operator is replaced by what `table.py` makes of it, else by what PyTorch says that it is made
of: only where the importer takes all of that. It stays as it is otherwise, with the reason.
"""

from collections.abc import Collection
from functools import partial
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from sw.compiler.frontend.nodes import kind, result
from sw.compiler.frontend.operator_sets import REFUSED, UNIVARIATE
from sw.compiler.frontend.operators import row_of
from sw.compiler.frontend.quantization.calibrate import fixed_nodes, varies
from sw.compiler.frontend.rewrites.table import function_of
from sw.compiler.frontend.rewrites.tracing import Function, inline, leaves_of, missing, traced
from sw.compiler.frontend.support import beyond, dtypes, mistyped, reasons, shapes

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

_DEPTH = 6
"""How often what an operator is made of may be taken apart again."""


def rewrite(module: GraphModule, depth: int = _DEPTH) -> None:
    """Rewrite a graph in place; it computes the same."""
    fixed = fixed_nodes(module)
    changed = False
    for node in list(module.graph.nodes):
        if node.op != "call_function" or node in fixed or not _foreign(node, fixed):
            continue
        body = _body(node, fixed, depth)
        if body is not None:
            inline(module, node, body)
            changed = True
    if changed:
        module.graph.eliminate_dead_code()
        module.graph.lint()
        module.recompile()


def _foreign(node: Node, fixed: Collection[Node]) -> bool:
    """Whether the importer has no rule for `node`, or one with limits that it lies beyond."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or shapes(node):
        return False
    if target.namespace not in ("aten", "transformers"):
        return False
    if varies(node) and function_of(target) is None:
        return False
    row = row_of(node.target)
    if row is None or not row.rule:
        return True
    return bool(beyond(node, row, fixed) or _of_integers(node, fixed))


def _of_integers(node: Node, fixed: Collection[Node]) -> bool:
    """Whether a function of elements reads integers or bools that its rule does not take."""
    return node.target in UNIVARIATE and bool(mistyped(node, fixed))


def _body(node: Node, fixed: Collection[Node], depth: int) -> GraphModule | None:
    """What `node` is made of, if the importer takes all of it."""
    function, whole = _function(node, fixed)
    plain = all(isinstance(n.meta.get("val"), torch.Tensor) for n in leaves_of(node))
    if function is None or depth <= 0 or not plain:
        return None
    try:
        body = traced(node, function, fixed, whole)
        rewrite(body, depth - 1)
    except Exception as error:  # whoever meets the operator must know why it stayed
        node.meta[REFUSED] = f"{type(error).__name__}: {error}".splitlines()[0]
        return None
    wrong = missing(node, body) or next((r for r in reasons(body).values() if r), "")
    if wrong and "prims." not in wrong:  # PyTorch's own primitives say nothing to people
        node.meta[REFUSED] = wrong
    return None if wrong else body


def _function(node: Node, fixed: Collection[Node]) -> tuple[Function | None, bool]:
    """What stands for an operator, and whether composite operators stay whole in it.

    It is a function of these files, else PyTorch's own, in which they cannot. Operands of a lesser
    kind than the result (integers for floats, bools for integers) are cast first.
    """
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    gives = result(node)
    if gives is not None and gives.dtype != torch.bool and _of_integers(node, fixed):
        lesser = (torch.bool,) if kind(node) == "int" else (torch.bool, *_INTEGERS)
        if any(dtypes(n).intersection(lesser) for n in leaves_of(node)):
            return partial(_promoted, target, lesser, gives.dtype), True
    own = function_of(target)
    if own is None and target._can_decompose():
        return target.decompose, False
    return own or decomposition_table.get(target), own is not None


def _promoted(
    target: OpOverload, lesser: Collection[torch.dtype], dtype: torch.dtype, *args: Any, **more: Any
) -> Any:
    """The operator of its operands as `dtype`, those of `lesser` types."""

    def promote(value: Any) -> Any:
        low = isinstance(value, torch.Tensor) and value.dtype in lesser
        return value.to(dtype) if low else value

    return target(*pytree.tree_map(promote, args), **more)
