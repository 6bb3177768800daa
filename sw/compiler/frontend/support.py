"""Which nodes of a float graph the importer takes: what a partitioner asks before it compiles.

The table of operators says which have a rule, for which types and within which limits. A rule that
refuses more than this says so by `CompileError` at import, naming the node.
"""

import operator
from collections.abc import Collection, Mapping

import torch
from torch.fx import GraphModule, Node

from sw.compiler.frontend.nodes import node_argument
from sw.compiler.frontend.operator_row import FLOAT, Operator
from sw.compiler.frontend.operator_sets import FIRST, REFUSED
from sw.compiler.frontend.operators import row_of
from sw.compiler.frontend.plan import Planner
from sw.compiler.frontend.quantization.calibrate import fixed_nodes
from sw.compiler.frontend.quantization.quantize_nodes import grid_of, is_dequantize, is_quantize
from sw.compiler.tosa.operators.checker import MAX_RANK


def reasons(
    module: GraphModule, constants: Mapping[Node, torch.Tensor] | None = None
) -> dict[Node, str]:
    """By operator of the graph: '' where the importer takes it, else why not.

    Nodes that a wider rule covers (those inside an RMS norm, a chain of functions) count with it.
    constants: values of the nodes that no input reaches; those need no rule.
    """
    fixed: Collection[Node] = fixed_nodes(module)
    planner = Planner(module, constants) if constants is not None else None
    found: dict[Node, str] = {}
    for node in reversed(list(module.graph.nodes)):
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        reason = _reason(node, fixed)
        covered = planner is not None and node not in planner.plans and node not in fixed
        if reason and covered and node.users and all(found.get(u) == "" for u in node.users):
            reason = types(node, fixed, FLOAT)
        found[node] = reason
    return dict(reversed(found.items()))


def _reason(node: Node, fixed: Collection[Node]) -> str:
    if node.op in ("placeholder", "get_attr", "output") or node in fixed:
        return ""
    if node.op != "call_function":
        return f"{node.op} is no ATen operator"
    row = row_of(node.target)
    if wrong := shapes(node):
        return wrong
    if is_quantize(node) or is_dequantize(node):
        return _grid(node)
    if row is None or not row.rule:
        refused = node.meta.get(REFUSED)
        return f"operator {node.target} has no rule" + (f": {refused}" if refused else "")
    if wrong := mistyped(node, fixed):
        return wrong
    if node.target is operator.getitem:
        return _result(node, fixed)
    return beyond(node, row, fixed)


def _grid(node: Node) -> str:
    """Whether a quantize node, or the one that a dequantize node reads, has a grid of int8."""
    source = node if is_quantize(node) else node_argument(node, 0)
    if not is_quantize(source):
        return f"{source.name} gives integers that no quantize node made"
    try:
        grid_of(source)
    except ValueError as error:
        return str(error)
    return ""


def beyond(node: Node, row: Operator, fixed: Collection[Node]) -> str:
    """'' where `node` lies within the limits of its row, else the reason why not."""
    for operand in (node.args[at] for at in row.constants if len(node.args) > at):
        if isinstance(operand, Node) and operand not in fixed:
            return f"{operand.name} is computed at run time; this operand must be a constant"
    return row.check(node)


def _result(node: Node, fixed: Collection[Node]) -> str:
    """Whether an operator with several results gives this one."""
    inner, index = node_argument(node, 0), node.args[1]
    if inner.target not in FIRST:
        return ""
    if index != 0:
        return f"result {index} of {inner.target}: only the first"
    return _reason(inner, fixed)


def mistyped(node: Node, fixed: Collection[Node]) -> str:
    """'' where `node` reads and gives what the rule of its row takes, else what it has instead."""
    row = row_of(node.target)
    return "" if row is None or not row.rule else types(node, fixed, row.types)


def types(node: Node, fixed: Collection[Node], kinds: str) -> str:
    """'' if all tensors that `node` reads and gives are of `kinds`; else what it has instead.

    float: float32; int: any integer.
    """
    allowed = kinds.split(", ")
    operands = [n for n in node.all_input_nodes if n not in fixed]
    for found in (*operands, node):
        for dtype in dtypes(found):
            if kind(dtype) not in allowed and (found is not node or kind(dtype) == "other"):
                name = str(dtype).removeprefix("torch.")
                what = "gives" if found is node else f"reads {found.name}:"
                return f"{what} {name}; the NPU computes this of {kinds}"
    return ""


def kind(dtype: torch.dtype) -> str:
    """float, int, bool, or other (what the NPU has no numbers for)."""
    if dtype in (torch.float32, torch.bool):
        return "float" if dtype is torch.float32 else "bool"
    return "other" if dtype.is_floating_point or dtype.is_complex else "int"


def dtypes(node: Node) -> set[torch.dtype]:
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return {v.dtype for v in values if isinstance(v, torch.Tensor)}


def shapes(node: Node) -> str:
    """'' where all shapes are static, without empty dimensions, of ranks that TOSA has."""
    for at in (node, *node.all_input_nodes):
        value = at.meta.get("val")
        results = value if isinstance(value, tuple | list) else (value,)
        for tensor in results[:1] if at.target in FIRST else results:
            if not isinstance(tensor, torch.Tensor):
                continue
            if any(not isinstance(s, int) for s in tensor.shape):
                return f"dynamic shape {list(tensor.shape)}"
            if tensor.dim() > MAX_RANK:
                return f"{tensor.dim()} dimensions: at most {MAX_RANK}"
            if 0 in tensor.shape:
                return f"empty tensor {list(tensor.shape)}"
    return ""
