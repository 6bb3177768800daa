"""The importer: a PT2E-quantized graph to a TOSA graph.

Nodes are walked in order. Each yields a `Value`: a TOSA tensor with the real numbers that it stands
for (scale, zero point, bounds still to be applied) and its `Layout`. `quantize` nodes turn a
value into int8 (RESCALE, CLAMP); what PT2E leaves in float between two of them becomes TOSA's
integer operators. The semantics are TOSA's; PT2E supplies scales.

One function per operator is in `sw/compiler/frontend/pt2e/`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule, Node

from spec.numerics import scale_to_multiplier
from sw.compiler.errors import CompileError
from sw.compiler.frontend.capture import module_path, source_line
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.ports import Imported, ModelPort
from sw.compiler.tosa.graph import Graph

Scale = float | NDArray[np.float64]

qd = torch.ops.quantized_decomposed


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """`tensor` stands for scale · (tensor − zero_point), then clamped to low…high.

    `scale` is an array where it differs along the innermost axis in memory. The zero point of int32
    tensors is 0.
    """

    tensor: str
    layout: Layout
    scale: Scale
    zero_point: int = 0
    low: float = -math.inf
    high: float = math.inf

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A parameter: integers with scale and zero point, `axis` −1 for one scale; or a float tensor.

    `real` is what the integers stand for (for a float parameter, the parameter).
    """

    real: NDArray[np.float64]
    integers: NDArray[np.int64] | None = None
    scale: Scale = 0.0
    zero_point: int = 0
    axis: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A float model input: becomes a port when it is first quantized."""

    name: str
    shape: tuple[int, ...]


Item = Value | Constant | Input | tuple[Any, ...] | None


class Importer:
    """State of one import; the operator functions build `graph` through it."""

    def __init__(self, module: GraphModule, name: str) -> None:
        self.module = module
        self.graph = Graph(name=name)
        self.env: dict[Node, Item] = {}
        self.ports: dict[str, ModelPort] = {}
        self.quantized: dict[str, ModelPort] = {}
        self.order = {node: i for i, node in enumerate(module.graph.nodes)}
        self.spatial = any(_is_spatial(n) for n in module.graph.nodes)

    # Errors and operands ----------------------------------------------------------------------

    def error(self, node: Node, message: str, hint: str = "") -> CompileError:
        return CompileError(message, node=node.name, source=source_line(node), hint=hint)

    def require(self, condition: bool, node: Node, message: str, hint: str = "") -> None:
        if not condition:
            raise self.error(node, message, hint)

    def value(self, node: Node, operand: Any) -> Value:
        """The operand as an activation; constants become constant tensors."""
        item = self.env.get(operand) if isinstance(operand, Node) else None
        if isinstance(item, Constant) and item.integers is not None and item.axis < 0:
            assert isinstance(item.scale, float)
            tensor = self.graph.add_constant(operand.name, item.integers, "int8")
            layout = Layout.of(item.integers.shape)
            return Value(tensor=tensor, layout=layout, scale=item.scale, zero_point=item.zero_point)
        if not isinstance(item, Value):
            what = "a model input in float" if isinstance(item, Input) else f"{operand!r}"
            raise self.error(
                node,
                f"{node.target} reads {what}, which is not quantized",
                "quantize the module with sw.compiler.frontend.quantizer.SystolaQuantizer",
            )
        return item

    def int8(self, node: Node, operand: Any) -> Value:
        """As `value`, and it must be a finished int8 tensor."""
        value = self.value(node, operand)
        if self.graph.tensors[value.tensor].dtype != "int8" or value.low > -math.inf:
            raise self.error(
                node,
                f"{node.target} reads {operand.name}, whose result PT2E leaves in float",
                "the quantizer must annotate that node's output",
            )
        return value

    def constant(self, node: Node, operand: Any) -> Constant:
        item = self.env.get(operand) if isinstance(operand, Node) else None
        if not isinstance(item, Constant):
            raise self.error(node, f"{node.target} needs a constant operand, got {operand!r}")
        return item

    # Building ---------------------------------------------------------------------------------

    def op(
        self,
        node: Node,
        kind: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        out_dtype: str = "",
        scale: float = 0.0,
        zero_point: int = 0,
    ) -> str:
        """Append a TOSA operator named after the FX node, with its source line and module."""
        label = self.graph.fresh_name(name or node.name)
        self.graph.modules[label] = module_path(node)
        return self.graph.add_op(
            kind,
            inputs,
            attributes,
            name=label,
            source=source_line(node),
            out_dtype=out_dtype,
            scale=scale,
            zero_point=zero_point,
        )

    def scalar(self, value: int, dtype: str) -> str:
        """A one-element constant, shared by all users of that value."""
        name = f"{dtype}_{value}".replace("-", "m")
        if name not in self.graph.tensors:
            self.graph.add_constant(name, [value], dtype)
        return name

    def reshaped(self, node: Node, tensor: str, shape: Sequence[int]) -> str:
        """`tensor` under another shape of the same element order."""
        old = self.graph.tensors[tensor]
        if old.shape == tuple(shape):
            return tensor
        if old.data is not None:
            return self.graph.add_constant(tensor, old.data.reshape(shape), old.dtype)
        target = self.graph.add_constant(f"{node.name}_shape", list(shape), "shape")
        return self.op(
            node,
            "RESHAPE",
            [tensor, target],
            name=f"{node.name}_reshape",
            scale=old.scale,
            zero_point=old.zero_point,
        )

    def ordered(self, node: Node, value: Value, axes: Sequence[int]) -> Value:
        """`value` with its dimensions in memory order `axes`: transposed only where need be.

        The TOSA tensor then has one dimension per logical one.
        """
        shape = [value.shape[a] for a in axes]
        tensor = value.tensor
        if not value.layout.is_ordered(axes):
            self.require(
                isinstance(value.scale, float), node, "cannot transpose per-channel accumulators"
            )
            old = self.graph.tensors[tensor]
            memory, perms = value.layout.transposition(axes)
            if old.data is not None:
                data = old.data.reshape(memory).transpose(perms).reshape(shape)
                tensor = self.graph.add_constant(tensor, data, old.dtype)
            else:
                tensor = self.reshaped(node, tensor, memory)
                tensor = self.op(
                    node,
                    "TRANSPOSE",
                    [tensor],
                    {"perms": perms},
                    name=f"{node.name}_transpose",
                    scale=old.scale,
                    zero_point=old.zero_point,
                )
        tensor = self.reshaped(node, tensor, shape)
        return replace(value, tensor=tensor, layout=Layout.of(value.shape, axes))

    def rescale(
        self,
        node: Node,
        tensor: str,
        ratio: Scale,
        input_zp: int,
        output_zp: int,
        dtype: str,
        *,
        name: str,
        scale: float = 0.0,
    ) -> str:
        """RESCALE by `ratio` (per channel if an array) with zero points, saturating to `dtype`."""
        ratios = np.atleast_1d(np.asarray(ratio, np.float64))
        try:
            pairs = [scale_to_multiplier(float(r)) for r in ratios]
        except ValueError as error:
            raise self.error(
                node,
                f"requantization: {error}",
                "the scales of this layer differ too much; calibrate on representative data",
            ) from None
        per_channel = isinstance(ratio, np.ndarray)
        multiplier = self.graph.add_constant(f"{name}_multiplier", [m for m, _ in pairs], "int32")
        shift = self.graph.add_constant(f"{name}_shift", [s for _, s in pairs], "int8")
        source = self.graph.tensors[tensor].dtype
        zps = [self.scalar(input_zp, source), self.scalar(output_zp, dtype)]
        return self.op(
            node,
            "RESCALE",
            [tensor, multiplier, shift, *zps],
            {"per_channel": per_channel},
            name=name,
            out_dtype=dtype,
            scale=scale,
            zero_point=output_zp,
        )

    # Result -----------------------------------------------------------------------------------

    def run(self) -> Imported:
        """Walk the module's graph; `CompileError` names the first node that cannot be imported."""
        from sw.compiler.frontend.pt2e.table import import_node

        inputs: list[str] = []
        outputs: tuple[ModelPort, ...] = ()
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                inputs.append(node.name)
                self.env[node] = Input(name=node.name, shape=tuple(node.meta["val"].shape))
            elif node.op == "get_attr":
                self.env[node] = _parameter(self.module, node)
            elif node.op == "output":
                outputs = self._outputs(node)
            else:
                self.env[node] = import_node(self, node)
        for name in inputs:
            if name not in self.ports:
                raise CompileError(
                    f"model input {name!r} is never used as a quantized tensor",
                    hint="remove the argument, or use it",
                )
        self.graph.inputs = inputs
        prune(self.graph)
        self.graph.verify()
        ports = tuple(self.ports[name] for name in inputs)
        alive = {n: p for n, p in self.quantized.items() if p.name in self.graph.tensors}
        return Imported(graph=self.graph, inputs=ports, outputs=outputs, quantized=alive)

    def port(self, source: Input, scale: float, zero_point: int) -> Value:
        """The graph input of a model input: images are NHWC in memory, others row-major."""
        axes = (0, 2, 3, 1) if self.spatial and len(source.shape) == 4 else None
        layout = Layout.of(source.shape, axes)
        if source.name not in self.ports:
            self.graph.add_input(
                source.name, layout.memory_shape, "int8", scale=scale, zero_point=zero_point
            )
            self.ports[source.name] = ModelPort(
                name=source.name, layout=layout, scale=scale, zero_point=zero_point
            )
        port = self.ports[source.name]
        return Value(
            tensor=source.name, layout=layout, scale=port.scale, zero_point=port.zero_point
        )

    def _outputs(self, node: Node) -> tuple[ModelPort, ...]:
        flat = torch.utils._pytree.tree_leaves(node.args)
        ports = []
        for operand in flat:
            value = self.int8(node, operand)
            tensor = value.tensor
            taken = tensor in self.ports or tensor in self.graph.outputs
            if taken or self.graph.tensors[tensor].is_constant:
                tensor = self.op(node, "IDENTITY", [tensor], name="output")
            assert isinstance(value.scale, float)
            info = self.graph.tensors[tensor]
            info.scale, info.zero_point = value.scale, value.zero_point
            self.graph.outputs.append(tensor)
            ports.append(
                ModelPort(
                    name=tensor,
                    layout=value.layout,
                    scale=value.scale,
                    zero_point=value.zero_point,
                )
            )
        return tuple(ports)


