"""The one table of operators: the function of each, the operands that are values, the types."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from sw.frontends.litert.operators import (
    convolutions,
    elementwise,
    images,
    indexing,
    moves,
    recurrent,
)
from sw.frontends.litert.operators import reductions as reduce
from sw.frontends.litert.operators.elementwise import activated, plain

_FIRST = (0,)

Rows = dict[str, "Row"]
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How an operator is taken.

    values: the operands that the function is given as tensors (None: all); the others are constants
    that it asks for. options: the class of the options, if it reads any. int8: whether LiteRT
    computes it in int8. image: whether the function's results are [N, C, H, W] where the file has
    [N, H, W, C].
    """

    function: Function
    values: tuple[int, ...] | None = None
    options: str = ""
    int8: bool = True
    image: bool = False


def _row(
    function: Function, options: str = "", values: tuple[int, ...] | None = None, int8: bool = True,
    image: bool = False,
) -> Row:  # fmt: skip
    name = f"{options}Options" if options else ""
    return Row(function=function, values=values, options=name, int8=int8, image=image)


def _plain(int8: bool, **functions: Function) -> Rows:
    """Operators that are one function of their operands."""
    return {kind: _row(plain(function), int8=int8) for kind, function in functions.items()}


def _reducer(int8: bool, **functions: Function) -> Rows:
    """Operators whose operand 1 names dimensions."""
    return {kind: _row(f, "Reducer", _FIRST, int8) for kind, f in functions.items()}


def _moves(**functions: Function) -> Rows:
    """Operators without options, all of whose operands but the first are constants."""
    return {kind: _row(function, "", _FIRST) for kind, function in functions.items()}


