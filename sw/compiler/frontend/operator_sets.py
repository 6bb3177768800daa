"""Operators by what they do to values, and the plan of a node: what the other files share."""

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten

REFUSED = "refused"
"""Key of a node's meta data: why it stays as it is (`rewrites/rewrite.py`)."""

PART_OF = "part of"
"""Key of a node's meta data: the operator that was rewritten as it and others."""

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
    aten.expand_as.default,
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
    aten.stack.default,
    aten.repeat.default,
    aten.max_pool2d.default,
    aten.max_pool2d_with_indices.default,
    aten.upsample_nearest2d.vec,
    aten.constant_pad_nd.default,
    aten.flip.default,
    aten.index_select.default,
    aten.gather.default,
)
"""Operators whose results are some of the values that they read."""

FILLED = (
    aten.full_like.default,
    aten.zeros_like.default,
    aten.ones_like.default,
    aten.new_zeros.default,
    aten.new_ones.default,
    aten.new_full.default,
)
"""Constants that take their shape from a value."""

LINEAR = (aten.linear.default, aten.addmm.default, aten.mm.default)
PRODUCTS = (
    aten.matmul.default,
    aten.bmm.default,
    aten.baddbmm.default,
    aten.scaled_dot_product_attention.default,
)
TRANSPOSED = (aten.conv_transpose1d.default, aten.conv_transpose2d.input)
CONVOLUTIONS = (
    aten.conv1d.default,
    aten.conv2d.default,
    aten.conv3d.default,
    aten.conv1d.padding,
    aten.conv2d.padding,
    aten.conv3d.padding,
    aten.convolution.default,
    *TRANSPOSED,
)
BATCH_NORMS = (
    aten._native_batch_norm_legit_no_training.default,
    aten.batch_norm.default,
)
BOUNDS = (
    aten.relu.default,
    aten.relu6.default,
    aten.hardtanh.default,
    aten.clamp.default,
    aten.clamp_min.default,
    aten.clamp_max.default,
)
"""Operators that only bound a value."""

UNIVARIATE = (
    aten.gelu.default,
    aten.silu.default,
    aten.sigmoid.default,
    aten.tanh.default,
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
    aten.leaky_relu.default,
    aten.abs.default,
    aten.square.default,
    aten.sqrt.default,
    aten.rsqrt.default,
    aten.reciprocal.default,
    aten.log.default,
    aten.log1p.default,
    aten.expm1.default,
    aten.sin.default,
    aten.cos.default,
    aten.atan.default,
    aten.pow.Scalar,
    aten.pow.Tensor_Tensor,
    aten.add.Scalar,
    aten.sub.Scalar,
    aten.div.Scalar,
    aten.elu.default,
    aten.hardswish.default,
    aten.hardsigmoid.default,
    aten.tan.default,
    aten.asin.default,
    aten.acos.default,
    aten.sinh.default,
    aten.cosh.default,
    aten.asinh.default,
    aten.acosh.default,
    aten.atanh.default,
    aten.log2.default,
    aten.log10.default,
    aten.exp2.default,
    aten.erfc.default,
    aten.log_sigmoid.default,
    aten.logit.default,
    aten.selu.default,
    aten.celu.default,
    aten.mish.default,
    *BOUNDS,
)
"""Elementwise operators: with one operand that is not a number they are a function of one value."""

FIRST = (
    aten._native_batch_norm_legit_no_training.default,
    aten.max_pool2d_with_indices.default,
    aten.native_layer_norm.default,
    aten.native_group_norm.default,
    aten.max.dim,
    aten.min.dim,
)
"""Operators with several results, of which the first is imported."""

SPATIAL = (
    "convolution",
    "aten.max_pool2d.default",
    "aten.max_pool2d_with_indices.default",
    "aten.avg_pool2d.default",
    "aten.adaptive_avg_pool2d.default",
    "aten._adaptive_avg_pool2d.default",
)
"""Rules that want their input in NHWC order."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """`rule` imports the node from the values of `reads`.

    call: the node whose operator and arguments the rule reads (default: the node itself).
    """

    rule: str
    reads: tuple[Node, ...]
    data: dict[str, Any] = field(default_factory=dict)
    call: Node | None = None

    @property
    def source(self) -> Node:
        """`call`, once the planner has set it."""
        assert self.call is not None
        return self.call


def same(node: Any) -> Any:
    """The value behind operators that change nothing."""
    while keeps(node):
        node = node.args[0]
    return node


def first_result(node: Node) -> Node:
    """The operator with several results whose first one `node` is, else `node`."""
    if node.target is operator.getitem and node.args[1] == 0:
        inner = node_argument(node, 0)
        if inner.target in FIRST:
            return inner
    return node


def node_argument(node: Node, index: int) -> Node:
    value = node.args[index]
    assert isinstance(value, Node)
    return value


def is_float(node: Node) -> bool:
    """Whether a node's value (the first of several) is floating point."""
    value = node.meta.get("val")
    value = value[0] if isinstance(value, tuple | list) else value
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def kind(node: Any) -> str:
    """float, int or bool; '' for what is no tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor):
        return ""
    if value.dtype is torch.bool:
        return "bool"
    return "float" if value.is_floating_point() else "int"


def keeps(node: Any) -> bool:
    """Whether `node` is an operator that changes no value, and not its kind either."""
    if not isinstance(node, Node) or node.target not in SAME:
        return False
    return kind(node) == kind(node.args[0])
