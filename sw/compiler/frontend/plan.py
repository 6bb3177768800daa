"""The plan: for each node that is needed, the rule that imports it and the values that rule reads.

Rules may cover several nodes: a chain of functions of one value is one table, the five nodes of an
RMS norm are one norm, a batch norm belongs to its convolution. Nodes inside such a group are never
imported. Plans are made from the outputs back, so that every value's readers are known before it
is made.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from sw.compiler.errors import CompileError
from sw.compiler.frontend import patterns
from sw.compiler.frontend.nodes import aten, is_float, name, node_argument, result, shape
from sw.compiler.frontend.operator_sets import (
    BATCH_NORMS,
    BOUNDS,
    LINEAR,
    PERIODIC,
    SAME,
    UNIVARIATE,
    Plan,
    first_result,
    keeps,
    same,
)
from sw.compiler.frontend.operators import row_of, targets
from sw.compiler.frontend.quantization.calibrate import HUGE
from sw.compiler.frontend.quantization.quantize_nodes import (
    grid_of,
    is_dequantize,
    is_quantize,
    stored_parameters,
)
from sw.compiler.frontend.quantization.values import Grid
from sw.compiler.frontend.quantization.wholes import wholes_of
from sw.compiler.frontend.sources import source_line

_SUMS = targets("add", "sub")

Function = Callable[[torch.Tensor], torch.Tensor]
"""A function of a float64 tensor, element by element."""


class Planner:
    """Plans of a graph; `constants`: the nodes that no input reaches, with their values."""

    def __init__(self, module: GraphModule, constants: Mapping[Node, torch.Tensor]) -> None:
        self.fixed = constants
        self.roots: dict[Node, Node] = {}
        self.plans: dict[Node, Plan] = {}
        self.readers: dict[Node, list[Node]] = {}
        self.grids: dict[Node, Grid] = {}
        self.stored = stored_parameters(constants)
        nodes = list(module.graph.nodes)
        self.wholes = wholes_of(nodes, constants)
        for node in nodes:
            self._find_root(node)
        needed: set[Node] = set()
        for node in reversed(nodes):
            if node.op == "output":
                needed.update(node.all_input_nodes)
                self._read(node, tuple(node.all_input_nodes))
            elif node in needed and node not in constants and node.op == "call_function":
                plan = self._plan(node)
                plan.call = plan.call or node
                self.plans[node] = plan
                needed.update(plan.reads)
                self._read(node, plan.reads)

    def _read(self, reader: Node, reads: tuple[Node, ...]) -> None:
        for node in reads:
            self.readers.setdefault(node, []).append(reader)

    def variable(self, node: Node) -> tuple[Node, ...]:
        """Operands that are not constants."""
        return tuple(n for n in node.all_input_nodes if n not in self.fixed)

    def grid_behind(self, node: Node) -> Grid | None:
        """The grid that the value of `node` lies on: it comes unchanged from a quantize node."""
        while node not in self.grids:
            plan = self.plans.get(node)
            if plan is None or plan.rule != "same" or not plan.reads:
                return None
            (node,) = plan.reads
        return self.grids[node]

    def _plan(self, node: Node) -> Plan:
        if is_quantize(node):
            try:
                self.grids[node] = grid_of(node)
            except ValueError as error:
                raise CompileError(str(error), node=node.name, source=source_line(node)) from None
            return Plan(rule="quantize", reads=self.variable(node)[:1])
        if is_dequantize(node):
            return Plan(rule="same", reads=self.variable(node)[:1])
        found = (
            patterns.rms_norm(node, self.fixed, self)
            or patterns.convolution(node, self.fixed)
            or self._bounded(node)
            or self._univariate(node)
        )
        if found is not None:
            return found
        if node.target in SAME:
            rule = "same" if keeps(node) else "cast"
            return Plan(rule=rule, reads=self.variable(node)[:1])
        weight = linear_weight(node)
        if weight is not None and weight in self.fixed and len(self.variable(node)) == 1:
            return Plan(rule="linear", reads=self.variable(node), data={"weight": weight})
        call = first_result(node)
        affine = call.target in BATCH_NORMS and patterns.channel_affine(call, self.fixed)
        if affine:
            x, a, b = affine
            return Plan(rule="affine", reads=(x,), data={"factor": a, "offset": b}, call=call)
        row = row_of(call.target)
        return Plan(rule=row.rule if row else "", reads=self.variable(call), call=call)

    # Functions of one value -----------------------------------------------------------------------

    def _find_root(self, node: Node) -> None:
        """The value that `node` is a function of, through elementwise operators only."""
        if node.op != "call_function" or node in self.fixed or node.target not in UNIVARIATE:
            return
        if node in self.wholes.whole and node.target in _SUMS:
            return  # no table is exact enough
        if any(n in self.fixed and _elements(n) != 1 for n in node.all_input_nodes):
            return
        if any(shape(n) != shape(node) for n in self.variable(node)):
            return  # a constant of one element that has more dimensions than the value
        if name(node) == "mul" and any(self._is_huge(a) for a in node.args):
            return  # a mask's factor: between 0 and 1 no table could follow it
        sources = {self.root(same(n)) for n in self.variable(node)}
        if len(sources) == 1 and is_float(node):
            self.roots[node] = sources.pop()

    def _is_huge(self, argument: Any) -> bool:
        value = self.fixed.get(argument, argument)
        return not isinstance(value, Node) and bool((torch.as_tensor(value).abs() > HUGE).any())

    def root(self, node: Node) -> Node:
        """What lies before the functions that end in `node`; bounds of a value begin anew."""
        return node if self._only_bounds(node) else self.roots.get(node, node)

    def _only_bounds(self, node: Node) -> bool:
        root = self.roots.get(node)
        at: Any = node
        while root is not None and at is not root:
            if at.target not in BOUNDS:
                return False
            at = same(at.args[0])
        return root is not None

    def _bounded(self, node: Node) -> Plan | None:
        """A value between bounds."""
        if not self._only_bounds(node):
            return None
        root = self.roots[node]
        ends = self.function(node, root)(torch.tensor([-1e300, 1e300], dtype=torch.float64))
        low, high = (float(v) for v in ends)
        data = {"low": low if low > -1e300 else None, "high": high if high < 1e300 else None}
        return Plan(rule="bounded", reads=(root,), data=data)

    def _univariate(self, node: Node) -> Plan | None:
        root = self.roots.get(node)
        if root is None or not is_float(root):
            return None
        function = self.function(node, root)
        grid = torch.tensor([-3.0, -0.5, 0.25, 1.0, 7.0], dtype=torch.float64)
        ratio = function(grid) / grid
        if bool((ratio - ratio[0]).abs().max() <= 1e-6 * ratio[0].abs()) and ratio[0] > 0:
            return Plan(rule="scale", reads=(root,), data={"factor": float(ratio[0])})
        data = {"function": function, "period": self._period(node, root, function)}
        return Plan(rule="univariate", reads=(root,), data=data)

    def _period(self, node: Node, root: Node, function: Function) -> float:
        """The period of a chain that takes sines of its value; 0 for a chain that has none."""
        at = torch.tensor([-2.0, -0.5, 0.25, 1.0, 3.0], dtype=torch.float64)
        slopes, pending, seen = set[float](), [node], set[Node]()
        while pending:
            each = pending.pop()
            if each is root or each in self.fixed or each in seen:
                continue
            seen.add(each)
            if each.target not in PERIODIC:
                pending += self.variable(each)
                continue
            (inner,) = self.variable(each)
            values = self.function(inner, root)(at)
            slope = float((values[-1] - values[0]) / (at[-1] - at[0]))
            if not torch.allclose(values, values[0] + slope * (at - at[0]), 1e-9, 1e-9):
                return 0.0
            slopes.add(abs(slope))
        if not slopes - {0.0}:
            return 0.0
        period = 2 * math.pi / min(slopes - {0.0})
        # Others must be multiples of the slowest one, and nothing else may depend on the value.
        again = [function(at + turns * period) for turns in (1, -1, 7, -60, 500, -4000)]
        return period if all(torch.allclose(function(at), a, 1e-6, 1e-6) for a in again) else 0.0

    def function(self, node: Node, root: Node) -> Function:
        """The chain from `root` to `node`."""

        def run(x: torch.Tensor) -> torch.Tensor:
            values: dict[Node, Any] = {root: x}

            def of(n: Any) -> Any:
                if not isinstance(n, Node):
                    return n
                if n in self.fixed:
                    return self.fixed[n].double()
                if n not in values:
                    if keeps(n):
                        values[n] = of(n.args[0])
                    else:
                        args = [of(a) for a in n.args]
                        values[n] = n.target(*args, **n.kwargs)
                return values[n]

            found = torch.as_tensor(of(node))
            # A constant of one element may have dimensions of its own.
            return found.reshape(x.shape) if found.numel() == x.numel() else found

        return run


def linear_weight(node: Node) -> Node | None:
    """The weight operand of a product of rows with a matrix."""
    if node.target in LINEAR:
        return node_argument(node, 2 if node.target is aten.addmm.default else 1)
    if node.target is aten.matmul.default:
        b = node_argument(node, 1)
        return b if len(b.meta["val"].shape) == 2 else None
    return None


def _elements(node: Node) -> int:
    value = result(node)
    return 0 if value is None else value.numel()
