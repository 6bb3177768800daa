"""One call of each ATen operator that the importer takes, with small inputs."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

aten = torch.ops.aten


@dataclass(frozen=True)
class X:
    """An input of the graph: uniform in `low`…`high`; integers and bools if `dtype` says so."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    dtype: torch.dtype = torch.float32

    def make(self) -> torch.Tensor:
        if self.dtype is torch.bool:
            return torch.rand(self.shape) < 0.5
        if not self.dtype.is_floating_point:
            return torch.randint(int(self.low), int(self.high) + 1, self.shape, dtype=self.dtype)
        return torch.rand(self.shape) * (self.high - self.low) + self.low


@dataclass(frozen=True)
class Case:
    """`args` of a call: X for inputs, tensors for constants, anything else as it is.

    result: which of several results. plus: the first input is added to the result. steps: what
    the error may reach where the operator is rewritten, beyond its row.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    result: int | None = None
    plus: bool = False
    steps: float = 0

    @property
    def inputs(self) -> list[X]:
        return [a for a in _leaves(self.args) if isinstance(a, X)]

    def call(self, inputs: Sequence[torch.Tensor] | None = None) -> torch.Tensor:
        """PyTorch's result, in float64 where the inputs are."""
        double = any(v.dtype is torch.float64 for v in inputs or _leaves(self.args)
                     if isinstance(v, torch.Tensor))  # fmt: skip
        given = iter(inputs or ())

        def leaf(value: Any) -> Any:
            if isinstance(value, X):
                return next(given)
            if isinstance(value, torch.Tensor) and value.is_floating_point() and double:
                return value.double()
            return torch.float64 if double and value is torch.float32 else value

        found = _target(self.name)(*_map(leaf, self.args), **dict(self.kwargs))
        if isinstance(found, tuple | list):
            found = found[self.result or 0]
        assert isinstance(found, torch.Tensor)
        return found + inputs[0] if self.plus and inputs else found

    def graph(self) -> GraphModule:
        """A graph of this call alone, as export would write it."""
        root, graph = torch.nn.Module(), Graph()
        samples: dict[Node, torch.Tensor] = {}

        def leaf(value: Any) -> Any:
            if isinstance(value, X):
                node = graph.placeholder(f"x{len(samples)}")
                samples[node] = node.meta["val"] = value.make()
                return node
            return value

        def constant(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                name = f"c{len(list(root.buffers()))}"
                root.register_buffer(name, value)
                node = graph.get_attr(name)
                samples[node] = node.meta["val"] = value
                return node
            return value

        args = _map(constant, _map(leaf, self.args))
        target = _target(self.name)
        node = graph.call_function(target, args, dict(self.kwargs))
        node.meta["val"] = target(
            *_map(lambda v: samples.get(v, v) if isinstance(v, Node) else v, args),
            **dict(self.kwargs),
        )
        if isinstance(node.meta["val"], tuple | list):
            index = self.result or 0
            part = graph.call_function(operator.getitem, (node, index))
            part.meta["val"] = node.meta["val"][index]
            node = part
        if self.plus:
            first = next(iter(samples))
            total = graph.call_function(aten.add.Tensor, (node, first))
            total.meta["val"] = node.meta["val"] + first.meta["val"]
            node = total
        graph.output(node)
        return GraphModule(root, graph)


def _target(name: str) -> Any:
    if name == "getitem":
        return aten.split.Tensor
    _, packet, overload = name.split(".")
    return getattr(getattr(aten, packet), overload)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_map(function, item) for item in value)
    return function(value)


def fixed(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator)


def case(
    name: str, *args: Any, result: int | None = None, plus: bool = False, steps: float = 0,
    **kwargs: Any,
) -> Case:  # fmt: skip
    full = name if name == "getitem" else f"aten.{name}" + ("" if "." in name else ".default")
    return Case(full, args, tuple(kwargs.items()), result, plus, steps)


def each(names: str, *args: Any, **kwargs: Any) -> list[Case]:
    return [case(name, *args, **kwargs) for name in names.split()]


_IMAGE = X((1, 4, 6, 6))
_ROWS = X((2, 3, 8))
_INTS, _BOOLS = X((2, 3, 8), -5, 5, torch.int64), X((2, 3, 4), dtype=torch.bool)
_WEIGHT, _BIAS = fixed(5, 4, 3, 3), fixed(5)
_NORM = (fixed(4).abs() + 0.5, fixed(4), fixed(4), fixed(4).abs() + 0.5)
_WIDE = (_IMAGE, _WEIGHT, _BIAS, [2, 2], [1, 1], [1, 1])

