"""The PT2E quantizer: which tensors of an exported graph become int8, and whose scales they share.

int8 weights are symmetric per output channel (−127…127), activations affine per tensor
(−128…127) from the minimum and maximum seen in calibration; a bias is int32 with the scale of its
accumulator. Operators that only move or select values share one set of parameters, so that they
cost no RESCALE. Nodes that are not in the tables stay in float: the importer names them.
"""

import copy
from collections.abc import Collection, Sequence
from typing import Any, Literal

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import (
    HistogramObserver,
    MinMaxObserver,
    PerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)

from sw.compiler.errors import CompileError
from sw.compiler.frontend.batch_norms import batch_norm_error
from sw.compiler.frontend.nodes import aten, is_float
from sw.compiler.frontend.operator_sets import BOUNDS
from sw.compiler.frontend.operators import targets
from sw.compiler.frontend.sources import source_line

WEIGHTED = (
    aten.conv2d.default,
    aten.conv2d.padding,
    aten.convolution.default,
    aten.linear.default,
)
"""Operators with (input, weight, bias) operands."""

PRODUCTS = (aten.matmul.default, aten.bmm.default, aten.mm.default)
SUMS = (aten.add.Tensor, aten.sub.Tensor)
SCALINGS = (aten.mul.Tensor, aten.div.Tensor)
SHARING = {aten.mean.dim} | targets(
    *("view", "permute", "slice_", "same"),
    *("max_pool", "avg_pool", "adaptive_avg_pool", "constant_pad"),
)
"""Operators whose output has the scale and zero point of their first operand."""

_WEIGHT_EPS = 2.0**-20
"""Smallest weight scale: a dead channel's bias still fits in its int32."""

_BIAS_LIMIT = 1 << 30
"""Leaves the accumulator 2^30 of room, and is exact in float32 (PT2E clamps there)."""

Observer = Literal["minmax", "histogram"]


class SystolaQuantizer(Quantizer):
    """Annotates convolutions, products, sums, pools and moves; see the module's docstring.

    `observer` chooses how activation ranges are found: `minmax` keeps every value seen,
    `histogram` minimizes the error (slow: half a minute for a MobileNet).
    """

    def __init__(self, observer: Observer = "minmax") -> None:
        super().__init__()
        kind = {"minmax": MinMaxObserver, "histogram": HistogramObserver}[observer]
        self.activation = QuantizationSpec(
            dtype=torch.int8,
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_tensor_affine,
            observer_or_fake_quant_ctr=kind.with_args(eps=2.0**-16),
        )
        self.weight = QuantizationSpec(
            dtype=torch.int8,
            quant_min=-127,
            quant_max=127,
            qscheme=torch.per_channel_symmetric,
            ch_axis=0,
            observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=_WEIGHT_EPS),
        )

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotate in graph order: an operator sees whether its producer is quantized."""
        for node in model.graph.nodes:
            if node.op != "call_function" or _annotated(node) or not is_float(node):
                continue
            if node.target in WEIGHTED:
                self._weighted(node)
            elif node.target in (*PRODUCTS, *SUMS) and all(map(is_float, node.args[:2])):
                self._plain(node, node.args[:2])
            elif node.target in BOUNDS:
                self._plain(node, node.args[:1])
            elif node.target in SCALINGS and isinstance(node.args[1], int | float):
                self._scaling(node)
            elif node.target in SHARING:
                self._sharing(node)
        return model

    def validate(self, model: GraphModule) -> None:
        """Refuse batch norms that capture could not fold; the importer reports all else.

        Here, because converting a graph with a batch norm in it costs PT2E a minute.
        """
        for node in model.graph.nodes:
            if node.op == "call_function" and "batch_norm" in str(node.target):
                raise batch_norm_error(node)

    def _weighted(self, node: Node) -> None:
        x, weight = node.args[:2]
        bias = node.args[2] if len(node.args) > 2 else None
        inputs: dict[Node, QuantizationSpecBase] = {x: self.activation, weight: self.weight}
        if isinstance(bias, Node):
            inputs[bias] = DerivedQuantizationSpec(
                derived_from=[(x, node), (weight, node)],
                derive_qparams_fn=_bias_parameters,
                dtype=torch.int32,
                quant_min=-_BIAS_LIMIT,
                quant_max=_BIAS_LIMIT,
                qscheme=torch.per_channel_symmetric,
                ch_axis=0,
            )
        self._annotate(node, inputs)

    def _plain(self, node: Node, operands: Any) -> None:
        self._annotate(node, dict.fromkeys(operands, self.activation))

    def _annotate(self, node: Node, inputs: dict[Node, QuantizationSpecBase]) -> None:
        """Quantize the inputs, and the output behind an activation that can be fused."""
        last = node
        users = list(node.users)
        fusable = node.target not in BOUNDS and len(users) == 1
        if fusable and users[0].target in BOUNDS and not _annotated(users[0]):
            last = users[0]
            _set(node, inputs, None)
            inputs = {}
        _set(last, inputs, self.activation)

    def _scaling(self, node: Node) -> None:
        """By a positive number: the same integers under another scale, which costs nothing."""
        x, number = node.args
        factor = number if node.target is aten.mul.Tensor else 1.0 / number if number else 0.0
        if factor <= 0:
            return

        def scaled(observers: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
            scale, zero_point = observers[0].calculate_qparams()
            return scale * factor, zero_point

        output = DerivedQuantizationSpec(
            derived_from=[(x, node)],
            derive_qparams_fn=scaled,
            dtype=torch.int8,
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_tensor_affine,
        )
        _set(node, {x: self.activation}, output)

    def _sharing(self, node: Node) -> None:
        x = node.args[0]
        shared = SharedQuantizationSpec((x, node))
        source: QuantizationSpecBase = (
            SharedQuantizationSpec(x) if _has_output(x) else self.activation
        )
        _set(node, {x: source}, shared)


def _bias_parameters(observers: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale of the accumulator per channel, zero point 0."""
    (activation, _), (weight, _) = (o.calculate_qparams() for o in observers)
    scale = activation.to(torch.float32) * weight.to(torch.float32)
    return scale, torch.zeros_like(scale, dtype=torch.int64)


