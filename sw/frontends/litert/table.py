"""The one table of operators: the function of each, the operands that are values, the types."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from sw.frontends.litert.operators import convolutions, elementwise, images, indexing, moves
from sw.frontends.litert.operators import reductions as reduce
from sw.frontends.litert.operators.elementwise import activated, clamped, plain

ALL = None
"""Every operand is a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How an operator is taken.

    values: the operands that the function is given as tensors; the others are constants that it
    asks for. options: the class of the options, if it reads any. int8: whether LiteRT computes it
    in int8. image: whether the function's results are [N, C, H, W] where the file has [N, H, W, C].
    """

    function: Callable[..., Any]
    values: tuple[int, ...] | None = ALL
    options: str = ""
    int8: bool = True
    image: bool = False


def _row(
    function: Callable[..., Any], options: str = "", values: tuple[int, ...] | None = ALL,
    int8: bool = True, image: bool = False,
) -> Row:  # fmt: skip
    name = f"{options}Options" if options else ""
    return Row(function=function, values=values, options=name, int8=int8, image=image)


def _image(function: Callable[..., Any], options: str, values: tuple[int, ...] | None = ALL) -> Row:
    return _row(function, options, values, image=True)


def _float(function: Callable[..., Any]) -> Row:
    """An operator of floats or integers, without an int8 form in LiteRT."""
    return _row(plain(function), int8=False)


_FIRST = (0,)

PRODUCTS = {
    "CONV_2D": _image(convolutions.conv_2d, "Conv2D"),
    "DEPTHWISE_CONV_2D": _image(convolutions.depthwise_conv_2d, "DepthwiseConv2D"),
    "TRANSPOSE_CONV": _image(convolutions.transpose_conv, "TransposeConv", (2, 1, 3)),
    "FULLY_CONNECTED": _row(convolutions.fully_connected, "FullyConnected"),
    "BATCH_MATMUL": _row(convolutions.batch_matmul, "BatchMatMul"),
}

IMAGES = {
    "AVERAGE_POOL_2D": _image(images.average_pool_2d, "Pool2D"),
    "MAX_POOL_2D": _image(images.max_pool_2d, "Pool2D"),
    "RESIZE_BILINEAR": _image(images.resize_bilinear, "ResizeBilinear", _FIRST),
    "RESIZE_NEAREST_NEIGHBOR": _image(
        images.resize_nearest_neighbor, "ResizeNearestNeighbor", _FIRST
    ),
    "DEPTH_TO_SPACE": _row(images.depth_to_space, "DepthToSpace"),
    "SPACE_TO_DEPTH": _row(images.space_to_depth, "SpaceToDepth"),
    "SPACE_TO_BATCH_ND": _row(images.space_to_batch_nd, "", _FIRST),
    "BATCH_TO_SPACE_ND": _row(images.batch_to_space_nd, "", _FIRST),
}

ARITHMETIC = {
    "ADD": _row(activated(torch.add), "Add"),
    "SUB": _row(activated(torch.sub), "Sub"),
    "MUL": _row(activated(torch.mul), "Mul"),
    "DIV": _row(activated(elementwise.divided), "Div"),
    "ADD_N": _row(elementwise.add_n, int8=False),
    "SQUARED_DIFFERENCE": _row(plain(elementwise.squared_difference)),
    "MAXIMUM": _row(plain(torch.maximum)),
    "MINIMUM": _row(plain(torch.minimum)),
    "POW": _float(torch.pow),
    "FLOOR_DIV": _float(torch.floor_divide),
    "FLOOR_MOD": _float(torch.remainder),
}

FUNCTIONS = {
    "ABS": _row(plain(torch.abs)),
    "NEG": _row(plain(torch.neg)),
    "EXP": _row(plain(torch.exp)),
    "LOG": _row(plain(torch.log)),
    "RSQRT": _row(plain(torch.rsqrt)),
    "SQRT": _row(plain(torch.sqrt)),
    "SQUARE": _float(torch.square),
    "SIN": _float(torch.sin),
    "COS": _float(torch.cos),
    "FLOOR": _float(torch.floor),
    "CEIL": _float(torch.ceil),
    "ROUND": _float(torch.round),
    "SIGN": _float(torch.sign),
    "LOGISTIC": _row(plain(torch.sigmoid)),
    "TANH": _row(plain(torch.tanh)),
    "RELU": _row(plain(torch.relu)),
    "RELU6": _row(clamped(0.0, 6.0)),
    "RELU_N1_TO_1": _row(clamped(-1.0, 1.0)),
    "RELU_0_TO_1": _row(clamped(0.0, 1.0)),
    "LEAKY_RELU": _row(elementwise.leaky_relu, "LeakyRelu"),
    "PRELU": _row(elementwise.prelu),
    "ELU": _row(plain(torch.nn.functional.elu)),
    "HARD_SWISH": _row(plain(torch.nn.functional.hardswish)),
    "GELU": _row(elementwise.gelu, "Gelu"),
    "SOFTMAX": _row(elementwise.softmax, "Softmax"),
    "LOG_SOFTMAX": _row(plain(elementwise.log_softmax)),
    "L2_NORMALIZATION": _row(elementwise.l2_normalization, "L2Norm"),
}

REDUCTIONS = {
    "MEAN": _row(reduce.mean, "Reducer", _FIRST),
    "SUM": _row(reduce.total, "Reducer", _FIRST),
    "REDUCE_MAX": _row(reduce.reduce_max, "Reducer", _FIRST),
    "REDUCE_MIN": _row(reduce.reduce_min, "Reducer", _FIRST),
    "REDUCE_PROD": _row(reduce.reduce_prod, "Reducer", _FIRST),
    "REDUCE_ANY": _row(reduce.reduce_any, "Reducer", _FIRST, int8=False),
    "REDUCE_ALL": _row(reduce.reduce_all, "Reducer", _FIRST, int8=False),
    "ARG_MAX": _row(reduce.arg_max, "", _FIRST),
    "ARG_MIN": _row(reduce.arg_min, "", _FIRST),
    "TOPK_V2": _row(reduce.top_k, "", _FIRST),
    "CUMSUM": _row(reduce.cumsum, "Cumsum", _FIRST, int8=False),
}

MOVES = {
    "RESHAPE": _row(moves.reshape, "Reshape", _FIRST),
    "SQUEEZE": _row(moves.squeeze, "Squeeze"),
    "EXPAND_DIMS": _row(moves.expand_dims, "", _FIRST),
    "TRANSPOSE": _row(moves.transpose, "", _FIRST),
    "CONCATENATION": _row(moves.concatenation, "Concatenation"),
    "SPLIT": _row(moves.split, "Split", (1,)),
    "SPLIT_V": _row(moves.split_v, "", _FIRST),
    "PACK": _row(moves.pack, "Pack"),
    "UNPACK": _row(moves.unpack, "Unpack"),
    "SLICE": _row(moves.slice_, "", _FIRST),
    "STRIDED_SLICE": _row(moves.strided_slice, "StridedSlice", _FIRST),
    "REVERSE_V2": _row(moves.reverse_v2, "", _FIRST),
    "PAD": _row(moves.pad, "", _FIRST),
    "PADV2": _row(moves.pad, "", _FIRST),
    "MIRROR_PAD": _row(moves.mirror_pad, "MirrorPad", _FIRST),
    "TILE": _row(moves.tile, "", _FIRST),
    "BROADCAST_TO": _row(moves.broadcast_to, "", _FIRST),
    "GATHER": _row(indexing.gather, "Gather"),
    "GATHER_ND": _row(indexing.gather_nd),
    "EMBEDDING_LOOKUP": _row(indexing.embedding_lookup),
    "ONE_HOT": _row(indexing.one_hot, "OneHot", _FIRST),
    "SHAPE": _row(moves.shape),
    "RANK": _row(moves.rank),
    "FILL": _row(moves.fill, "", (1,)),
    "RANGE": _row(moves.range_, "", (), int8=False),
    "ZEROS_LIKE": _float(elementwise.zeros_like),
}

LOGIC = {
    "EQUAL": _row(plain(torch.eq)),
    "NOT_EQUAL": _row(plain(torch.ne)),
    "GREATER": _row(plain(torch.gt)),
    "GREATER_EQUAL": _row(plain(torch.ge)),
    "LESS": _row(plain(torch.lt)),
    "LESS_EQUAL": _row(plain(torch.le)),
    "LOGICAL_AND": _float(torch.logical_and),
    "LOGICAL_OR": _float(torch.logical_or),
    "LOGICAL_NOT": _float(torch.logical_not),
    "SELECT": _row(elementwise.select),
    "SELECT_V2": _row(plain(elementwise.select_v2)),
    "CAST": _row(elementwise.cast, int8=False),
    "QUANTIZE": _row(elementwise.kept),
    "DEQUANTIZE": _row(elementwise.kept),
}

FAMILIES: dict[str, dict[str, Row]] = {
    "Products": PRODUCTS,
    "Images": IMAGES,
    "Arithmetic": ARITHMETIC,
    "Functions": FUNCTIONS,
    "Reductions": REDUCTIONS,
    "Moves and indices": MOVES,
    "Logic and types": LOGIC,
}

ROWS: dict[str, Row] = {kind: row for rows in FAMILIES.values() for kind, row in rows.items()}
"""By the operator's name in the schema."""
