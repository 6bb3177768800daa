"""Small calls of every operator of the LiteRT door, as float and as int8 models."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from litert_files import LiteRtFile, options

from sw.frontends.litert import load_litert

GRID = (0.01, 3)
"""Scale and zero point of int8 inputs from −1 to 1."""

SAME = "same"
"""The int8 result has the grid of the first value."""

TWICE = 0.01
"""Share of results that differ because LiteRT rounds twice: to some bits behind the point, then to
an integer. 32.4975 becomes 32.5, and that 33.
"""

HALVES = 0.25
"""Because LiteRT rounds halves away from zero: means of 2 · 2 elements are often halves."""

BITS = 0.1
"""Because LiteRT's factor has 8 bits."""

DOWN = 0.55
"""Because LiteRT rounds roots down."""


@dataclass(frozen=True)
class Value:
    """An operand of reals between two ends. data: of a constant, else an input of the model."""

    shape: tuple[int, ...] = ()
    low: float = -1.0
    high: float = 1.0
    data: Any = None

    @property
    def grid(self) -> tuple[float, int]:
        if self.low == -1 and self.high == 1:
            return GRID
        low = min(self.low, 0.0)
        scale = float(np.float32((self.high - low) / 255))
        return scale, round(-128 - low / scale)


@dataclass(frozen=True)
class Ints:
    """An integer (or bool) operand. data: of a constant."""

    shape: tuple[int, ...] = ()
    high: int = 2
    dtype: str = "int32"
    data: Any = None


@dataclass(frozen=True)
class Weight:
    """A constant that is int8 with a scale for each index of `axis` in int8 models."""

    data: Any
    axis: int | None = 0


@dataclass(frozen=True)
class Bias:
    """A constant that is int32 at the product of the scales of the input and the weights."""

    data: Any


@dataclass(frozen=True)
class Case:
    """A call. int8: SAME, a fixed grid, "own" for the range of the result, "" for no int8 form.

    out: types of results. share: of int8 elements that may differ by one step from LiteRT.
    """

    kind: str
    operands: tuple[Any, ...]
    options: Any = None
    int8: Any = "own"
    out: tuple[str, ...] = ("real",)
    share: float = 0.001
    note: str = ""

    def __str__(self) -> str:
        return self.kind + f"-{self.note}" * bool(self.note)


@dataclass
class Model:
    """A file of a case, its inputs by LiteRT's types."""

    data: bytes
    arrays: list = field(default_factory=list)


def float_model(case: Case, seed: int = 0) -> Model:
    rng, f, arrays = np.random.default_rng(seed), LiteRtFile(), []
    reads = []
    for operand in case.operands:
        if operand is None:
            reads.append(-1)
        elif isinstance(operand, Ints):
            reads.append(_ints(f, operand, arrays, rng))
        elif operand.data is not None:
            reads.append(f.constant(np.asarray(operand.data, np.float32)))
        else:
            reads.append(f.input(operand.shape))
            arrays.append(_steps_to_real(operand, _steps(operand, rng)))
    _finish(f, case, reads, [(None, 0) for _ in case.out])
    return Model(f.data(), arrays)


def int8_model(case: Case, seed: int = 0) -> Model:
    rng, f, arrays = np.random.default_rng(seed), LiteRtFile(), []
    reads, grids, weights = [], [], None
    for operand in case.operands:
        if operand is None:
            reads.append(-1)
        elif isinstance(operand, Ints):
            reads.append(_ints(f, operand, arrays, rng))
        elif isinstance(operand, Weight):
            weights = _scales(operand)
            shape = [-1 if i == operand.axis else 1 for i in range(operand.data.ndim)]
            steps = np.rint(operand.data / weights.reshape(shape)).astype(np.int8)
            reads.append(f.constant(steps, weights, 0, operand.axis or 0))
        elif isinstance(operand, Bias):
            scale = np.float32(grids[0][0]) * weights
            steps = np.rint(operand.data / scale).astype(np.int32)
            reads.append(f.constant(steps, scale, 0))
        elif operand.data is not None:
            steps = np.rint(np.asarray(operand.data) / operand.grid[0]) + operand.grid[1]
            reads.append(f.constant(np.clip(steps, -128, 127).astype(np.int8), *operand.grid))
        else:
            grids.append(operand.grid)
            reads.append(f.input(operand.shape, "int8", *operand.grid))
            arrays.append(_steps(operand, rng))
    _finish(f, case, reads, _result_grids(case, grids, seed))
    return Model(f.data(), arrays)