def _set(
    node: Node, inputs: dict[Node, QuantizationSpecBase], output: QuantizationSpecBase | None
) -> None:
    node.meta["quantization_annotation"] = QuantizationAnnotation(
        input_qspec_map=inputs, output_qspec=output, _annotated=True
    )


def _annotated(node: Node) -> bool:
    return "quantization_annotation" in node.meta


def _has_output(node: Node) -> bool:
    annotation = node.meta.get("quantization_annotation")
    return annotation is not None and annotation.output_qspec is not None


def quantize_graph(
    graph: GraphModule,
    samples: Sequence[Sequence[torch.Tensor]],
    quantizer: Quantizer | None = None,
) -> GraphModule:
    """PT2E's int8 graph of a captured float graph, calibrated by `samples`.

    `CompileError` where a value in between is NaN or infinite.
    """
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    # PT2E changes the graph that it is given; the parameters are shared.
    own = GraphModule(graph, copy.deepcopy(graph.graph))
    prepared = prepare_pt2e(own, quantizer or SystolaQuantizer())
    with torch.no_grad():
        for sample in samples:
            prepared(*sample)
    _check_ranges(prepared)
    converted: GraphModule = convert_pt2e(prepared)
    return converted


def _check_ranges(prepared: GraphModule) -> None:
    """`CompileError` where a value in between was NaN or infinite, though no input was."""
    for node in prepared.graph.nodes:
        observer = getattr(prepared, str(node.target), None) if node.op == "call_module" else None
        low, high = (getattr(observer, name, None) for name in ("min_val", "max_val"))
        if not isinstance(low, torch.Tensor) or not isinstance(high, torch.Tensor):
            continue
        # An observer that has seen nothing holds (inf, -inf).
        if bool((low.isnan() | high.isnan() | (low == -torch.inf) | (high == torch.inf)).any()):
            source = node.args[0]
            raise CompileError(
                "calibration: values are NaN or infinite",
                node=source.name,
                source=source_line(source),
                hint="the float model overflows here; calibrate on representative data",
            )


def covers(node: Node, fixed: Collection[Node]) -> bool:
    """Whether the quantizer makes an operator on floats int8."""
    args: Any = node.args
    if node.target in WEIGHTED:
        return args[1] in fixed
    if node.target in (*PRODUCTS, *SUMS):
        return all(is_float(a) and a not in fixed for a in args[:2])
    if node.target in SCALINGS:
        return isinstance(args[1], int | float) and args[1] > 0
    if node.target is aten.mean.dim:
        shape = args[0].meta["val"].shape
        return len(shape) == 4 and sorted(d % 4 for d in args[1]) == [2, 3]
    return node.target in BOUNDS | SHARING
