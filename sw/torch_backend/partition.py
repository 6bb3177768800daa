"""Which nodes run on the NPU, in as few programs as can be.

A graph that the NPU takes whole is one part (`whole`). Any other is split by stages: even ones run
on the CPU, odd ones on the NPU, and a node is in the first stage that its operands allow. The NPU
nodes of a stage are one part: nothing between two of them needs the CPU, and there are as many
parts as the longest alternation along any path, no fewer of which are possible.

Why a node cannot run on the NPU comes from `sw/compiler/frontend/support.py`.
"""

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch.fx import Node

from sw.compiler.frontend.operator_sets import MOVES, SAME, VIEWS, aten
from sw.compiler.frontend.quantization.quantize_nodes import is_dequantize, is_quantize

EDGE = "moves or counts what comes from the CPU"
IDLE = "a part that only moves values"
T = TypeVar("T")
_GROW = (aten.expand.default, aten.repeat.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """parts: the NPU's nodes, in order of execution; why: of each other operator, why not there.

    order: all other operators with the parts (as their index) between them.
    """

    parts: list[list[Node]]
    why: dict[Node, str]
    order: list[Node | int]


def partition(nodes: list[Node], fixed: Collection[Node], reasons: Mapping[Node, str]) -> Partition:
    """Split `nodes` (a graph's, in order) by `reasons` ('': the NPU takes it).

    fixed: nodes that no input reaches; parts bring their own copies of these.
    """
    operators = [n for n in nodes if n.op not in ("placeholder", "output") and n not in fixed]
    why = {n: reasons.get(n, "") for n in operators}
    _keep_tuples_whole(operators, why)
    while True:
        _keep_grids_whole(operators, why)
        _trim(operators, why)
        stages = _stages(nodes, fixed, why)
        parts = _parts(operators, stages, why)
        idle = [p for p in parts if not any(map(works, p))]
        for node in (n for p in idle for n in p):
            why[node] = IDLE
        if not idle:
            return Partition(parts=parts, why=why, order=_order(nodes, stages, why, parts))


def whole(
    nodes: list[Node], fixed: Collection[Node], reasons: Mapping[Node, str]
) -> Partition | None:
    """All of a graph as one part, where the NPU takes every operator; else None.

    It is then the program that every other entry makes of the model. A graph is split all the same
    where it returns integers, which have 64 bits in PyTorch, or two names of one memory.
    """
    operators = [n for n in nodes if n.op not in ("placeholder", "output") and n not in fixed]
    (output,) = (n for n in nodes if n.op == "output")
    results = output.all_input_nodes
    memories = {_memory(n) for n in results}
    taken = all(not reasons.get(n, "") for n in operators) and any(map(computes, operators))
    own = len(memories) == len(results) and all(
        n.op != "placeholder" and n not in fixed for n in memories
    )
    values = [n.meta.get("val") for n in results]
    floats = all(isinstance(v, torch.Tensor) and v.is_floating_point() for v in values)
    if not (taken and own and floats):
        return None
    return Partition(parts=[operators], why=dict.fromkeys(operators, ""), order=[0])


def _memory(node: Node) -> Node:
    """The node in whose memory `node` lies: its own, or what it is a view of."""
    while (source := _viewed(node)) is not None:
        node = source
    return node


def _viewed(node: Node) -> Node | None:
    """The operand that `node`, or the operator whose element it is, shares its memory with."""
    made = node.all_input_nodes[0] if node.target is operator.getitem else node
    returns = getattr(getattr(made.target, "_schema", None), "returns", ())
    shares = any(r.alias_info is not None for r in returns)
    return made.all_input_nodes[0] if shares else None


def computes(node: Node) -> bool:
    """Whether `node` does more than hand values on."""
    return node.target not in MOVES and node.target not in SAME


def works(node: Node) -> bool:
    """Whether `node` does more than move values, or round them to a grid."""
    return computes(node) and not (is_quantize(node) or is_dequantize(node))


def _keep_tuples_whole(operators: list[Node], why: dict[Node, str]) -> None:
    """Results of several tensors never cross: getitem is where its operator is."""
    for node in operators:
        if node.target is operator.getitem and isinstance(node.args[0], Node):
            why[node] = why.get(node.args[0], "an element of a constant")
    for node in operators:
        value = node.meta.get("val")
        if not why[node] and isinstance(value, torch.Tensor) and not value.is_floating_point():
            if not computes(node):
                why[node] = "moves integers"
        elif not why[node] and isinstance(value, list | tuple):
            outside = [u for u in node.users if u.target is not operator.getitem]
            if outside:
                why[node] = "its results are read as one"


def _keep_grids_whole(operators: list[Node], why: dict[Node, str]) -> None:
    """Integers of PT2E never cross: a quantize node is where all that read it are.

    It is on the CPU where nothing on the NPU makes or reads its values.
    """
    for node in operators:
        if not is_quantize(node):
            continue
        unit = [node, *node.users]
        reasons = (why.get(n, "its integers are read as they are") for n in unit)
        reason = next(filter(None, reasons), "")
        around = [*node.all_input_nodes, *(u for n in node.users for u in n.users)]
        if not reason and all(why.get(n, "input or output") for n in around):
            reason = "rounds what the CPU makes and reads"
        why.update({n: why.get(n) or reason for n in unit if n in why})


def _trim(operators: list[Node], why: dict[Node, str]) -> None:
    """Moves at the edge of a part cost nothing on the CPU, where views stay views."""
    for node in operators:
        if not why[node] and _moves(node):
            _trim_source(node, why)
    for node in reversed(operators):
        if not why[node] and _moves_result(node, why):
            why[node] = "a move of a result"


def _moves(node: Node) -> bool:
    """Whether the CPU does `node` for nothing: a move that adds no copies, or integers only."""
    return _is_integers(node) or (not computes(node) and node.target not in _GROW)


def _trim_source(node: Node, why: dict[Node, str]) -> None:
    """Leave `node` to the CPU where all that it reads is there, its elements if it has several."""
    if all(why.get(n, "input") for n in node.all_input_nodes):
        why[node] = EDGE
        if isinstance(node.meta.get("val"), list | tuple):
            why.update(dict.fromkeys(node.users, EDGE))


def _moves_result(node: Node, why: Mapping[Node, str]) -> bool:
    """Whether `node` only moves a value of the NPU that the CPU reads, or reads as well."""
    if computes(node) or isinstance(node.meta.get("val"), list | tuple):
        return False
    if node.target is operator.getitem or any(not why.get(u, "output") for u in node.users):
        return False
    (source, *_) = node.all_input_nodes
    read = any(why.get(u, "output") for u in source.users if u is not node)
    return node.target in VIEWS or node.target in SAME or read


def _is_integers(node: Node) -> bool:
    """Whether there is nothing but integers: PyTorch's have 64 bits, and cost nothing there."""
    values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
    flat = [x for v in values for x in (v if isinstance(v, list | tuple) else [v])]
    tensors = [t for t in flat if isinstance(t, torch.Tensor)]
    return bool(tensors) and not any(t.is_floating_point() for t in tensors)


def _stages(nodes: list[Node], fixed: Collection[Node], why: Mapping[Node, str]) -> dict[Node, int]:
    free = [n for n in nodes if n not in fixed and n.op != "output"]
    npu = {n for n in free if n.op != "placeholder" and not why[n]}
    return stages(free, lambda n: n.all_input_nodes, npu)


def stages(
    nodes: Iterable[T], operands: Callable[[T], Iterable[T]], npu: Collection[T]
) -> dict[T, int]:
    """The stage of each node: odd for those of `npu`, none before that of an operand.

    nodes: in an order of execution. Operands that are not among them count for nothing.
    """
    found: dict[T, int] = {}
    for node in nodes:
        latest = max((found[n] for n in operands(node) if n in found), default=0)
        found[node] = latest + (latest % 2 != (node in npu))
    return found


def _parts(
    operators: list[Node], stages: Mapping[Node, int], why: Mapping[Node, str]
) -> list[list[Node]]:
    parts: dict[int, list[Node]] = {}
    for node in operators:
        if not why[node]:
            parts.setdefault(stages[node], []).append(node)
    return [parts[stage] for stage in sorted(parts)]


def _order(
    nodes: list[Node],
    stages: Mapping[Node, int],
    why: Mapping[Node, str],
    parts: list[list[Node]],
) -> list[Node | int]:
    """By stage, in each as the graph has them; what writes to its operands comes last, as there."""
    index = {stages[part[0]]: i for i, part in enumerate(parts)}
    slots: list[tuple[int, int, Node | int]] = [(s, 0, i) for s, i in index.items()]
    last = max(stages.values(), default=0) + 1
    for at, node in enumerate(nodes):
        if node in stages and node.op != "placeholder" and why[node]:
            slots.append((last if writes(node) else stages[node], at, node))
    return [x for _, _, x in sorted(slots, key=lambda slot: slot[:2])]


def writes(node: Node) -> bool:
    """Whether the operator changes one of its operands."""
    schema = getattr(node.target, "_schema", None)
    return bool(schema is not None and schema.is_mutable)