def _result_grids(case: Case, grids: list, seed: int) -> list:
    if isinstance(case.int8, tuple):
        return [case.int8 for _ in case.out]
    if case.int8 == SAME:
        return [grids[0] if grids else GRID for _ in case.out]
    model = float_model(case, seed)
    result = load_litert(model.data).module(*map(torch.from_numpy, model.arrays))
    results = result if isinstance(result, tuple) else (result,)
    made = []
    for each in results:
        low, high = min(float(each.min()), 0.0), max(float(each.max()), 0.01)
        scale = float(np.float32((high - low) / 255))
        made.append((scale, round(-128 - low / scale)))
    return made


def _finish(f: LiteRtFile, case: Case, reads: list, grids: list) -> None:
    results = []
    for kind, (scale, zero) in zip(case.out, grids):
        if kind == "real":
            results.append(f.tensor([], "float32" if scale is None else "int8", scale, zero))
        else:
            results.append(f.tensor([], kind))
    f.operator(case.kind, reads, results, case.options)
    f.output(*results)


def _ints(f: LiteRtFile, operand: Ints, arrays: list, rng: np.random.Generator) -> int:
    if operand.data is not None:
        return f.constant(np.asarray(operand.data, operand.dtype))
    arrays.append(rng.integers(0, operand.high, operand.shape).astype(operand.dtype))
    return f.input(operand.shape, operand.dtype)


def _scales(weight: Weight) -> np.ndarray:
    axes = tuple(i for i in range(weight.data.ndim) if i != weight.axis)
    return (np.abs(weight.data).max(axes) / 127).astype(np.float32).reshape(-1)


def _steps(value: Value, rng: np.random.Generator) -> np.ndarray:
    scale, zero = value.grid
    low = max(-128, int(np.ceil(value.low / scale)) + zero)
    high = min(127, int(np.floor(value.high / scale)) + zero)
    return rng.integers(low, high + 1, value.shape).astype(np.int8)


def _steps_to_real(value: Value, steps: np.ndarray) -> np.ndarray:
    scale, zero = value.grid
    return (steps.astype(np.int32) - zero).astype(np.float32) * np.float32(scale)


# Cases ----------------------------------------------------------------------------------------

RNG = np.random.default_rng(7)


def weight(*shape: int) -> np.ndarray:
    return RNG.uniform(-0.5, 0.5, shape).astype(np.float32)


def ints(*values: int) -> Ints:
    return Ints(data=np.array(values, np.int32))


def pairs(*values: tuple[int, int]) -> Ints:
    return Ints(data=np.array(values, np.int32))


def conv(note: str, x: tuple, w: tuple, **given: int) -> Case:
    name, axis = ("DepthwiseConv2D", 3) if "depthMultiplier" in given else ("Conv2D", 0)
    kind = "DEPTHWISE_CONV_2D" if axis else "CONV_2D"
    operands = Value(x), Weight(weight(*w), axis), Bias(weight(w[axis]))
    made = options(name, **{"padding": 0, "strideH": 1, "strideW": 1, **given})
    return Case(kind, operands, made, note=note, share=TWICE)


def pool(kind: str, note: str, x: tuple, kernel: int, stride: int, padding: int) -> Case:
    made = options("Pool2D", padding=padding, strideH=stride, strideW=stride, filterHeight=kernel,
                   filterWidth=kernel)  # fmt: skip
    share = HALVES if kind == "AVERAGE_POOL_2D" else 0.0
    return Case(kind, (Value(x),), made, SAME, note=note, share=share)


