"""The walk over a float graph: each planned node by its rule, in integers of its format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule, Node

from spec.errors import SystolaError
from spec.numerics import scale_to_multiplier
from spec.sequences import Sequence as Operators
from sw.compiler.errors import CompileError
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.nodes import is_float, kind
from sw.compiler.frontend.operator_sets import FIRST, REFUSED, SPATIAL, Plan
from sw.compiler.frontend.plan import Planner
from sw.compiler.frontend.ports import Imported, ModelPort
from sw.compiler.frontend.quantization.calibrate import HUGE, Ranges, RangesNeededError
from sw.compiler.frontend.quantization.formats import Format, Formats, Scale
from sw.compiler.frontend.quantization.values import Stored
from sw.compiler.frontend.sources import line_or_module, module_path, source_line
from sw.compiler.passes.dead_code import remove_dead_code
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.sequences import emit

Rule = Callable[["Importer", Node, Plan], Any]
PortFormat = ModelPort | int | None
"""The port whose format an output takes, or the number of the input; None: int16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """`tensor` lies in memory as `layout` says and stands for scale · (tensor − zero_point).

    A scale per channel belongs to the logical dimension `axis`, which is innermost in memory.
    """

    tensor: str
    layout: Layout
    scale: Scale
    zero_point: int = 0
    axis: int = -1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def channelwise(self) -> bool:
        return isinstance(self.scale, np.ndarray)

    @property
    def step(self) -> float:
        """The scale of a value that has only one."""
        assert isinstance(self.scale, float)
        return self.scale


