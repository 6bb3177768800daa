"""The plan: for each node that is needed, the rule that imports it and the values that rule reads.

Rules may cover several nodes: a chain of functions of one value is one table, the five nodes of an
RMS norm are one norm. Nodes inside such a group are never imported. Plans are made from the outputs
back, so that every value's readers are known before it is made.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten

SAME = (
    aten.clone.default,
    aten.alias.default,
    aten.contiguous.default,
    aten.detach.default,
    aten.dropout.default,
    aten.lift_fresh_copy.default,
    aten._to_copy.default,
    aten.to.dtype,
    aten.type_as.default,
)
"""Operators that change no value."""

VIEWS = (
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.flatten.using_ints,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.permute.default,
    aten.transpose.int,
    aten.t.default,
    aten.expand.default,
)
MOVES = (
    *VIEWS,
    aten.slice.Tensor,
    aten.select.int,
    aten.index.Tensor,
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.chunk.default,
    aten.unbind.int,
    operator.getitem,
    aten.cat.default,
    aten.repeat.default,
)
"""Operators that move values and compute nothing."""

LINEAR = (aten.linear.default, aten.addmm.default, aten.mm.default)
PRODUCTS = (
    aten.matmul.default,
    aten.bmm.default,
    aten.baddbmm.default,
    aten.scaled_dot_product_attention.default,
)
UNIVARIATE = (
    aten.gelu.default,
    aten.silu.default,
    aten.sigmoid.default,
    aten.tanh.default,
    aten.relu.default,
    aten.exp.default,
    aten.erf.default,
    aten.pow.Tensor_Scalar,
    aten.mul.Tensor,
    aten.mul.Scalar,
    aten.div.Tensor,
    aten.add.Tensor,
    aten.sub.Tensor,
    aten.rsub.Scalar,
    aten.neg.default,
    aten.softplus.default,
    aten.hardtanh.default,
    aten.clamp.default,
    aten.clamp_min.default,
    aten.leaky_relu.default,
)
"""Elementwise operators: with one operand that is not a number they are a function of one value."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """`rule` imports the node from the values of `reads`."""

    rule: str
    reads: tuple[Node, ...]
    data: dict[str, Any] = field(default_factory=dict)


def same(node: Any) -> Any:
    """The value behind operators that change nothing."""
    while isinstance(node, Node) and node.target in SAME:
        node = node.args[0]
    return node


class Planner:
    """Plans of a graph; `constants`: the nodes that no input reaches, with their values."""

    def __init__(self, module: GraphModule, constants: Mapping[Node, torch.Tensor]) -> None:
        self.fixed = constants
        self.roots: dict[Node, Node] = {}
        self.plans: dict[Node, Plan] = {}
        self.readers: dict[Node, list[Node]] = {}
        nodes = list(module.graph.nodes)
        for node in nodes:
            self._find_root(node)
        needed: set[Node] = set()
        for node in reversed(nodes):
            if node.op == "output":
                needed.update(node.all_input_nodes)
                self._read(node, tuple(node.all_input_nodes))
            elif node in needed and node not in constants and node.op == "call_function":
                plan = self._plan(node)
                self.plans[node] = plan
                needed.update(plan.reads)
                self._read(node, plan.reads)

    def _read(self, reader: Node, reads: tuple[Node, ...]) -> None:
        for node in reads:
            self.readers.setdefault(node, []).append(reader)

    def variable(self, node: Node) -> tuple[Node, ...]:
        """Operands that are not constants."""
        return tuple(n for n in node.all_input_nodes if n not in self.fixed)

    def _plan(self, node: Node) -> Plan:
        for match in (self._rms_norm, self._univariate):
            found = match(node)
            if found is not None:
                return found
        if node.target in SAME:
            return Plan(rule="same", reads=self.variable(node)[:1])
        weight = linear_weight(node)
        if weight is not None and weight in self.fixed and len(self.variable(node)) == 1:
            return Plan(rule="linear", reads=self.variable(node), data={"weight": weight})
        name = str(node.target) if node.target is not operator.getitem else "getitem"
        return Plan(rule=name, reads=self.variable(node))

    # Functions of one value -----------------------------------------------------------------------

    def _find_root(self, node: Node) -> None:
        """The value that `node` is a function of, through elementwise operators only."""
        if node.op != "call_function" or node in self.fixed or node.target not in UNIVARIATE:
            return
        if any(n in self.fixed and _elements(n) != 1 for n in node.all_input_nodes):
            return
        sources = {self._root(same(n)) for n in self.variable(node)}
        if len(sources) == 1 and _is_float(node):
            self.roots[node] = sources.pop()

    def _root(self, node: Node) -> Node:
        return self.roots.get(node, node)

    def _univariate(self, node: Node) -> Plan | None:
        root = self.roots.get(node)
        if root is None:
            return None
        function = self.function(node, root)
        grid = torch.tensor([-3.0, -0.5, 0.25, 1.0, 7.0], dtype=torch.float64)
        ratio = function(grid) / grid
        if bool((ratio - ratio[0]).abs().max() <= 1e-6 * ratio[0].abs()) and ratio[0] > 0:
            return Plan(rule="scale", reads=(root,), data={"factor": float(ratio[0])})
        return Plan(rule="univariate", reads=(root,), data={"function": function})

    def function(self, node: Node, root: Node) -> Callable[[torch.Tensor], torch.Tensor]:
        """The chain from `root` to `node` as a function of a float64 tensor."""

        def run(x: torch.Tensor) -> torch.Tensor:
            values: dict[Node, Any] = {root: x}

            def of(n: Any) -> Any:
                if not isinstance(n, Node):
                    return n
                if n in self.fixed:
                    return self.fixed[n].double()
                if n not in values:
                    if n.target in SAME:
                        values[n] = of(n.args[0])
                    else:
                        args = [of(a) for a in n.args]
                        values[n] = n.target(*args, **n.kwargs)
                return values[n]

            return torch.as_tensor(of(node))

        return run

    # RMS norm -------------------------------------------------------------------------------------

    def _rms_norm(self, node: Node) -> Plan | None:
        """[γ ·] x · rsqrt(mean(x²) + ε)."""
        if node.target is aten.rms_norm.default:
            eps = node.args[3] if len(node.args) > 3 and node.args[3] is not None else 1.2e-7
            gamma = node.args[2] if len(node.args) > 2 else None
            return self._rms(_arg(node, 0), eps, gamma)
        if node.target is not aten.mul.Tensor:
            return None
        a, b = node.args[:2]
        for gamma, inner in ((a, b), (b, a)):
            core = same(inner)
            if isinstance(gamma, Node) and gamma in self.fixed and isinstance(core, Node):
                found = self._rms_core(core)
                if found is not None and len(core.users) == 1:
                    return self._rms(*found, gamma)
        found = self._rms_core(node)
        return None if found is None else self._rms(*found, None)

    def _rms(self, x: Node, eps: Any, gamma: Any) -> Plan:
        return Plan(rule="rms_norm", reads=(x,), data={"eps": float(eps), "gamma": gamma})

    def _rms_core(self, node: Node) -> tuple[Node, float] | None:
        if node.target is not aten.mul.Tensor:
            return None
        for x, scale in (node.args[:2], node.args[1::-1]):
            x, scale = same(x), same(scale)
            if not isinstance(scale, Node) or scale.target is not aten.rsqrt.default:
                continue
            total = same(scale.args[0])
            if total.target is not aten.add.Tensor or not isinstance(total.args[1], float | int):
                continue
            mean = same(total.args[0])
            if mean.target is not aten.mean.dim or tuple(mean.args[1]) != (-1,):
                continue
            square = same(mean.args[0])
            squared = square.target is aten.pow.Tensor_Scalar and square.args[1] == 2
            if squared and same(square.args[0]) is x:
                return x, float(total.args[1])
        return None


def linear_weight(node: Node) -> Node | None:
    """The weight operand of a product of rows with a matrix."""
    if node.target in LINEAR:
        return _arg(node, 2 if node.target is aten.addmm.default else 1)
    if node.target is aten.matmul.default:
        b = _arg(node, 1)
        return b if len(b.meta["val"].shape) == 2 else None
    return None


def _arg(node: Node, index: int) -> Node:
    value = node.args[index]
    assert isinstance(value, Node)
    return value


def _elements(node: Node) -> int:
    value = node.meta.get("val")
    return value.numel() if isinstance(value, torch.Tensor) else 0


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()