FAMILIES: dict[str, Rows] = {
    "Products": {
        "CONV_2D": _row(convolutions.conv_2d, "Conv2D", image=True),
        "DEPTHWISE_CONV_2D": _row(convolutions.depthwise_conv_2d, "DepthwiseConv2D", image=True),
        "TRANSPOSE_CONV": _row(
            convolutions.transpose_conv, "TransposeConv", (2, 1, 3), image=True
        ),
        "FULLY_CONNECTED": _row(convolutions.fully_connected, "FullyConnected"),
        "BATCH_MATMUL": _row(convolutions.batch_matmul, "BatchMatMul"),
    },
    "Recurrent layers": {
        "UNIDIRECTIONAL_SEQUENCE_LSTM": _row(
            recurrent.lstm, "UnidirectionalSequenceLSTM", recurrent.LSTM_VALUES, int8=False
        ),
        "UNIDIRECTIONAL_SEQUENCE_RNN": _row(
            recurrent.rnn, "SequenceRNN", recurrent.RNN_VALUES, int8=False
        ),
    },
    "Images": {
        "AVERAGE_POOL_2D": _row(images.average_pool_2d, "Pool2D", image=True),
        "MAX_POOL_2D": _row(images.max_pool_2d, "Pool2D", image=True),
        "RESIZE_BILINEAR": _row(images.resize_bilinear, "ResizeBilinear", _FIRST, image=True),
        "RESIZE_NEAREST_NEIGHBOR": _row(
            images.resize_nearest_neighbor, "ResizeNearestNeighbor", _FIRST, image=True
        ),
        "DEPTH_TO_SPACE": _row(images.depth_to_space, "DepthToSpace"),
        "SPACE_TO_DEPTH": _row(images.space_to_depth, "SpaceToDepth"),
        **_moves(
            SPACE_TO_BATCH_ND=images.space_to_batch_nd, BATCH_TO_SPACE_ND=images.batch_to_space_nd
        ),
    },
    "Arithmetic": {
        "ADD": _row(activated(torch.add), "Add"),
        "SUB": _row(activated(torch.sub), "Sub"),
        "MUL": _row(activated(torch.mul), "Mul"),
        "DIV": _row(activated(elementwise.divided), "Div"),
        **_plain(
            True, SQUARED_DIFFERENCE=lambda a, b: torch.square(a - b), MAXIMUM=torch.maximum,
            MINIMUM=torch.minimum,
        ),
        **_plain(
            False, ADD_N=elementwise.added, POW=torch.pow, FLOOR_DIV=torch.floor_divide,
            FLOOR_MOD=torch.remainder,
        ),
    },
    "Functions": {
        **_plain(
            True, ABS=torch.abs, NEG=torch.neg, EXP=torch.exp, LOG=torch.log, RSQRT=torch.rsqrt,
            SQRT=torch.sqrt, LOGISTIC=torch.sigmoid, TANH=torch.tanh, RELU=torch.relu,
            RELU6=lambda x: torch.clamp(x, 0.0, 6.0), ELU=F.elu, HARD_SWISH=F.hardswish,
            RELU_N1_TO_1=lambda x: torch.clamp(x, -1.0, 1.0),
            RELU_0_TO_1=lambda x: torch.clamp(x, 0.0, 1.0), PRELU=elementwise.prelu,
            LOG_SOFTMAX=lambda x: torch.log_softmax(x, -1),
        ),
        **_plain(
            False, SQUARE=torch.square, SIN=torch.sin, COS=torch.cos, FLOOR=torch.floor,
            CEIL=torch.ceil, ROUND=torch.round, SIGN=torch.sign,
        ),
        "LEAKY_RELU": _row(elementwise.leaky_relu, "LeakyRelu"),
        "GELU": _row(elementwise.gelu, "Gelu"),
        "SOFTMAX": _row(elementwise.softmax, "Softmax"),
        "L2_NORMALIZATION": _row(elementwise.l2_normalization, "L2Norm"),
    },
    "Reductions": {
        **_reducer(
            True, MEAN=reduce.mean, SUM=reduce.total, REDUCE_MAX=reduce.extreme(torch.amax),
            REDUCE_MIN=reduce.extreme(torch.amin), REDUCE_PROD=reduce.one_by_one(torch.prod),
        ),
        **_reducer(
            False, REDUCE_ANY=reduce.one_by_one(torch.any), REDUCE_ALL=reduce.one_by_one(torch.all)
        ),
        **_moves(
            ARG_MAX=reduce.place(torch.argmax), ARG_MIN=reduce.place(torch.argmin),
            TOPK_V2=reduce.top_k,
        ),
        "CUMSUM": _row(reduce.cumsum, "Cumsum", _FIRST, int8=False),
    },
    "Moves and indices": {
        "RESHAPE": _row(moves.reshape, "Reshape", _FIRST),
        "SQUEEZE": _row(moves.squeeze, "Squeeze"),
        "CONCATENATION": _row(moves.concatenation, "Concatenation"),
        "SPLIT": _row(moves.split, "Split", (1,)),
        "PACK": _row(moves.pack, "Pack"),
        "UNPACK": _row(moves.unpack, "Unpack"),
        "STRIDED_SLICE": _row(moves.strided_slice, "StridedSlice", _FIRST),
        "MIRROR_PAD": _row(moves.mirror_pad, "MirrorPad", _FIRST),
        **_moves(
            EXPAND_DIMS=moves.expand_dims, TRANSPOSE=moves.transpose, SPLIT_V=moves.split_v,
            SLICE=moves.slice_, REVERSE_V2=moves.reverse_v2, PAD=moves.pad, PADV2=moves.pad,
            TILE=moves.tile, BROADCAST_TO=moves.broadcast_to,
        ),
        "GATHER": _row(indexing.gather, "Gather"),
        "GATHER_ND": _row(indexing.gather_nd),
        "EMBEDDING_LOOKUP": _row(plain(F.embedding)),
        "ONE_HOT": _row(indexing.one_hot, "OneHot", _FIRST),
        "FILL": _row(moves.fill, "", (1,)),
        "RANGE": _row(moves.range_, "", (), int8=False),
        **_plain(
            True, SHAPE=lambda x: torch.tensor(list(x.shape)), RANK=lambda x: torch.tensor(x.dim())
        ),
        **_plain(False, ZEROS_LIKE=torch.zeros_like),
    },
    "Logic and types": {
        **_plain(
            True, EQUAL=torch.eq, NOT_EQUAL=torch.ne, GREATER=torch.gt, GREATER_EQUAL=torch.ge,
            LESS=torch.lt, LESS_EQUAL=torch.le, SELECT=elementwise.select, SELECT_V2=torch.where,
            QUANTIZE=lambda x: x, DEQUANTIZE=lambda x: x, DENSIFY=lambda x: x,
        ),
        **_plain(
            False, LOGICAL_AND=torch.logical_and, LOGICAL_OR=torch.logical_or,
            LOGICAL_NOT=torch.logical_not,
        ),
        "CAST": _row(elementwise.cast, int8=False),
    },
}  # fmt: skip

ROWS: Rows = {kind: row for rows in FAMILIES.values() for kind, row in rows.items()}
"""By the operator's name in the schema."""