def import_module(module: GraphModule, *, name: str = "model") -> Imported:
    """The TOSA graph of a PT2E-converted module (q/dq form, parameters as attributes).

    `CompileError` names the node, its line in the user's model and a way out.
    """
    return Importer(module, name).run()


def prune(graph: Graph) -> None:
    """Drop operators whose result nobody reads, and constants without readers."""
    live = set(graph.outputs)
    kept = []
    for op in reversed(graph.ops):
        if live.intersection(op.outputs):
            live.update(op.inputs)
            kept.append(op)
    graph.ops = kept[::-1]
    live.update(graph.inputs)
    graph.tensors = {n: t for n, t in graph.tensors.items() if n in live}


_SPATIAL = ("conv", "pool", "mean.dim")


def _is_spatial(node: Node) -> bool:
    return node.op == "call_function" and any(word in str(node.target) for word in _SPATIAL)


def _parameter(module: GraphModule, node: Node) -> Constant:
    value: object = module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    if not isinstance(value, torch.Tensor):
        raise CompileError(f"attribute {node.target!r} is {type(value).__name__}, not a tensor")
    array = value.detach().cpu().numpy()
    if np.issubdtype(array.dtype, np.integer):
        return Constant(real=array.astype(np.float64), integers=array.astype(np.int64))
    return Constant(real=array.astype(np.float64))
