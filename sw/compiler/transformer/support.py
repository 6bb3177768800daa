"""Which nodes of a float graph the importer takes: what a partitioner asks before it compiles.

The planner says which rule would import a node, `RULES` whether there is one, `LIMITS` what that
rule asks of its operands. A rule that refuses more than this says so by `CompileError` at import,
naming the node.
"""

from collections.abc import Callable, Collection, Mapping

import torch
from torch.fx import GraphModule, Node

from sw.compiler.transformer.module import RULES
from sw.compiler.transformer.plan import MOVES, SAME, Planner, aten
from sw.compiler.transformer.ranges import fixed_nodes

Limit = Callable[[Node, Collection[Node]], str]

_INDICES = {aten.embedding.default: (1,)}
"""Operands that are integers, by operator."""


def reasons(
    module: GraphModule, constants: Mapping[Node, torch.Tensor] | None = None
) -> dict[Node, str]:
    """By operator of the graph: '' where the importer takes it, else why not.

    Nodes that a wider rule covers (those inside an RMS norm, a chain of functions) count with it.
    constants: values of the nodes that no input reaches; those need no rule.
    """
    fixed: Collection[Node] = fixed_nodes(module)
    planner = Planner(module, constants) if constants is not None else None
    alone = _Alone(fixed)
    found: dict[Node, str] = {}
    for node in reversed(list(module.graph.nodes)):
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        reason = _reason(node, alone)
        covered = planner is not None and node not in planner.plans and node not in fixed
        if reason and covered and node.users and all(found.get(u) == "" for u in node.users):
            reason = types(node, fixed)
        found[node] = reason
    return dict(reversed(found.items()))


def supported(node: Node, fixed: Collection[Node] | None = None) -> str:
    """'' if the importer takes `node`, alone or with others; else the reason, for people.

    fixed: the nodes that no input reaches (found from the node's graph if not given).
    """
    if fixed is None:
        fixed = fixed_nodes(node.graph.owning_module or GraphModule({}, node.graph))
    return _reason(node, _Alone(fixed))


class _Alone(Planner):
    """The planner's choice of rules for single nodes, without the values of constants."""

    def __init__(self, fixed: Collection[Node]) -> None:
        self.fixed = dict.fromkeys(fixed, torch.ones(()))
        self.roots, self.plans, self.readers = {}, {}, {}

    def rule(self, node: Node) -> str:
        self._find_root(node)
        return self._plan(node).rule


def _reason(node: Node, alone: _Alone) -> str:
    if node.op in ("placeholder", "get_attr", "output") or node in alone.fixed:
        return ""
    if node.op != "call_function":
        return f"{node.op} is no ATen operator"
    wrong = types(node, alone.fixed)
    if wrong:
        return wrong
    try:
        rule = alone.rule(node)
    except Exception as error:  # a planner that stumbles over one node must not stop the others
        return f"operator {node.target}: {error!r}"
    if rule not in RULES:
        return f"operator {node.target} has no rule"
    limit = LIMITS.get(rule)
    return limit(node, alone.fixed) if limit else ""


def types(node: Node, fixed: Collection[Node]) -> str:
    """'' if `node` computes float32 from float32 (or moves values); else what it has instead."""
    indices = _INDICES.get(node.target, ())
    operands = [
        a
        for i, a in enumerate(node.args)
        for a in (a if isinstance(a, list | tuple) else [a])
        if isinstance(a, Node) and i not in indices
    ]
    operands += [a for a in node.kwargs.values() if isinstance(a, Node)]
    for found in (*(o for o in operands if o not in fixed), node):
        for dtype in _dtypes(found):
            if dtype is torch.float32:
                continue
            moved = node.target in MOVES or (node.target in SAME and dtype in _dtypes(node))
            if moved and not dtype.is_floating_point and not dtype.is_complex:
                continue
            name = str(dtype).removeprefix("torch.")
            what = "gives" if found is node else f"reads {found.name}:"
            return f"{what} {name}; the NPU computes what is float32"
    return ""


def _dtypes(node: Node) -> set[torch.dtype]:
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return {v.dtype for v in values if isinstance(v, torch.Tensor)}


def _constant(*positions: int) -> Limit:
    """Operands that no input may reach."""

    def check(node: Node, fixed: Collection[Node]) -> str:
        for i in positions:
            operand = node.args[i] if len(node.args) > i else None
            if isinstance(operand, Node) and operand not in fixed:
                return f"{operand.name} is computed at run time; this operand must be a constant"
        return ""

    return check


def _convolution(node: Node, fixed: Collection[Node]) -> str:
    groups = node.args[6] if len(node.args) > 6 else 1
    return _constant(1, 2)(node, fixed) or (f"groups={groups}: only 1" if groups != 1 else "")


def _sum(node: Node, _: Collection[Node]) -> str:
    weight = node.kwargs.get("alpha", 1)
    return "" if weight == 1 else f"alpha={weight}: only 1"


def _softmax(node: Node, _: Collection[Node]) -> str:
    axis, rank = node.args[1], len(node.meta["val"].shape)
    return "" if axis in (-1, rank - 1) else f"softmax along axis {axis}: only the last one"


def _layer_norm(node: Node, fixed: Collection[Node]) -> str:
    shape = list(node.args[1])
    return _constant(2, 3)(node, fixed) or (
        f"layer norm over {shape}: only the last axis" if len(shape) != 1 else ""
    )


def _attention(node: Node, fixed: Collection[Node]) -> str:
    mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
    if isinstance(mask, Node) and mask not in fixed and torch.bool in _dtypes(mask):
        return "a mask of bool that is computed at run time"
    if len(node.args[0].meta["val"].shape) != 4:
        return "attention of tensors that have not four dimensions"
    dropout = node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p", 0.0)
    return f"dropout_p={dropout}: only 0" if dropout else ""


def _same(node: Node, _: Collection[Node]) -> str:
    if node.target is aten.dropout.default and node.args[2]:
        return "dropout in training mode"
    operand = node.args[0]
    if isinstance(operand, Node) and _dtypes(operand) != _dtypes(node):
        return "a change of type"
    return ""


def _slice(node: Node, _: Collection[Node]) -> str:
    step = node.args[4] if len(node.args) > 4 else 1
    return "" if step == 1 else f"slice with step {step}: only 1"


def _index(node: Node, fixed: Collection[Node]) -> str:
    given = [n for n in node.args[1] if n is not None]
    if len(given) != 1 or given[0] not in fixed or len(given[0].meta["val"].shape) != 1:
        return "indices must be a constant vector along one axis"
    return "indices of bool" if torch.bool in _dtypes(given[0]) else ""


def _baddbmm(node: Node, fixed: Collection[Node]) -> str:
    return _constant(0)(node, fixed)


LIMITS: dict[str, Limit] = {
    "same": _same,
    "aten.conv1d.default": _convolution,
    "aten.conv2d.default": _convolution,
    "aten.add.Tensor": _sum,
    "aten.sub.Tensor": _sum,
    "aten.softmax.int": _softmax,
    "aten._softmax.default": _softmax,
    "aten.layer_norm.default": _layer_norm,
    "aten.scaled_dot_product_attention.default": _attention,
    "aten.embedding.default": _constant(0),
    "aten.slice.Tensor": _slice,
    "aten.index.Tensor": _index,
    "aten.baddbmm.default": _baddbmm,
}
"""By rule: '' if it takes the node, else the reason."""
