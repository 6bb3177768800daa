"""The walk over a float graph: each planned node by its rule, in integers of its format."""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule, Node

from spec.errors import SystolaError
from spec.numerics import ScaleError
from sw.compiler.errors import CompileError
from sw.compiler.frontend.building import Building, Value
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.nodes import is_float, kind
from sw.compiler.frontend.operator_sets import FIRST, REFUSED, SPATIAL, Plan
from sw.compiler.frontend.operators import row_of
from sw.compiler.frontend.plan import Planner
from sw.compiler.frontend.ports import Imported, ModelPort, Operands
from sw.compiler.frontend.quantization.calibrate import Ranges, RangesNeededError
from sw.compiler.frontend.quantization.formats import Format, Formats
from sw.compiler.frontend.quantization.precision import Width
from sw.compiler.frontend.quantization.values import Stored
from sw.compiler.frontend.sources import line_or_module, module_of
from sw.compiler.frontend.support import beyond, mistyped
from sw.compiler.passes.dead_code import remove_dead_code

Rule = Callable[["Importer", Node, Plan], Any]
PortFormat = ModelPort | int | None
"""The port whose format an output takes, or the number of the input; None: int16."""


class Importer(Building):
    """State of one import; rules build `graph` through it."""

    def __init__(self, module: GraphModule, name: str, ranges: Ranges, formats: Formats) -> None:
        super().__init__(name)
        self.module, self.ranges, self.formats = module, ranges, formats
        self.planner: Planner = formats.planner
        self.order = {node: i for i, node in enumerate(module.graph.nodes)}
        self.env: dict[Node, Any] = {}
        self.made: dict[Node, ModelPort] = {}
        self.seen: dict[str, tuple[float, float]] = {}
        self.lows: dict[tuple[str, int], str] = {}
        self.operands: dict[str, Operands] = {}
        self.by_row: dict[tuple[str, bytes], tuple[str, str]] = {}

    # Operands -------------------------------------------------------------------------------------

    def error(self, node: Node, message: str, hint: str = "") -> CompileError:
        return CompileError(message, node=node.name, source=line_or_module(node), hint=hint)

    def require(self, condition: bool, node: Node, message: str, hint: str = "") -> None:
        if not condition:
            raise self.error(node, message, hint)

    def constant(self, node: Any) -> NDArray[np.float64] | None:
        """The value of a constant operand (a number, or a node that no input reaches)."""
        if isinstance(node, bool | int | float):
            return np.asarray(node, np.float64)
        if isinstance(node, Node) and node in self.planner.stored:
            return self.planner.stored[node].real
        if isinstance(node, Node) and node in self.planner.fixed:
            return np.asarray(self.planner.fixed[node].double().numpy(), np.float64)
        return None

    def value(self, node: Node) -> Value:
        """The value of `node`, in whatever format it was made."""
        found = self.env.get(node)
        if not isinstance(found, Value):
            raise self.error(node, f"{node.target} is no value that a product or a sum can read")
        return found

    def get(self, node: Node, want: Format) -> Value:
        """The value of `node` in format `want`; constants are quantized to it."""
        known = self.constant(node)
        if known is not None:
            return self.quantized(node.name, known, want)
        return self.convert(self.value(node), want, node.name)

    def stored(self, node: Any) -> Stored | None:
        """The integers of a parameter that the model brings quantized."""
        return self.planner.stored.get(node) if isinstance(node, Node) else None

    def narrow_or_wide(self, node: Node) -> Value:
        """The value of `node` as int8 where a quantized graph says so, else as `wide`."""
        if self.constant(node) is None and self.planner.grid_behind(node) is not None:
            return self.value(node)
        return self.wide(node)

    def wide(self, node: Node) -> Value:
        """The value of `node` as int16 (or narrower) with one scale and zero point 0."""
        if self.constant(node) is None:
            value = self.value(node)
            if not value.channelwise and not value.zero_point and self.dtype(value) != "int32":
                return value
        return self.get(node, self.formats.wide(node))

    def int16(self, node: Node) -> Value:
        """As `wide`, of exactly 16 bits."""
        value = self.wide(node)
        if self.dtype(value) == "int16":
            return value
        return self.convert(value, self.formats.wide(node), node.name)

    def int8(self, node: Node) -> Value:
        """The value of `node` as an operand of a product: int8 with one scale."""
        return self._narrowed(node, self.formats.narrow)

    def convolved(self, node: Node) -> Value:
        """The value of `node` as a convolution's operand: as `int8`, perhaps with a zero point."""
        return self._narrowed(node, self.formats.convolved)

    def _narrowed(self, node: Node, wanted: Callable[[Node], Format]) -> Value:
        if self.constant(node) is None:
            value = self.value(node)
            if self.dtype(value) == "int8" and not value.channelwise:
                return value
        return self.get(node, wanted(node))

    def note_operands(
        self, layer: Node, x: Value, weights: Any, unit: Any = 1.0, *, by_row: bool = False,
        width: Width = "int8", restored: NDArray[np.float64] | None = None,
    ) -> None:  # fmt: skip
        """Remember what a layer with weights multiplies; see `Operands`."""
        self.operands[layer.name] = Operands(
            scale=x.scale, zero_point=x.zero_point, weights=np.asarray(weights), unit=unit,
            by_row=by_row, width=width, module=module_of(layer), restored=restored, axis=x.axis,
        )  # fmt: skip

    def finish(self, node: Node, value: Value) -> Value:
        """An accumulator as `node`'s format; as it is where others take that (`takes_sums`)."""
        if self.takes_sums(node):
            return value
        return self.convert(value, self.formats.of(node), node.name)

    def takes_sums(self, node: Node) -> bool:
        """Whether all who read `node` take the accumulator itself: its one reader bounds it, or
        adds to a product; or quantize nodes say what becomes of it.
        """
        direct = self.planner.readers.get(node, [])
        if direct and all(r in self.planner.grids for r in direct):
            return True
        readers = list(self.formats.readers(node))
        plan = self.planner.plans.get(readers[0][0]) if len(readers) == 1 else None
        into = ("add", "bounded") if self.planner.plans[node].rule in _PRODUCTS else ("bounded",)
        return plan is not None and plan.rule in into and not readers[0][2]

    def _require_taken(self, node: Node, source: Node) -> None:
        """`source` lies within the limits of its operator; else why nothing else stands for it."""
        row, fixed = row_of(source.target), self.planner.fixed
        reason = beyond(source, row, fixed) if row else ""
        if reason and (why := source.meta.get(REFUSED)):
            reason += f": {why}"
        reason = reason or mistyped(source, fixed)
        self.require(not reason, node, reason, _ON_CPU)

    # Result ---------------------------------------------------------------------------------------

    def run(self, rules: Mapping[str, Rule], formats: Sequence[PortFormat] = ()) -> Imported:
        """Import every planned node; `CompileError` names the first without a rule, or beyond the
        limits of its operator.

        formats: of the outputs, in order.
        """
        inputs: list[ModelPort] = []
        outputs: tuple[ModelPort, ...] = ()
        for node in self.module.graph.nodes:
            self.current = node
            if node.op == "placeholder":
                inputs += self._input(node)
            elif node.op == "output":
                ports = [inputs[f] if isinstance(f, int) else f for f in formats]
                outputs = self._outputs(node, ports)
            elif node in self.planner.plans:
                plan = self.planner.plans[node]
                self.require(
                    node.target not in FIRST, node, f"{node.target}: only its first result"
                )
                rule = rules.get(plan.rule)
                if rule is None:
                    why = plan.source.meta.get(REFUSED)
                    raise self.error(
                        node,
                        f"operator {node.target} is not supported here" + f": {why}" * bool(why),
                        f"docs/operators.md lists the operators that are; {_ON_CPU}",
                    )
                self._require_taken(node, plan.source)
                self._require_int32(node)
                try:
                    self.env[node] = rule(self, node, plan)
                except (SystolaError, RangesNeededError):
                    raise
                except ScaleError as error:
                    raise self.error(
                        node,
                        f"{error}; the values before and behind it are too far apart",
                        "check the weights and the calibration data for values that are wrong",
                    ) from error
                except Exception as error:  # whoever splits the graph must know where
                    raise self.error(node, f"{type(error).__name__}: {error}") from error
                self._note(node)
        remove_dead_code(self.graph)
        self.graph.verify()
        alive = {n.name: p for n, p in self.made.items() if p.name in self.graph.tensors}
        return Imported(
            graph=self.graph, inputs=tuple(inputs), outputs=outputs, quantized=alive,
            seen=self.seen, layers=self.operands, widths=self.formats.widths,
        )  # fmt: skip

    def _require_int32(self, node: Node) -> None:
        """`CompileError` where calibration saw integers that the NPU's would wrap around."""
        counts = kind(node) == "int" and node not in self.planner.grids
        if counts and self.ranges.largest.get(node, 0.0) >= 2.0**31:
            raise self.error(
                node,
                f"integers reach {self.ranges.largest[node]:.4g} in calibration, the NPU's end at "
                f"{2**31 - 1:,} (int32)",
                f"keep them smaller; {_ON_CPU}",
            )

    def _note(self, node: Node) -> None:
        """Remember which tensor holds a value of the model, for comparisons by layer.

        Of a quantized graph those are the results of its quantize nodes.
        """
        value = self.env[node]
        self._note_integers(node, value)
        if self.planner.grids and node not in self.planner.grids:
            return
        whole = isinstance(value, Value) and value.factors is None
        if whole and not value.channelwise:
            self.made[node] = self._port(value, exact=not is_float(node))
            tensor = self.graph.tensors[value.tensor]
            if not tensor.is_constant:
                tensor.scale, tensor.zero_point = float(value.scale), value.zero_point

    def _note_integers(self, node: Node, value: Any) -> None:
        """Remember what calibration saw of integers and bools that float values follow from."""
        readers = [self.planner.plans.get(r) for r in self.planner.readers.get(node, ())]
        into = any(p and is_float(p.source) and p.rule not in _INDEXED for p in readers)
        counts = isinstance(value, Value) and kind(node) in ("int", "bool")
        if into and counts and node in self.ranges.least:
            self.seen[value.tensor] = self.ranges.least[node], self.ranges.most[node]

    def _port(self, value: Value, name: str = "", exact: bool = False) -> ModelPort:
        return ModelPort(
            name=name or value.tensor,
            layout=value.layout,
            scale=0.0 if exact else value.step,
            zero_point=value.zero_point,
            dtype=self.dtype(value),
        )

    def _input(self, node: Node) -> list[ModelPort]:
        """A model input: images as int8 NHWC, other floats int16 or int8, indices int32."""
        val = node.meta["val"]
        if not isinstance(val, torch.Tensor):
            return []
        if node not in self.planner.readers:
            raise CompileError(
                f"model input {node.name!r} is never used",
                hint="remove the argument, or use it",
            )
        form, shape, exact = self.formats.plain(node), tuple(val.shape), not is_float(node)
        image = not exact and self._is_image(node)
        axes = (0, *range(2, len(shape)), 1) if image else None
        value = Value.of(node.name, Layout.of(shape, axes), form)
        self.graph.add_input(
            node.name, value.layout.memory_shape, form.dtype, scale=0.0 if exact else value.step,
            zero_point=form.zero_point,
        )  # fmt: skip
        self.env[node] = value
        self._note_integers(node, value)
        return [self._port(value, exact=exact)]

    def _is_image(self, node: Node) -> bool:
        """Whether a convolution or a pool reads it."""
        plans = self.planner.plans
        readers = [r for r in self.planner.readers.get(node, ()) if r in plans]
        return len(node.meta["val"].shape) in (3, 4) and any(
            plans[r].rule in SPATIAL or (plans[r].rule in _BEFORE_IMAGES and self._is_image(r))
            for r in readers
        )

    def _outputs(self, node: Node, wanted: Sequence[ModelPort | None]) -> tuple[ModelPort, ...]:
        ports = []
        leaves = torch.utils._pytree.tree_leaves(node.args)
        operands = [leaf for leaf in leaves if isinstance(leaf, Node)]
        self.require(
            any(operand in self.env for operand in operands), node,
            "no output depends on the inputs", "return what is computed from the inputs",
        )  # fmt: skip
        for operand, port in zip_longest(operands, wanted):
            if operand is None:
                raise self.error(node, f"formats of {len(wanted)} outputs, not of {len(operands)}")
            known = self.constant(operand)
            if port is not None:
                value = self.ordered(self._like(operand, port))
            elif known is not None:
                largest = np.abs(known).max(initial=0)
                self.require(
                    bool(np.isfinite(largest)) and (is_float(operand) or largest < 2**31), node,
                    f"output {operand.name} is a constant with {largest:.4g}: no int32 holds it",
                    "leave it out: it is the same in each call",
                )  # fmt: skip
                value = self.quantized(operand.name, known, self.formats.wide(operand))
            else:
                value = self.narrow_or_wide(operand)  # as it lies: the port says how
            tensor = value.tensor
            names = (*self.graph.outputs, *self.graph.inputs)
            if tensor in names or self.graph.tensors[tensor].is_constant:
                tensor = self.op(None, "IDENTITY", [tensor], name="output")
            info = self.graph.tensors[tensor]
            info.scale, info.zero_point = value.step, value.zero_point
            self.graph.outputs.append(tensor)
            ports.append(self._port(value, tensor, exact=not is_float(operand)))
        return tuple(ports)

    def _like(self, node: Node, port: ModelPort) -> Value:
        """The value of `node` in the format of a port."""
        return self.get(
            node, Format(dtype=port.dtype, scale=port.scale, zero_point=port.zero_point)
        )


_ON_CPU = "--fallback, or systola.partition, runs this operator on the CPU"

_PRODUCTS = ("convolution", "linear", "matmul", "mm", "attention")
"""Rules whose accumulator takes a sum along."""

_INDEXED = ("embedding", "index", "index_select", "gather", "attention")
"""Rules whose integers and bools choose values, or are masks with a value of their own."""

_BEFORE_IMAGES = ("quantize", "same", "constant_pad", "bounded", "scale")
"""Rules that keep an image an image, so that a model input in front of them is stored as one."""
