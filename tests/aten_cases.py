"""One call of each ATen operator that the float importer takes, with small inputs."""

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

    result: which of several results. plus: the first input is added to the result.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    result: int | None = None
    plus: bool = False

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


def _fixed(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator)


def _case(
    name: str, *args: Any, result: int | None = None, plus: bool = False, **kwargs: Any
) -> Case:
    full = name if name == "getitem" else f"aten.{name}" + ("" if "." in name else ".default")
    return Case(full, args, tuple(kwargs.items()), result, plus)


def _each(names: str, *args: Any, **kwargs: Any) -> list[Case]:
    return [_case(name, *args, **kwargs) for name in names.split()]


_IMAGE = X((1, 4, 6, 6))
_ROWS = X((2, 3, 8))
_INTS, _BOOLS = X((2, 3, 8), -5, 5, torch.int64), X((2, 3, 4), dtype=torch.bool)
_WEIGHT, _BIAS = _fixed(5, 4, 3, 3), _fixed(5)
_NORM = (_fixed(4).abs() + 0.5, _fixed(4), _fixed(4), _fixed(4).abs() + 0.5)
_WIDE = (_IMAGE, _WEIGHT, _BIAS, [2, 2], [1, 1], [1, 1])

CASES: list[Case] = [
    # Products
    _case("linear", _ROWS, _fixed(5, 8), _fixed(5)),
    _case("mm", X((6, 8)), _fixed(8, 5)),
    _case("mm", X((6, 8)), X((8, 5))),
    _case("addmm", _fixed(5), X((6, 8)), _fixed(8, 5)),
    _case("addmm", X((5,)), X((6, 8)), X((8, 5))),
    _case("matmul", X((2, 3, 4, 8)), X((2, 3, 8, 5))),
    _case("bmm", X((3, 4, 8)), X((3, 8, 5))),
    _case("baddbmm", _fixed(3, 4, 5), X((3, 4, 8)), X((3, 8, 5))),
    _case("scaled_dot_product_attention", X((1, 2, 5, 8)), X((1, 2, 5, 8)), X((1, 2, 5, 8))),
    _case("conv1d", X((1, 4, 9)), _fixed(5, 4, 3), _BIAS, [2], [1]),
    _case("conv1d.padding", X((1, 4, 9)), _fixed(5, 4, 4), None, [1], "same"),
    _case("conv2d", *_WIDE),
    _case("conv2d.padding", _IMAGE, _fixed(5, 4, 2, 3), _BIAS, [1, 1], "same"),
    _case("convolution", *_WIDE, False, [0, 0], 1),
    _case("convolution", X((1, 4, 9)), _fixed(5, 4, 3), None, [1], [1], [1], False, [0], 1),
    _case("convolution", _IMAGE, _fixed(8, 1, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0],
          4),
    _case("convolution", _IMAGE, _fixed(6, 2, 3, 3), _fixed(6), [1, 1], [0, 1], [1, 1], False,
          [0, 0], 2),
    _case("convolution", _IMAGE, _fixed(4, 3, 3, 3), _fixed(3), [2, 2], [1, 1], [1, 1], True,
          [1, 1], 1),
    _case("_native_batch_norm_legit_no_training", _IMAGE, *_NORM, 0.1, 1e-5),
    _case("batch_norm", _IMAGE, *_NORM, False, 0.1, 1e-5, False),
    # Pools and images
    _case("max_pool2d", _IMAGE, [3, 3], [2, 2], [1, 1]),
    _case("max_pool2d_with_indices", _IMAGE, [2, 3], [2, 1], [0, 1], [1, 1], True),
    _case("avg_pool2d", _IMAGE, [3, 3], [2, 2], [1, 1]),
    _case("avg_pool2d", _IMAGE, [2, 2], [2, 2], [1, 1], False, False),
    *_each("adaptive_avg_pool2d _adaptive_avg_pool2d", _IMAGE, [3, 2]),
    _case("upsample_nearest2d.vec", X((1, 4, 3, 5)), [6, 15], None),
    _case("upsample_bilinear2d.vec", X((1, 4, 3, 5)), [12, 10], False, None),
    _case("constant_pad_nd", _IMAGE, [1, 2, 0, 1], 0.5),
    _case("constant_pad_nd", _IMAGE, [-1, 2], 7.5),
    # Sums, norms, functions
    *_each("add.Tensor sub.Tensor mul.Tensor", _ROWS, X((2, 3, 8), -0.3, 0.4)),
    *_each("add.Tensor sub.Tensor mul.Tensor", X((3, 1), -9, 9), _fixed(2, 1, 8)),
    *_each("add.Tensor sub.Tensor mul.Tensor", _INTS, X((3, 1), -9, 9, torch.int64)),
    *_each("add.Scalar sub.Scalar mul.Scalar div.Scalar div.Tensor rsub.Scalar", _ROWS, -1.5),
    _case("add.Scalar", _INTS, 7),
    *_each("div.Tensor", _ROWS, X((3, 8), 0.5, 4.0)),
    _case("softmax.int", X((2, 3, 8), -5, 5), 2),
    _case("_softmax", X((2, 3, 8), -5, 5), -1, False),
    _case("layer_norm", X((2, 3, 8), -4, 5), [8], _fixed(8), _fixed(8)),
    _case("native_layer_norm", X((2, 3, 8), -4, 5), [8], _fixed(8), None, 1e-5),
    _case("group_norm", _IMAGE, 2, _fixed(4), _fixed(4), 1e-5),
    _case("native_group_norm", _IMAGE, None, _fixed(4), 1, 4, 36, 2, 1e-5),
    _case("rms_norm", X((2, 3, 8), -4, 5), [8], _fixed(8), 1e-6),
    *_each("relu relu6", X((2, 3, 8), -5, 9)),
    _case("hardtanh", X((2, 3, 8), -5, 9), -1.5, 4.0),
    _case("clamp", X((2, 3, 8), -5, 9), None, 3.0),
    _case("clamp", _INTS, -3, 4),
    _case("clamp_min", X((2, 3, 8), -5, 9), -1.0),
    _case("clamp_max", X((2, 3, 8), -5, 9), 2.0),
    *_each("gelu silu sigmoid tanh exp expm1 erf sin cos atan abs square neg softplus leaky_relu "
           "elu hardswish hardsigmoid", X((2, 3, 8), -4, 4)),
    *_each("sqrt rsqrt reciprocal log log1p", X((2, 3, 8), 0.5, 4)),
    _case("pow.Tensor_Scalar", _ROWS, 3),
    _case("pow.Scalar", 2.0, _ROWS),
    _case("pow.Tensor_Tensor", torch.tensor(1.5), _ROWS),
    *_each("floor ceil trunc", _ROWS),
    # Reductions
    _case("mean.dim", _ROWS, [-1], True),
    _case("mean.dim", _IMAGE, [2, 3]),
    _case("mean", _ROWS),
    _case("sum.dim_IntList", _ROWS, [0, 2]),
    _case("sum.dim_IntList", _INTS, [1], True),
    _case("sum.dim_IntList", _BOOLS, [1]),
    _case("sum", _ROWS),
    *_each("amax amin", _ROWS, [1, -1]),
    *_each("amax amin", _INTS, [0], True),
    *_each("max min", _ROWS),
    *_each("max.dim min.dim", _ROWS, 1),
    _case("argmax", _ROWS, -1),
    _case("argmax", _ROWS, 1, True),
    _case("any", _BOOLS),
    _case("any.dim", X((3, 2, 4), 0, 1, torch.int64), -1),
    _case("any.dims", _BOOLS, [0, 1], True),
    _case("cumsum", _ROWS, 1),
    _case("cumsum", X((2, 9), -9, 9, torch.int64), -1),
    # Comparisons, logic, choice
    *_each("eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar", _INTS, 2),
    *_each("eq.Scalar ne.Scalar", _ROWS, float("-inf")),
    *_each("lt.Scalar le.Scalar gt.Scalar ge.Scalar", _ROWS, 0.3),
    *_each("eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor", _INTS,
           X((3, 1), -5, 5, torch.int64)),
    *_each("lt.Tensor le.Tensor gt.Tensor ge.Tensor", _ROWS, X((8,), -0.5, 1.0)),
    *_each("logical_not bitwise_not", _BOOLS),
    _case("logical_not", X((2, 3, 8), 0, 2, torch.int64)),
    _case("bitwise_not", _INTS),
    *_each("logical_and logical_or logical_xor bitwise_and.Tensor bitwise_or.Tensor "
           "bitwise_xor.Tensor __and__.Tensor __or__.Tensor", _BOOLS, X((4,), dtype=torch.bool)),
    *_each("bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor", _INTS,
           X((3, 1), -99, 99, torch.int64)),
    _case("bitwise_and.Scalar", _INTS, 6),
    _case("where.self", X((3, 8), dtype=torch.bool), _ROWS, X((2, 1, 8), -1, 1)),
    _case("where.self", X((3, 8), dtype=torch.bool), X((2, 3, 8), -5, 5, torch.int64),
          torch.tensor(7)),
    _case("where.ScalarOther", X((2, 3, 8), dtype=torch.bool), _ROWS, -2.5),
    _case("where.ScalarSelf", X((2, 3, 8), dtype=torch.bool), 1.5, _ROWS),
    _case("where.Scalar", _BOOLS, 1.5, -0.5),
    _case("masked_fill.Scalar", _ROWS, X((3, 1), dtype=torch.bool), 4.0),
    _case("masked_fill.Tensor", _INTS, X((3, 1), dtype=torch.bool), torch.tensor(4)),
    *_each("maximum minimum", _ROWS, X((3, 1), -1, 1)),
    *_each("maximum minimum", _INTS, X((3, 1), -3, 3, torch.int64)),
    # Moves
    *_each("view reshape _unsafe_view", _ROWS, [6, 8]),
    _case("flatten.using_ints", _IMAGE, 1),
    _case("unsqueeze", _ROWS, 1),
    _case("squeeze", X((2, 1, 8))),
    _case("squeeze.dim", X((2, 1, 8)), 1),
    _case("squeeze.dims", X((2, 1, 8, 1)), [1, -1]),
    _case("permute", _ROWS, [2, 0, 1]),
    _case("transpose.int", _ROWS, 0, -1),
    _case("t", X((3, 8))),
    _case("slice.Tensor", _ROWS, 2, 1, -2),
    _case("slice.Tensor", X((2, 7, 3)), 1, 1, 7, 4),
    _case("slice.Tensor", X((2, 9, 3), -99, 99, torch.int64), 1, 0, 9, 2),
    _case("select.int", _ROWS, 1, -1),
    _case("split.Tensor", X((2, 7, 3)), 3, 1, result=2),
    _case("split_with_sizes", X((2, 7, 3)), [2, 5], 1, result=1),
    _case("chunk", X((2, 7, 3)), 2, 1, result=0),
    _case("unbind.int", _ROWS, 1, result=1),
    _case("cat", [X((2, 3)), X((2, 2), -7, 7), _fixed(2, 4)], -1),
    _case("expand", X((3, 1)), [2, 3, 4]),
    _case("expand_as", X((3, 1)), _fixed(2, 3, 4)),
    _case("repeat", X((2, 3)), [2, 1, 3]),
    _case("cat", [X((2, 3), 0, 9, torch.int64), X((1, 3), 0, 9, torch.int64)]),
    _case("stack", [X((2, 3)), X((2, 3), -7, 7)], 1),
    _case("flip", _ROWS, [0, -1]),
    _case("copy", _ROWS, X((3, 1))),
    *_each("clone alias contiguous detach lift_fresh_copy _to_copy", _ROWS),
    _case("dropout", _ROWS, 0.1, False),
    _case("to.dtype", _INTS, torch.float32),
    _case("to.dtype", _BOOLS, torch.float32),
    _case("to.dtype", X((2, 3, 8), -4.9, 4.9), torch.int64),
    _case("_to_copy", _INTS, dtype=torch.bool),
    _case("type_as", _BOOLS, torch.tensor(1)),
    # Values by indices
    _case("embedding", _fixed(9, 8), X((2, 5), 0, 8, torch.int64)),
    _case("index.Tensor", _ROWS, [None, None, torch.tensor([5, 0, 1, -1])]),
    _case("index.Tensor", X((4, 5, 3)), [None, X((2, 3), -5, 4, torch.int64)]),
    _case("index_select", X((4, 5, 3)), 2, X((6,), 0, 2, torch.int64)),
    _case("gather", X((4, 5, 3)), 1, X((4, 2, 3), 0, 4, torch.int64)),
    # Constants of a value's shape: added to it
    _case("full_like", _ROWS, 1.5, plus=True),
    *_each("zeros_like ones_like", _ROWS, plus=True),
    *_each("new_zeros new_ones", _ROWS, [3, 8], plus=True),
    _case("new_full", _ROWS, [8], -0.5, plus=True),
    _case("getitem", X((2, 7, 3)), 3, 1, result=1),
]  # fmt: skip