def binary(kind: str, name: str = "", **more: Any) -> list[Case]:
    made = options(name) if name else None
    relu = (
        options(name, fusedActivationFunction=1)
        if name and hasattr(made, "fusedActivationFunction")
        else None
    )
    a = Value((2, 8, 8, 8))
    cases = [
        Case(kind, (a, Value((2, 8, 8, 8), -1.0, 2.0)), made, **more),
        Case(kind, (a, Value((8,), -2.0, 1.0)), made, note="broadcast", **more),
        Case(kind, (a, Value(data=weight(8, 8, 8))), made, note="constant", **more),
    ]
    return cases + ([Case(kind, (a, a), relu, note="relu", **more)] if relu else [])


def unary(kind: str, made: Any = None, low: float = -1.0, high: float = 1.0, **more: Any) -> Case:
    return Case(kind, (Value((1, 8, 8, 16), low, high),), made, **more)


def moved(kind: str, shape: tuple, *rest: Any, made: Any = None, **more: Any) -> Case:
    return Case(kind, (Value(shape), *rest), made, SAME, **more)


IMAGE = (1, 9, 11, 4)

CASES = [
    conv("same", IMAGE, (8, 3, 3, 4)),
    conv("valid", IMAGE, (8, 3, 2, 4), padding=1, fusedActivationFunction=1),
    conv("stride 2", (1, 8, 8, 4), (8, 3, 3, 4), strideH=2, strideW=2, fusedActivationFunction=3),
    conv("strides", (1, 9, 8, 4), (8, 3, 3, 4), strideH=2, strideW=1),
    conv("dilated", (1, 16, 16, 4), (8, 3, 3, 4), dilationHFactor=2, dilationWFactor=2),
    conv("even kernel", IMAGE, (8, 2, 2, 4), fusedActivationFunction=2),
    conv("groups", IMAGE, (8, 3, 3, 2)),
    conv("same", IMAGE, (1, 3, 3, 4), depthMultiplier=1),
    conv("stride 2", (1, 8, 8, 4), (1, 3, 3, 4), strideH=2, strideW=2, depthMultiplier=1,
         fusedActivationFunction=3),
    conv("multiplier", IMAGE, (1, 3, 3, 8), depthMultiplier=2),
    conv("dilated", IMAGE, (1, 3, 3, 4), padding=1, depthMultiplier=1, dilationHFactor=2,
         dilationWFactor=2),
    Case("TRANSPOSE_CONV", (ints(1, 10, 12, 6), Weight(weight(6, 3, 3, 4)), Value((1, 5, 6, 4))),
         options("TransposeConv", padding=0, strideH=2, strideW=2), note="same",
         share=TWICE),
    Case("TRANSPOSE_CONV", (ints(1, 12, 14, 6), Weight(weight(6, 4, 4, 4)), Value((1, 5, 6, 4)),
                            Bias(weight(6))),
         options("TransposeConv", padding=1, strideH=2, strideW=2), note="valid",
         share=TWICE),
    Case("TRANSPOSE_CONV", (ints(1, 9, 11, 6), Weight(weight(6, 2, 2, 4)), Value((1, 5, 6, 4))),
         options("TransposeConv", padding=0, strideH=2, strideW=2), note="odd",
         share=TWICE),
    Case("FULLY_CONNECTED", (Value((4, 64)), Weight(weight(32, 64), None), Bias(weight(32))),
         options("FullyConnected", fusedActivationFunction=1)),
    Case("FULLY_CONNECTED", (Value((2, 3, 64)), Weight(weight(32, 64)), Bias(weight(32))),
         options("FullyConnected", keepNumDims=True), note="kept"),
    Case("FULLY_CONNECTED", (Value((2, 3, 32)), Weight(weight(16, 96), None), None),
         options("FullyConnected"), note="flat"),
    Case("BATCH_MATMUL", (Value((2, 8, 16)), Value((2, 16, 12))), options("BatchMatMul")),
    Case("BATCH_MATMUL", (Value((2, 16, 8)), Value((2, 12, 16))),
         options("BatchMatMul", adjX=True, adjY=True), note="adjoint"),
    *(pool(kind, f"{note} {size} {k}/{s}", (1, *size, 8), k, s, padding)
      for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
      for note, size, k, s, padding in (
          ("valid", (8, 8), 2, 2, 1), ("valid", (9, 8), 3, 2, 1), ("same", (8, 8), 3, 2, 0),
          ("same", (9, 7), 2, 1, 0), ("same", (9, 9), 3, 1, 0), ("same", (7, 9), 2, 2, 0),
          ("same", (9, 8), 2, 3, 0))),
    *(moved("RESIZE_BILINEAR", (1, 5, 6, 4), ints(*size), note=f"{size} {corners} {half}",
            made=options("ResizeBilinear", alignCorners=corners, halfPixelCenters=half),
            share=HALVES)
      for size in ((10, 12), (7, 9), (3, 3)) for corners, half in ((0, 0), (1, 0), (0, 1))),
    *(moved("RESIZE_NEAREST_NEIGHBOR", (1, 5, 6, 4), ints(*size), note=f"{size} {corners} {half}",
            made=options("ResizeNearestNeighbor", alignCorners=corners, halfPixelCenters=half))
      for size in ((10, 12), (7, 9), (3, 3)) for corners, half in ((0, 0), (1, 0), (0, 1))),
    moved("DEPTH_TO_SPACE", (1, 3, 4, 8), made=options("DepthToSpace", blockSize=2)),
    moved("SPACE_TO_DEPTH", (1, 4, 6, 3), made=options("SpaceToDepth", blockSize=2)),
    moved("SPACE_TO_BATCH_ND", (1, 5, 6, 3), ints(3, 2), pairs((1, 0), (1, 1))),
    moved("BATCH_TO_SPACE_ND", (6, 2, 4, 3), ints(3, 2), pairs((1, 0), (1, 1))),
    *binary("ADD", "Add"), *binary("SUB", "Sub"), *binary("MUL", "Mul", share=TWICE),
    Case("DIV", (Value((2, 8, 8, 8)), Value((8,), 0.5, 2.0)), options("Div")),
    Case("ADD_N", (Value((4, 8)), Value((4, 8)), Value((4, 8))), options("AddN"), ""),
    *binary("SQUARED_DIFFERENCE", share=TWICE),
    *(Case(kind, (Value((2, 8, 8, 8)), Value((8,))), options("MaximumMinimum"), SAME)
      for kind in ("MAXIMUM", "MINIMUM")),
    Case("POW", (Value((4, 8), 0.5, 2.0), Value((4, 8))), options("Pow"), ""),
    Case("FLOOR_DIV", (Value((4, 8)), Value((4, 8), 0.5, 2.0)), options("FloorDiv"), ""),
    Case("FLOOR_MOD", (Value((4, 8)), Value((4, 8), 0.5, 2.0)), options("FloorMod"), ""),
    unary("ABS"), unary("NEG", options("Neg"), int8=(0.01, -3)), unary("EXP", options("Exp")),
    unary("LOG", None, 0.05, 2.0), unary("RSQRT", None, 0.1, 2.0),
    unary("SQRT", None, 0.05, 2.0, share=DOWN),
    *(unary(kind, made, -3.0, 3.0, int8="")
      for kind, made in (("SQUARE", options("Square")), ("SIN", None), ("COS", options("Cos")),
                         ("FLOOR", None), ("CEIL", None), ("ROUND", None), ("SIGN", None))),
    unary("LOGISTIC", None, -4.0, 4.0, int8=(1 / 256, -128)),
    unary("TANH", None, -3.0, 3.0, int8=(1 / 128, 0)),
    unary("RELU"), unary("RELU6", None, -8.0, 8.0), unary("RELU_N1_TO_1", None, -3.0, 3.0),
    unary("RELU_0_TO_1", None, -3.0, 3.0),
    unary("LEAKY_RELU", options("LeakyRelu", alpha=0.1), share=BITS), unary("ELU", None, -3.0, 3.0),
    Case("PRELU", (Value((1, 8, 8, 16)), Value(data=weight(1, 1, 16))), share=TWICE),
    unary("HARD_SWISH", options("HardSwish"), -4.0, 4.0, share=TWICE),
    unary("GELU", options("Gelu"), -3.0, 3.0),
    unary("GELU", options("Gelu", approximate=True), -3.0, 3.0, note="approximate"),
    unary("SOFTMAX", options("Softmax", beta=1.0), -4.0, 4.0, int8=(1 / 256, -128)),
    unary("SOFTMAX", options("Softmax", beta=0.5), -4.0, 4.0, int8=(1 / 256, -128), note="beta"),
    unary("LOG_SOFTMAX", options("LogSoftmax"), -4.0, 4.0, int8=(16 / 256, 127)),
    unary("L2_NORMALIZATION", options("L2Norm"), int8=(1 / 128, 0)),
    *(Case(kind, (Value((2, 6, 7, 16)), ints(*axes)), options("Reducer", keepDims=keep),
           int8=SAME if "REDUCE" in kind else "own", note=f"{axes} {keep}", share=share)
      for kind, share in (("MEAN", 0.02), ("SUM", 0.02), ("REDUCE_MAX", 0.0), ("REDUCE_MIN", 0.0))
      for axes, keep in (((1, 2), True), ((1, 2), False), ((-1,), False))),
    Case("MEAN", (Value((2, 6, 7, 16)), ints(1, 2)), options("Reducer", keepDims=True), SAME,
         note="same grid", share=HALVES),
    Case("REDUCE_PROD", (Value((2, 3, 16)), ints(1)), options("Reducer"), share=0.05),
    *(Case(kind, (Ints((2, 3, 4), dtype="bool"), ints(1)), options("Reducer"), "", ("bool",))
      for kind in ("REDUCE_ANY", "REDUCE_ALL")),
    *(Case(kind, (Value((2, 6, 16)), ints(-1)), options(name, outputType=2), out=("int32",))
      for kind, name in (("ARG_MAX", "ArgMax"), ("ARG_MIN", "ArgMin"))),
    moved("TOPK_V2", (4, 16), Ints(data=np.int32(3)), made=options("TopKV2"),
          out=("real", "int32")),
    *(Case("CUMSUM", (Value((3, 8)), Ints(data=np.int32(1))),
           options("Cumsum", exclusive=exclusive, reverse=reverse), "",
           note=f"{exclusive} {reverse}")
      for exclusive in (False, True) for reverse in (False, True)),
    moved("RESHAPE", (2, 3, 8), ints(4, -1), made=options("Reshape", newShape=[4, 12])),
    moved("SQUEEZE", (1, 3, 1, 8), made=options("Squeeze", squeezeDims=[2])),
    moved("SQUEEZE", (1, 3, 1, 8), made=options("Squeeze", squeezeDims=[]), note="all"),
    moved("EXPAND_DIMS", (3, 8), Ints(data=np.int32(1)), made=options("ExpandDims")),
    moved("TRANSPOSE", (2, 3, 4, 5), ints(0, 3, 1, 2), made=options("Transpose")),
    moved("CONCATENATION", (2, 3, 4), Value((2, 5, 4)), made=options("Concatenation", axis=1)),
    moved("CONCATENATION", (2, 3, 4), Value(data=weight(2, 3, 2)),
          made=options("Concatenation", axis=-1), note="constant"),
    Case("SPLIT", (Ints(data=np.int32(1)), Value((2, 6, 4))), options("Split", numSplits=3), SAME,
         ("real",) * 3),
    moved("SPLIT_V", (2, 6, 4), ints(1, 3, 2), Ints(data=np.int32(1)),
          made=options("SplitV", numSplits=3), out=("real",) * 3),
    moved("PACK", (2, 4), Value((2, 4)), made=options("Pack", valuesCount=2, axis=1)),
    moved("UNPACK", (2, 3, 4), made=options("Unpack", num=3, axis=1), out=("real",) * 3),
    moved("SLICE", (4, 6, 8), ints(1, 0, 2), ints(2, -1, 3), made=options("Slice")),
    moved("STRIDED_SLICE", (4, 6, 8), ints(1, 0, 7), ints(4, 6, 0), ints(2, 1, -2),
          made=options("StridedSlice", beginMask=2, endMask=2)),
    moved("STRIDED_SLICE", (4, 6, 8), ints(1, 0, -3), ints(2, 0, 8), ints(1, 1, 1), note="masks",
          made=options("StridedSlice", shrinkAxisMask=1, ellipsisMask=2)),
    moved("STRIDED_SLICE", (4, 6, 8), ints(0, 1, 0), ints(0, 3, 0), ints(1, 1, 1), note="new axis",
          made=options("StridedSlice", newAxisMask=1, endMask=4)),
    moved("REVERSE_V2", (4, 6, 8), ints(1), made=options("ReverseV2")),
    moved("PAD", (1, 4, 5, 3), pairs((0, 0), (1, 2), (2, 0), (0, 1)), made=options("Pad")),
    moved("PADV2", (1, 4, 5, 3), pairs((0, 0), (1, 2), (2, 0), (0, 0)),
          Value(data=np.float32(-0.5)), made=options("PadV2")),
    *(moved("MIRROR_PAD", (4, 5, 3), pairs((1, 2), (2, 0), (0, 1)), note=str(mode),
            made=options("MirrorPad", mode=mode)) for mode in (0, 1)),
    moved("TILE", (2, 3, 4), ints(1, 2, 3), made=options("Tile")),
    moved("BROADCAST_TO", (3, 1), ints(2, 3, 4), made=options("BroadcastTo")),
    moved("GATHER", (6, 5, 4), Ints((2, 3), 5), made=options("Gather", axis=1)),
    moved("GATHER", (3, 5, 4), Ints((3, 2), 5), made=options("Gather", axis=1, batchDims=1),
          note="batch"),
    moved("GATHER_ND", (4, 5, 6), Ints((3, 2), 4), made=options("GatherNd")),
    Case("EMBEDDING_LOOKUP", (Ints((5,), 7), Value(data=weight(7, 8))), None, SAME),
    Case("ONE_HOT", (Ints((2, 3), 5), Ints(data=np.int32(5)), Value(data=np.float32(1)),
                     Value(data=np.float32(0))), options("OneHot", axis=-1), SAME),
    Case("ONE_HOT", (Ints((2, 3), 5), Ints(data=np.int32(5)), Value(data=np.float32(1)),
                     Value(data=np.float32(-1))), options("OneHot", axis=1), SAME, note="axis"),
    Case("ZEROS_LIKE", (Value((3, 4)),), options("ZerosLike"), ""),
    *(Case(kind, (Value((4, 16)), Value((4, 16))), options(name), out=("bool",))
      for kind, name in (("EQUAL", "Equal"), ("NOT_EQUAL", "NotEqual"), ("GREATER", "Greater"),
                         ("GREATER_EQUAL", "GreaterEqual"), ("LESS", "Less"),
                         ("LESS_EQUAL", "LessEqual"))),
    *(Case(kind, (Ints((4, 8), dtype="bool"), Ints((8,), dtype="bool")), options(name), "",
           ("bool",))
      for kind, name in (("LOGICAL_AND", "LogicalAnd"), ("LOGICAL_OR", "LogicalOr"))),
    Case("LOGICAL_NOT", (Ints((4, 8), dtype="bool"),), options("LogicalNot"), "", ("bool",)),
    Case("SELECT", (Ints((4, 8), dtype="bool"), Value((4, 8)), Value((4, 8))), options("Select"),
         SAME),
    Case("SELECT", (Ints((4,), dtype="bool"), Value((4, 8)), Value((4, 8))), options("Select"),
         SAME, note="rows"),
    Case("SELECT_V2", (Ints((8,), dtype="bool"), Value((4, 8)), Value((8,))), options("SelectV2"),
         SAME),
    Case("CAST", (Value((4, 8), -3.0, 3.0),), options("Cast"), "", ("int32",)),
]  # fmt: skip