class Importer:
    """State of one import; rules build `graph` through it."""

    def __init__(self, module: GraphModule, name: str, ranges: Ranges, formats: Formats) -> None:
        self.module, self.ranges, self.formats = module, ranges, formats
        self.planner: Planner = formats.planner
        self.graph = Graph(name=name)
        self.current: Node | None = None
        self.order = {node: i for i, node in enumerate(module.graph.nodes)}
        self.env: dict[Node, Any] = {}
        self.ports: dict[Node, ModelPort] = {}
        self.made: dict[Node, ModelPort] = {}
        self.by_row: dict[tuple[str, bytes], tuple[str, str]] = {}
        self._converted: dict[tuple[str, str, bytes, int], str] = {}

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

    def int8(self, node: Node) -> Value:
        """The value of `node` as an operand of a product: int8 with one scale."""
        if self.constant(node) is None:
            value = self.value(node)
            if self.dtype(value) == "int8" and not value.channelwise:
                return value
        return self.get(node, self.formats.narrow(node))

    def is_constant(self, value: Value) -> bool:
        return self.graph.tensors[value.tensor].is_constant

    def dtype(self, value: Value) -> str:
        return self.graph.tensors[value.tensor].dtype

    def quantized(self, name: str, data: NDArray[np.float64], want: Format) -> Value:
        """A constant tensor in format `want`."""
        if want.dtype == "bool":
            tensor = self.graph.add_constant(f"{name}_constant", data != 0, "bool")
            return Value(tensor=tensor, layout=Layout.of(data.shape), scale=1.0)
        bits = {"int8": 7, "int16": 15, "int32": 31}[want.dtype]
        limit = (1 << bits) - 1
        steps = np.rint(data / want.scale) + want.zero_point
        if bits == 31:  # masks: room for what is added to them
            steps = np.where(np.abs(data) < HUGE, steps, np.sign(data) * 2.0**30)
        tensor = self.graph.add_constant(
            f"{name}_constant", np.clip(steps, -limit - 1, limit), want.dtype
        )
        layout = Layout.of(data.shape)
        return Value(tensor=tensor, layout=layout, scale=want.scale, zero_point=want.zero_point)

    # Building -------------------------------------------------------------------------------------

    def op(self, node: Node | None, kind: str, inputs: Sequence[str], attributes: Any = None,
           *, name: str = "", out_dtype: str = "") -> str:  # fmt: skip
        """Append an operator of `node` (None: what the present node needs besides its own)."""
        origin = node if node is not None else self.current
        name = self.graph.fresh_name(name or (node.name if node is not None else kind.lower()))
        source = ""
        if origin is not None:
            self.graph.modules[name] = module_path(origin)
            source = source_line(origin)
        return self.graph.add_op(
            kind, inputs, attributes, name=name, source=source, out_dtype=out_dtype
        )

    def scalar(self, value: int, dtype: str) -> str:
        """A one-element constant, shared by all users of that value."""
        name = f"{dtype}_{value}".replace("-", "m")
        if name not in self.graph.tensors:
            self.graph.add_constant(name, [value], dtype)
        return name

    def number(self, value: int, like: str) -> str:
        """An int32 constant of one element, of the rank of tensor `like`."""
        rank = len(self.graph.tensors[like].shape)
        name = f"number_{value}_{rank}".replace("-", "m")
        if name not in self.graph.tensors:
            self.graph.add_constant(name, np.full((1,) * rank, value), "int32")
        return name

    def sequence(self, node: Node, operators: Operators, *inputs: str) -> list[str]:
        """Append a sequence of `spec.sequences`; names of its results."""
        return emit(
            self.graph,
            operators,
            inputs,
            name=node.name,
            source=source_line(node),
            module=module_path(node),
        )

    def int32(self, node: Node, tensor: str) -> str:
        """`tensor` with 32 bits."""
        if self.graph.tensors[tensor].dtype == "int32":
            return tensor
        return self.op(node, "CAST", [tensor], name=f"{node.name}_cast", out_dtype="int32")

    def slice(
        self, node: Node, tensor: str, start: Sequence[int], size: Sequence[int], name: str = ""
    ) -> str:
        """SLICE of `size` from `start`, in memory order."""
        first = self.graph.add_constant(f"{node.name}_start", list(start), "shape")
        extent = self.graph.add_constant(f"{node.name}_size", list(size), "shape")
        return self.op(node, "SLICE", [tensor, first, extent], name=name)

    def reshaped(self, tensor: str, shape: Sequence[int]) -> str:
        """`tensor` under another shape of the same element order."""
        old = self.graph.tensors[tensor]
        if old.shape == tuple(shape):
            return tensor
        if old.data is not None:
            return self.graph.add_constant(tensor, old.data.reshape(shape), old.dtype)
        target = self.graph.add_constant(f"{tensor}_shape", list(shape), "shape")
        return self.op(None, "RESHAPE", [tensor, target], name=f"{tensor}_reshape")

    def ordered(self, value: Value, axes: Sequence[int] | None = None) -> Value:
        """`value` with its dimensions in memory order `axes` (row-major), one each.

        Transposed only where need be.
        """
        axes = range(len(value.shape)) if axes is None else axes
        shape = [value.shape[a] for a in axes]
        tensor = value.tensor
        if not value.layout.is_ordered(axes):
            assert not value.channelwise or axes[-1] == value.axis % len(value.shape)
            memory, perms = value.layout.transposition(axes)
            old = self.graph.tensors[tensor]
            if old.data is not None:
                data = old.data.reshape(memory).transpose(perms)
                tensor = self.graph.add_constant(tensor, data, old.dtype)
            else:
                tensor = self.reshaped(tensor, memory)
                tensor = self.op(
                    None, "TRANSPOSE", [tensor], {"perms": perms}, name=f"{value.tensor}_transpose"
                )
        tensor = self.reshaped(tensor, shape)
        return replace(value, tensor=tensor, layout=Layout.of(value.shape, axes))

    def rescale(self, tensor: str, ratio: Scale, dtype: str, *, input_zp: int = 0,
                output_zp: int = 0, name: str = "") -> str:  # fmt: skip
        """RESCALE by `ratio` (per channel if an array), saturating to `dtype`."""
        ratios = np.atleast_1d(np.asarray(ratio, np.float64))
        try:
            pairs = [scale_to_multiplier(float(r)) for r in ratios]
        except ValueError as error:
            raise CompileError(
                f"requantization: {error}",
                node=tensor,
                hint="scales differ too much; calibrate on representative data",
            ) from None
        name = name or f"{tensor}_rescale"
        multiplier = self.graph.add_constant(f"{name}_multiplier", [m for m, _ in pairs], "int32")
        shift = self.graph.add_constant(f"{name}_shift", [s for _, s in pairs], "int8")
        source = self.graph.tensors[tensor].dtype
        zps = [self.scalar(input_zp, source), self.scalar(output_zp, dtype)]
        return self.op(
            None,
            "RESCALE",
            [tensor, multiplier, shift, *zps],
            {"per_channel": isinstance(ratio, np.ndarray)},
            name=name,
            out_dtype=dtype,
        )

    def convert(self, value: Value, want: Format, name: str = "") -> Value:
        """`value` in another format: a RESCALE, or nothing."""
        if self.dtype(value) == "bool" and want.dtype != "bool":
            tensor = self.op(None, "CAST", [value.tensor], name=f"{name or value.tensor}_int8",
                             out_dtype="int8")  # fmt: skip
            value = replace(value, tensor=tensor)
        scale = want.scale
        if isinstance(scale, float) and scale == 0.0:  # int32 at the value's own scale
            if self.dtype(value) == "int32" and not value.channelwise:
                return value
            smallest = float(np.min(value.scale))
            scale = smallest / 256 if self.dtype(value) != "int32" else smallest
        if (
            self.dtype(value) == want.dtype
            and value.zero_point == want.zero_point
            and np.array_equal(value.scale, scale)
        ):
            return value
        if isinstance(scale, np.ndarray) and value.channelwise and value.axis != -1:
            value = self.convert(value, Format(dtype="int32", scale=0.0), name)
        ratio: Scale = value.scale / scale
        axis = value.axis if value.channelwise else -1
        if isinstance(ratio, np.ndarray) and not self._channels_last(value, axis, len(ratio)):
            value = self.ordered(value, _innermost(value.layout, axis))
        key = (
            value.tensor,
            want.dtype,
            np.asarray(ratio, np.float64).tobytes(),
            want.zero_point,
        )
        if key not in self._converted:
            self._converted[key] = self.rescale(
                value.tensor,
                ratio,
                want.dtype,
                input_zp=value.zero_point,
                output_zp=want.zero_point,
                name=f"{name or value.tensor}_{want.dtype}",
            )
        return Value(
            tensor=self._converted[key],
            layout=value.layout,
            scale=scale,
            zero_point=want.zero_point,
        )

    def _channels_last(self, value: Value, axis: int, channels: int) -> bool:
        """Whether dimension `axis` is the tensor's last one as it lies."""
        shape = self.graph.tensors[value.tensor].shape
        factors = value.layout.suffix(axis % len(value.shape))
        return factors is not None and bool(shape) and shape[-1] == channels

    def finish(self, node: Node, value: Value, into: Sequence[str] = ("add", "bounded")) -> Value:
        """An accumulator as `node`'s format; kept as it is where one reader of rule `into` is all
        that it has.
        """
        direct = self.planner.readers.get(node, [])
        if direct and all(r in self.planner.grids for r in direct):
            return value  # the quantize nodes say what becomes of it
        readers = list(self.formats.readers(node))
        plan = self.planner.plans.get(readers[0][0]) if len(readers) == 1 else None
        if plan is not None and plan.rule in into and not readers[0][2]:
            return value
        return self.convert(value, self.formats.of(node), node.name)

    # Result ---------------------------------------------------------------------------------------

    def run(
        self,
        rules: Mapping[str, Rule],
        check: Callable[[Node], str],
        formats: Sequence[PortFormat] = (),
    ) -> Imported:
        """Import every planned node; `CompileError` names the first without a rule, or that `check`
        has a reason against.

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
                reason = check(plan.source)
                self.require(not reason, node, reason, _ON_CPU)
                self._require_int32(node)
                try:
                    self.env[node] = rule(self, node, plan)
                except (SystolaError, RangesNeededError):
                    raise
                except Exception as error:  # whoever splits the graph must know where
                    raise self.error(node, f"{type(error).__name__}: {error}") from error
                self._note(node)
        remove_dead_code(self.graph)
        self.graph.verify()
        alive = {n.name: p for n, p in self.made.items() if p.name in self.graph.tensors}
        return Imported(graph=self.graph, inputs=tuple(inputs), outputs=outputs, quantized=alive)

    def _require_int32(self, node: Node) -> None:
        """`CompileError` where calibration saw integers that the NPU's would wrap around."""
        if kind(node) == "int" and self.ranges.largest.get(node, 0.0) >= 2.0**31:
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
        if self.planner.grids and node not in self.planner.grids:
            return
        if isinstance(value, Value) and not value.channelwise:
            self.made[node] = self._port(value, exact=not is_float(node))
            tensor = self.graph.tensors[value.tensor]
            if not tensor.is_constant:
                tensor.scale, tensor.zero_point = float(value.scale), value.zero_point

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
        shape = tuple(val.shape)
        if not val.is_floating_point():
            self.graph.add_input(node.name, shape, self.formats.of(node).dtype)
            value = Value(tensor=node.name, layout=Layout.of(shape), scale=1.0)
            self.env[node] = value
            return [self._port(value, exact=True)]
        form = self.formats.of(node)
        if form.dtype == "int32" or isinstance(form.scale, np.ndarray):
            form = self.formats.wide(node)
        axes = (0, *range(2, len(shape)), 1) if self._is_image(node) else None
        layout = Layout.of(shape, axes)
        assert isinstance(form.scale, float)
        self.graph.add_input(
            node.name, layout.memory_shape, form.dtype, scale=form.scale, zero_point=form.zero_point
        )
        value = Value(tensor=node.name, layout=layout, scale=form.scale, zero_point=form.zero_point)
        self.env[node] = value
        return [self._port(value)]

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
        for operand, port in zip_longest(operands, wanted):
            if operand is None:
                raise self.error(node, f"formats of {len(wanted)} outputs, not of {len(operands)}")
            self.require(
                operand in self.env, node, f"output {operand.name} does not depend on the inputs",
                "return what is computed from the inputs only",
            )  # fmt: skip
            if port is None:
                value = self.narrow_or_wide(operand)  # as it lies: the port says how
            else:
                value = self.ordered(self._like(operand, port))
            tensor = value.tensor
            if tensor in self.graph.outputs or tensor in self.graph.inputs:
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

_BEFORE_IMAGES = ("quantize", "same", "constant_pad", "bounded", "scale")
"""Rules that keep an image an image, so that a model input in front of them is stored as one."""


def _innermost(layout: Layout, axis: int) -> tuple[int, ...]:
    """A memory order with dimension `axis` last: the layout's own where it is one."""
    rank = len(layout.shape)
    own, axis = layout.axes, axis % rank
    if own is not None and own[-1] == axis:
        return own
    return (*(a for a in range(rank) if a != axis), axis)


def equal_ranks(value_shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """`value_shape` with ones in front."""
    return (*(1,) * (rank - len(value_shape)), *value_shape)