_SEEN = torch.eye(5, dtype=torch.bool) | (
    torch.rand(5, 5, generator=torch.Generator().manual_seed(1)) < 0.7
)

CASES: list[Case] = [
    # Products
    case("linear", _ROWS, fixed(5, 8), fixed(5)),
    case("linear", _ROWS, X((5, 8)), fixed(5)),
    case("mm", X((6, 8)), fixed(8, 5)),
    case("mm", X((6, 8)), X((8, 5))),
    case("addmm", fixed(5), X((6, 8)), fixed(8, 5)),
    case("addmm", X((5,)), X((6, 8)), X((8, 5))),
    case("matmul", X((2, 3, 4, 8)), X((2, 3, 8, 5))),
    case("bmm", X((3, 4, 8)), X((3, 8, 5))),
    case("matmul", X((2, 3, 4, 8)), X((3, 8, 5))),
    case("matmul", X((4, 8)), X((3, 8, 5))),
    case("matmul", X((3, 4, 8)), X((8,))),
    case("matmul", X((8,)), X((3, 8, 5))),
    case("addmm", X((6, 5)), X((6, 8)), X((8, 5)), alpha=0.5, beta=2),
    case("baddbmm", X((3, 4, 5)), X((3, 4, 8)), X((3, 8, 5)), alpha=0.5),
    case("scaled_dot_product_attention", X((3, 5, 8)), X((3, 5, 8)), X((3, 5, 8))),
    case("scaled_dot_product_attention", X((1, 2, 5, 8)), X((1, 2, 5, 8)), X((1, 2, 5, 8)),
          _SEEN),
    case("baddbmm", fixed(3, 4, 5), X((3, 4, 8)), X((3, 8, 5))),
    case("scaled_dot_product_attention", X((1, 2, 5, 8)), X((1, 2, 5, 8)), X((1, 2, 5, 8))),
    case("conv1d", X((1, 4, 9)), fixed(5, 4, 3), _BIAS, [2], [1]),
    case("conv1d.padding", X((1, 4, 9)), fixed(5, 4, 4), None, [1], "same"),
    case("conv2d", *_WIDE),
    case("conv2d.padding", _IMAGE, fixed(5, 4, 2, 3), _BIAS, [1, 1], "same"),
    case("convolution", *_WIDE, False, [0, 0], 1),
    case("convolution", X((1, 4, 9)), fixed(5, 4, 3), None, [1], [1], [1], False, [0], 1),
    case("convolution", _IMAGE, fixed(8, 1, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0],
          4),
    case("convolution", _IMAGE, fixed(6, 2, 3, 3), fixed(6), [1, 1], [0, 1], [1, 1], False,
          [0, 0], 2),
    case("convolution", _IMAGE, fixed(4, 3, 3, 3), fixed(3), [2, 2], [1, 1], [1, 1], True,
          [1, 1], 1),
    case("convolution", _IMAGE, fixed(4, 3, 3, 3), fixed(6), [2, 1], [1, 1], [1, 1], True, [1, 0],
          2),
    case("convolution", _IMAGE, fixed(4, 1, 2, 3), fixed(4), [2, 2], [0, 1], [1, 2], True, [0, 0],
          4),
    case("convolution", _IMAGE, fixed(4, 3, 3, 2), None, [1, 1], [1, 0], [2, 1], True, [0, 0], 1),
    case("conv_transpose1d", X((1, 4, 7)), fixed(4, 3, 4), fixed(3), [2], [1]),
    case("conv_transpose2d.input", _IMAGE, fixed(4, 3, 4, 4), fixed(3), [2, 2], [1, 1], [1, 1], 1,
          [2, 1]),
    case("conv3d", X((1, 4, 5, 6, 6)), fixed(6, 4, 3, 3, 3), fixed(6), [1, 2, 2], [1, 1, 1]),
    case("conv3d", X((1, 4, 5, 6, 6)), fixed(6, 2, 2, 1, 2), None, [1, 1, 1], [0, 0, 0], [2, 1, 1],
          2),
    case("conv3d.padding", X((1, 2, 3, 4, 4)), fixed(3, 2, 3, 2, 3), None, [1, 1, 1], "same"),
    case("_native_batch_norm_legit_no_training", _IMAGE, *_NORM, 0.1, 1e-5),
    case("batch_norm", _IMAGE, *_NORM, False, 0.1, 1e-5, False),
    # Pools and images
    case("max_pool2d", _IMAGE, [3, 3], [2, 2], [1, 1]),
    case("max_pool2d_with_indices", _IMAGE, [2, 3], [2, 1], [0, 1], [1, 1], True),
    case("avg_pool2d", _IMAGE, [3, 3], [2, 2], [1, 1]),
    case("avg_pool2d", _IMAGE, [2, 2], [2, 2], [1, 1], False, False),
    *each("adaptive_avg_pool2d _adaptive_avg_pool2d", _IMAGE, [3, 2]),
    case("upsample_nearest2d.vec", X((1, 4, 3, 5)), [6, 15], None),
    case("upsample_bilinear2d.vec", X((1, 4, 3, 5)), [12, 10], False, None),
    *each("upsample_nearest2d.vec _upsample_nearest_exact2d.vec", X((1, 3, 6, 5)), [4, 8], None),
    case("upsample_nearest2d.vec", X((1, 3, 7, 8)), None, [1.5, 0.5]),
    *each("upsample_nearest1d.vec _upsample_nearest_exact1d.vec", X((1, 3, 6)), [10], None),
    case("upsample_bilinear2d.vec", X((1, 3, 6, 5)), [4, 8], False, None),
    case("upsample_bilinear2d.vec", X((1, 3, 6, 5)), [13, 1], True, None),
    case("upsample_bilinear2d.vec", X((1, 3, 8, 8)), None, False, [0.5, 1.5]),
    case("upsample_linear1d.vec", X((1, 3, 6)), [10], False, None),
    case("avg_pool2d", X((1, 3, 8, 8)), [3, 3], [2, 2], [1, 1], True, steps=5),
    case("avg_pool2d", X((1, 3, 8, 8)), [3, 3], [2, 2], [1, 1], True, False, steps=5),
    case("avg_pool2d", _IMAGE, [2, 2], [2, 2], [0, 0], False, True, 3, steps=2),
    case("adaptive_avg_pool2d", _IMAGE, [4, 9], steps=2),
    case("max_pool2d", X((4, 6, 6)), [2, 2]),
    case("max_pool2d", _IMAGE, [2, 2], [1, 2], [0, 0], [2, 3]),
    case("constant_pad_nd", _IMAGE, [1, 2, 0, 1], 0.5),
    case("constant_pad_nd", _IMAGE, [-1, 2], 7.5),
    # Sums, norms, functions
    *each("add.Tensor sub.Tensor mul.Tensor", _ROWS, X((2, 3, 8), -0.3, 0.4)),
    *each("add.Tensor sub.Tensor mul.Tensor", X((3, 1), -9, 9), fixed(2, 1, 8)),
    *each("add.Tensor sub.Tensor mul.Tensor", _INTS, X((3, 1), -9, 9, torch.int64)),
    *each("add.Scalar sub.Scalar mul.Scalar div.Scalar div.Tensor rsub.Scalar", _ROWS, -1.5),
    case("add.Scalar", _INTS, 7),
    *each("div.Tensor", _ROWS, X((3, 8), 0.5, 4.0)),
    case("softmax.int", X((2, 3, 8), -5, 5), 2),
    case("_softmax", X((2, 3, 8), -5, 5), -1, False),
    *each("softmax.int", X((2, 3, 8), -5, 5), 1),
    case("_softmax", X((4, 8), -5, 5), 0, False),
    case("layer_norm", X((2, 3, 8), -4, 5), [8], fixed(8), fixed(8)),
    case("layer_norm", X((2, 3, 8), -4, 5), [3, 8], fixed(3, 8), fixed(3, 8)),
    case("native_layer_norm", X((2, 3, 8), -4, 5), [8], fixed(8), None, 1e-5),
    case("group_norm", _IMAGE, 2, fixed(4), fixed(4), 1e-5),
    case("native_group_norm", _IMAGE, None, fixed(4), 1, 4, 36, 2, 1e-5),
    case("rms_norm", X((2, 3, 8), -4, 5), [8], fixed(8), 1e-6),
    *each("relu relu6", X((2, 3, 8), -5, 9)),
    *each("relu relu6", X((2, 3, 8), -5, 9, torch.int64)),
    case("hardtanh", X((2, 3, 8), -5, 9), -1.5, 4.0),
    case("clamp", X((2, 3, 8), -5, 9), None, 3.0),
    case("clamp", _INTS, -3, 4),
    case("clamp_min", X((2, 3, 8), -5, 9), -1.0),
    case("clamp_max", X((2, 3, 8), -5, 9), 2.0),
    *each("gelu silu sigmoid tanh exp expm1 erf sin cos atan abs square neg softplus leaky_relu "
           "elu hardswish hardsigmoid", X((2, 3, 8), -4, 4)),
    *each("sinh cosh asinh exp2 erfc log_sigmoid selu celu mish", X((2, 3, 8), -3, 3)),
    *each("sqrt rsqrt reciprocal log log1p log2 log10", X((2, 3, 8), 0.5, 4)),
    *each("tan asin acos atanh", X((2, 3, 8), -0.8, 0.8)),
    case("acosh", X((2, 3, 8), 1.5, 4)),
    case("logit", X((2, 3, 8), 0.1, 0.9)),
    *each("add.Tensor sub.Tensor", _ROWS, X((2, 3, 8), -0.3, 0.4), alpha=0.5),
    case("div.Tensor", _ROWS, X((3, 8), -4.0, -0.5)),
    case("pow.Tensor_Scalar", _ROWS, 3),
    case("pow.Scalar", 2.0, _ROWS),
    case("pow.Tensor_Tensor", torch.tensor(1.5), _ROWS),
    *each("floor ceil trunc round", _ROWS),
    *each("div.Tensor_mode", _INTS, X((8,), 1, 4, torch.int64), rounding_mode="trunc"),
    *each("div.Tensor_mode", _INTS, -3, rounding_mode="floor"),
    *each("div.Tensor_mode", _ROWS, 0.3, rounding_mode="floor", steps=2),
    # Reductions
    case("mean.dim", _ROWS, [-1], True),
    case("mean.dim", _IMAGE, [2, 3]),
    case("mean", _ROWS),
    case("sum.dim_IntList", _ROWS, [0, 2]),
    case("sum.dim_IntList", _INTS, [1], True),
    case("sum.dim_IntList", _BOOLS, [1]),
    case("sum", _ROWS),
    *each("amax amin", _ROWS, [1, -1]),
    *each("amax amin", _INTS, [0], True),
    *each("max min", _ROWS),
    *each("max.dim min.dim", _ROWS, 1),
    case("argmax", _ROWS, -1),
    case("argmax", _ROWS, 1, True),
    case("argmax", _INTS, 1),
    case("argmax", X((3, 7), -(2**31), 2**31 - 1, torch.int64), -1),
    case("argmax", X((4, 9), 0, 2, torch.int64), None),
    case("any", _BOOLS),
    case("any.dim", X((3, 2, 4), 0, 1, torch.int64), -1),
    case("any.dims", _BOOLS, [0, 1], True),
    case("cumsum", _ROWS, 1),
    case("cumsum", X((2, 9), -9, 9, torch.int64), -1),
    # Comparisons, logic, choice
    *each("eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar", _INTS, 2),
    *each("eq.Scalar ne.Scalar", _ROWS, float("-inf")),
    *each("lt.Scalar le.Scalar gt.Scalar ge.Scalar", _ROWS, 0.3),
    *each("eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor", _INTS,
           X((3, 1), -5, 5, torch.int64)),
    *each("lt.Tensor le.Tensor gt.Tensor ge.Tensor", _ROWS, X((8,), -0.5, 1.0)),
    *each("logical_not bitwise_not", _BOOLS),
    case("logical_not", X((2, 3, 8), 0, 2, torch.int64)),
    case("bitwise_not", _INTS),
    *each("logical_and logical_or logical_xor bitwise_and.Tensor bitwise_or.Tensor "
           "bitwise_xor.Tensor __and__.Tensor __or__.Tensor", _BOOLS, X((4,), dtype=torch.bool)),
    *each("bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor", _INTS,
           X((3, 1), -99, 99, torch.int64)),
    case("bitwise_and.Scalar", _INTS, 6),
    case("where.self", X((3, 8), dtype=torch.bool), _ROWS, X((2, 1, 8), -1, 1)),
    case("where.self", X((3, 8), dtype=torch.bool), X((2, 3, 8), -5, 5, torch.int64),
          torch.tensor(7)),
    case("where.ScalarOther", X((2, 3, 8), dtype=torch.bool), _ROWS, -2.5),
    case("where.ScalarSelf", X((2, 3, 8), dtype=torch.bool), 1.5, _ROWS),
    case("where.Scalar", _BOOLS, 1.5, -0.5),
    case("masked_fill.Scalar", _ROWS, X((3, 1), dtype=torch.bool), 4.0),
    case("masked_fill.Tensor", _INTS, X((3, 1), dtype=torch.bool), torch.tensor(4)),
    *each("maximum minimum", _ROWS, X((3, 1), -1, 1)),
    *each("maximum minimum", _INTS, X((3, 1), -3, 3, torch.int64)),
    # Moves
    *each("view reshape _unsafe_view", _ROWS, [6, 8]),
    case("flatten.using_ints", _IMAGE, 1),
    case("unsqueeze", _ROWS, 1),
    case("squeeze", X((2, 1, 8))),
    case("squeeze.dim", X((2, 1, 8)), 1),
    case("squeeze.dims", X((2, 1, 8, 1)), [1, -1]),
    case("permute", _ROWS, [2, 0, 1]),
    case("transpose.int", _ROWS, 0, -1),
    case("t", X((3, 8))),
    case("slice.Tensor", _ROWS, 2, 1, -2),
    case("slice.Tensor", X((2, 7, 3)), 1, 1, 7, 4),
    case("slice.Tensor", X((2, 9, 3), -99, 99, torch.int64), 1, 0, 9, 2),
    case("select.int", _ROWS, 1, -1),
    case("split.Tensor", X((2, 7, 3)), 3, 1, result=2),
    case("split_with_sizes", X((2, 7, 3)), [2, 5], 1, result=1),
    case("chunk", X((2, 7, 3)), 2, 1, result=0),
    case("unbind.int", _ROWS, 1, result=1),
    case("cat", [X((2, 3)), X((2, 2), -7, 7), fixed(2, 4)], -1),
    case("expand", X((3, 1)), [2, 3, 4]),
    case("expand_as", X((3, 1)), fixed(2, 3, 4)),
    case("repeat", X((2, 3)), [2, 1, 3]),
    case("cat", [X((2, 3), 0, 9, torch.int64), X((1, 3), 0, 9, torch.int64)]),
    case("stack", [X((2, 3)), X((2, 3), -7, 7)], 1),
    case("flip", _ROWS, [0, -1]),
    case("copy", _ROWS, X((3, 1))),
    *each("clone alias contiguous detach lift_fresh_copy _to_copy", _ROWS),
    case("dropout", _ROWS, 0.1, False),
    case("to.dtype", _INTS, torch.float32),
    case("to.dtype", _BOOLS, torch.float32),
    case("to.dtype", X((2, 3, 8), -4.9, 4.9), torch.int64),
    case("_to_copy", _INTS, dtype=torch.bool),
    case("type_as", _BOOLS, torch.tensor(1)),
    # Values by indices
    case("embedding", fixed(9, 8), X((2, 5), 0, 8, torch.int64)),
    case("index.Tensor", _ROWS, [None, None, torch.tensor([5, 0, 1, -1])]),
    case("index.Tensor", X((4, 5, 3)), [None, X((2, 3), -5, 4, torch.int64)]),
    case("index.Tensor", X((4, 5, 3)),
         [X((2, 3), -4, 3, torch.int64), X((3,), -5, 4, torch.int64)]),
    case("index_select", X((4, 5, 3)), 2, X((6,), 0, 2, torch.int64)),
    case("gather", X((4, 5, 3)), 1, X((4, 2, 3), 0, 4, torch.int64)),
    case("index.Tensor", fixed(9, 5), [X((2, 3), -9, 8, torch.int64)], steps=1),
    case("index_select", fixed(9, 5), 0, X((6,), 0, 8, torch.int64), steps=1),
    case("index_select", torch.arange(9) * 3, 0, X((6,), 0, 8, torch.int64)),
    case("view", X((23, 12)), [12, 23]),
    case("maximum", X((2, 8)), torch.full((1,), torch.finfo(torch.float32).min)),
    case("div.Tensor", X((2, 8)), fixed(8).abs() + 0.1),
    case("gather", fixed(6, 5), 1, X((6, 2), 0, 4, torch.int64), steps=1),
    # Constants of a value's shape: added to it
    case("full_like", _ROWS, 1.5, plus=True),
    *each("zeros_like ones_like", _ROWS, plus=True),
    *each("new_zeros new_ones", _ROWS, [3, 8], plus=True),
    case("new_full", _ROWS, [8], -0.5, plus=True),
    case("getitem", X((2, 7, 3)), 3, 1, result=1),
]  # fmt: skip
