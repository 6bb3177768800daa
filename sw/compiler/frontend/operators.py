"""The one table of operators: which rule imports each, for which types, within which limits.

Rules, `support.py`, the tests and docs/operators.md all follow from it. Several spellings of one
operator (`linear`, `addmm`) have a row each.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from sw.compiler.frontend import limits as checks
from sw.compiler.frontend.importer import Rule
from sw.compiler.frontend.rules import (
    convolutions,
    elementwise,
    gathers,
    logic,
    moves,
    pools,
    products,
    quantize,
    reductions,
)


@dataclass(frozen=True, slots=True)
class Steps:
    """Tested: nowhere farther from PyTorch than `count` steps of the result's scale.

    Inputs are what the ports hold, so that this is the operator's own error.
    """

    count: float

    def __str__(self) -> str:
        if not self.count:
            return "exact"
        return f"error ≤ {self.count:g} step" + "s" * (self.count > 1)


@dataclass(frozen=True, slots=True)
class Table:
    """Tested: within the error of an interpolated table, (128·scale)²/8 · max|f″| + 1 step."""

    def __str__(self) -> str:
        return "error ≤ that of the interpolation + 1 step"


@dataclass(frozen=True, slots=True)
class Pcc:
    """Tested: correlation with PyTorch of at least `least`; that of two inputs is below 0.9."""

    least: float

    def __str__(self) -> str:
        return f"PCC ≥ {self.least:g}"


EXACT, ROUNDED = Steps(0), Steps(1)
EXACT_OR_ONE = Steps(2)

FLOAT, NUMBERS, ANY, INTS, BOOLS = "float", "float, int", "float, int, bool", "int", "bool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A row: `rule` imports it.

    types: of the tensors that it reads. limits: in words; `check`: the same as code, '' or the
    reason why a node lies outside. constants: arguments that must be constants.
    """

    name: str
    rule: Rule
    types: str
    tested: Steps | Table | Pcc
    limits: str = ""
    check: Callable[[Node], str] = checks.nothing
    constants: tuple[int, ...] = ()


def _rows(rule: Rule, types: str, tested: Steps | Table | Pcc, *names: str, limits: str = "",
          check: Callable[[Node], str] = checks.nothing,
          constants: tuple[int, ...] = ()) -> tuple[Operator, ...]:  # fmt: skip
    return tuple(
        Operator(
            name=_full(name),
            rule=rule,
            types=types,
            tested=tested,
            limits=limits,
            check=check,
            constants=constants,
        )
        for name in names
    )


def _full(name: str) -> str:
    if name == "getitem":
        return name
    return f"aten.{name}" if "." in name else f"aten.{name}.default"


_WEIGHTS = "constant weights"

ROWS: tuple[Operator, ...] = (
    # Products
    *_rows(products.linear, FLOAT, Pcc(0.999), "linear"),
    *_rows(products.mm, FLOAT, Pcc(0.999), "mm", "addmm", limits="alpha=1, beta=1",
           check=checks.addmm),
    *_rows(products.matmul, FLOAT, Pcc(0.999), "matmul", "bmm", limits="equal leading dimensions",
           check=checks.matmul),
    *_rows(products.baddbmm, FLOAT, Pcc(0.999), "baddbmm", limits="a constant is added",
           constants=(0,)),
    *_rows(products.attention, FLOAT, Pcc(0.999), "scaled_dot_product_attention",
           limits="four dimensions", check=checks.attention),
    *_rows(convolutions.convolution, FLOAT, Pcc(0.999), "conv1d", "conv2d", "conv1d.padding",
           "conv2d.padding", limits=_WEIGHTS, check=checks.convolution, constants=(1,)),
    *_rows(
        convolutions.convolution, FLOAT, Pcc(0.999), "convolution",
        limits="constant weights; one or two spatial dimensions; transposed without groups and "
        "dilation",
        check=checks.convolution, constants=(1,),
    ),
    *_rows(
        convolutions.affine, FLOAT, Steps(2), "_native_batch_norm_legit_no_training", "batch_norm",
        limits="constant parameters; folded into a convolution before it", check=checks.inference,
        constants=(1, 2, 3, 4),
    ),
    # Pools and images
    *_rows(pools.max_pool, FLOAT, EXACT, "max_pool2d", limits="four dimensions; no dilation",
           check=checks.max_pool),
    *_rows(
        pools.max_pool, FLOAT, EXACT, "max_pool2d_with_indices",
        limits="values only; four dimensions; no dilation", check=checks.max_pool,
    ),
    *_rows(pools.avg_pool, FLOAT, ROUNDED, "avg_pool2d",
           limits="four dimensions; no ceil_mode, no divisor_override", check=checks.avg_pool),
    *_rows(
        pools.adaptive_avg_pool, FLOAT, ROUNDED, "adaptive_avg_pool2d", "_adaptive_avg_pool2d",
        limits="four dimensions; sizes that divide evenly", check=checks.adaptive_pool,
    ),
    *_rows(pools.nearest, FLOAT, EXACT, "upsample_nearest2d.vec",
           limits="whole factors up to 512", check=checks.upsample),
    *_rows(
        pools.bilinear, FLOAT, Pcc(0.999), "upsample_bilinear2d.vec",
        limits="whole factors up to 512, half-pixel centres; the input as int8",
        check=checks.upsample,
    ),
    *_rows(pools.constant_pad, FLOAT, ROUNDED, "constant_pad_nd"),
    # Sums, norms, functions
    *_rows(
        elementwise.add, NUMBERS, ROUNDED, "add.Tensor", "add.Scalar", limits="alpha=1",
        check=checks.alpha,
    ),
    *_rows(
        elementwise.sub, NUMBERS, ROUNDED, "sub.Tensor", "sub.Scalar", limits="alpha=1",
        check=checks.alpha,
    ),
    *_rows(elementwise.multiply, NUMBERS, ROUNDED, "mul.Tensor", "mul.Scalar"),
    *_rows(
        elementwise.divide, FLOAT, Steps(2), "div.Tensor", "div.Scalar",
        limits="a number, or a tensor that calibration saw only positive",
    ),
    *_rows(products.softmax, FLOAT, Pcc(0.999), "softmax.int", "_softmax",
           limits="along the last dimension", check=checks.last_axis),
    *_rows(
        elementwise.layer_norm, FLOAT, Pcc(0.9999), "layer_norm", "native_layer_norm",
        limits="over the last dimension", check=checks.layer_norm, constants=(2, 3),
    ),
    *_rows(elementwise.group_norm, FLOAT, Pcc(0.9999), "group_norm",
           limits="constant parameters", constants=(2, 3)),
    *_rows(elementwise.group_norm, FLOAT, Pcc(0.9999), "native_group_norm",
           limits="constant parameters", constants=(1, 2)),
    *_rows(elementwise.univariate, FLOAT, Pcc(0.9999), "rms_norm",
           limits="over the last dimension"),
    *_rows(
        elementwise.bounded, NUMBERS, ROUNDED, "relu", "relu6", "hardtanh", "clamp", "clamp_min",
        "clamp_max", limits="numbers as bounds",
    ),
    *_rows(
        elementwise.univariate, FLOAT, Table(), "gelu", "silu", "sigmoid", "tanh", "exp", "expm1",
        "erf", "sin", "cos", "atan", "abs", "neg", "square", "pow.Tensor_Scalar", "pow.Scalar",
        "rsub.Scalar", "softplus", "leaky_relu", "elu", "hardswish", "hardsigmoid",
    ),
    *_rows(
        elementwise.univariate, FLOAT, Table(), "sqrt", "rsqrt", "reciprocal", "log", "log1p",
        "pow.Tensor_Tensor",
        limits="as accurate as a table is over the calibrated range: poor near a pole; pow of two "
        "tensors with one of them a number",
    ),
    *_rows(logic.floor, FLOAT, EXACT_OR_ONE, "floor"),
    *_rows(logic.ceil, FLOAT, EXACT_OR_ONE, "ceil"),
    *_rows(logic.trunc, FLOAT, EXACT_OR_ONE, "trunc"),
    # Reductions
    *_rows(reductions.mean, FLOAT, ROUNDED, "mean.dim", "mean"),
    *_rows(reductions.total, ANY, ROUNDED, "sum.dim_IntList", "sum"),
    *_rows(reductions.amax, NUMBERS, EXACT, "amax", "max"),
    *_rows(reductions.amin, NUMBERS, EXACT, "amin", "min"),
    *_rows(reductions.amax, NUMBERS, EXACT, "max.dim", limits="values only"),
    *_rows(reductions.amin, NUMBERS, EXACT, "min.dim", limits="values only"),
    *_rows(reductions.argmax, FLOAT, EXACT, "argmax"),
    *_rows(reductions.any_, ANY, EXACT, "any", "any.dim", "any.dims"),
    *_rows(reductions.cumsum, ANY, ROUNDED, "cumsum"),
    # Comparisons, logic, choice
    *_rows(logic.COMPARISONS["eq"], ANY, EXACT, "eq.Scalar", "eq.Tensor"),
    *_rows(logic.COMPARISONS["ne"], ANY, EXACT, "ne.Scalar", "ne.Tensor"),
    *_rows(logic.COMPARISONS["lt"], ANY, EXACT, "lt.Scalar", "lt.Tensor"),
    *_rows(logic.COMPARISONS["le"], ANY, EXACT, "le.Scalar", "le.Tensor"),
    *_rows(logic.COMPARISONS["gt"], ANY, EXACT, "gt.Scalar", "gt.Tensor"),
    *_rows(logic.COMPARISONS["ge"], ANY, EXACT, "ge.Scalar", "ge.Tensor"),
    *_rows(logic.logical_not, ANY, EXACT, "logical_not"),
    *_rows(logic.logical_and, ANY, EXACT, "logical_and"),
    *_rows(logic.logical_or, ANY, EXACT, "logical_or"),
    *_rows(logic.logical_xor, ANY, EXACT, "logical_xor"),
    *_rows(logic.bitwise_not, "int, bool", EXACT, "bitwise_not"),
    *_rows(logic.bitwise_and, "int, bool", EXACT, "bitwise_and.Tensor", "bitwise_and.Scalar",
           "__and__.Tensor"),
    *_rows(logic.bitwise_or, "int, bool", EXACT, "bitwise_or.Tensor", "__or__.Tensor"),
    *_rows(logic.bitwise_xor, "int, bool", EXACT, "bitwise_xor.Tensor"),
    *_rows(logic.where, ANY, ROUNDED, "where.self", "where.ScalarSelf", "where.ScalarOther",
           "where.Scalar"),
    *_rows(logic.masked_fill, ANY, ROUNDED, "masked_fill.Scalar", "masked_fill.Tensor"),
    *_rows(logic.maximum, NUMBERS, ROUNDED, "maximum"),
    *_rows(logic.minimum, NUMBERS, ROUNDED, "minimum"),
    # Moves
    *_rows(
        moves.view, ANY, EXACT, "view", "reshape", "_unsafe_view", "flatten.using_ints",
        "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims",
    ),
    *_rows(moves.permute, ANY, EXACT, "permute", "transpose.int", "t"),
    *_rows(moves.slice_, ANY, EXACT, "slice.Tensor"),
    *_rows(moves.select, ANY, EXACT, "select.int"),
    *_rows(moves.split, ANY, EXACT, "split.Tensor", "split_with_sizes", "chunk"),
    *_rows(moves.unbind, ANY, EXACT, "unbind.int"),
    *_rows(moves.cat, ANY, ROUNDED, "cat"),
    *_rows(moves.stack, ANY, ROUNDED, "stack"),
    *_rows(moves.expand, ANY, EXACT, "expand", "expand_as"),
    *_rows(moves.repeat, ANY, EXACT, "repeat"),
    *_rows(moves.flip, ANY, EXACT, "flip"),
    *_rows(moves.copy, ANY, ROUNDED, "copy"),
    *_rows(
        elementwise.same, ANY, EXACT, "clone", "alias", "contiguous", "detach", "dropout",
        "lift_fresh_copy", check=checks.dropout,
    ),
    *_rows(logic.cast, ANY, ROUNDED, "_to_copy", "to.dtype", "type_as",
           limits="float32, integers, bool; towards zero", check=checks.precision),
    *_rows(moves.getitem, ANY, EXACT, "getitem"),
    # Values by indices
    *_rows(gathers.embedding, NUMBERS, ROUNDED, "embedding"),
    *_rows(gathers.index, NUMBERS, EXACT, "index.Tensor",
           limits="integer indices along one dimension", check=checks.one_index),
    *_rows(gathers.index_select, NUMBERS, EXACT, "index_select"),
    *_rows(gathers.gather, NUMBERS, EXACT, "gather"),
    # Constants that take only the shape of what they read
    *_rows(
        elementwise.same, ANY, ROUNDED, "full_like", "zeros_like", "ones_like", "new_zeros",
        "new_ones", "new_full",
    ),
)  # fmt: skip

TABLE = {row.name: row for row in ROWS}
"""Rows by name."""

_GROUPS: dict[str, Rule] = {
    "same": elementwise.same,
    "scale": elementwise.scale,
    "univariate": elementwise.univariate,
    "bounded": elementwise.bounded,
    "rms_norm": elementwise.rms_norm,
    "linear": products.linear,
    "convolution": convolutions.convolution,
    "affine": convolutions.affine,
    "cast": logic.cast,
    "quantize": quantize.quantize,
}
"""Rules of groups of nodes (`plan.py`)."""

RULES: dict[str, Rule] = {**{row.name: row.rule for row in ROWS}, **_GROUPS}


def limits(node: Node) -> str:
    """'' where `node` lies within the limits of its operator, else the reason why not."""
    row = row_of(node.target)
    return "" if row is None else row.check(node)


def row_of(target: Any) -> Operator | None:
    """The row of an FX target, None where there is none."""
    return TABLE.get("getitem" if target is operator.getitem else str(target))
