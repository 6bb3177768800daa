"""Every kind of layer under one name, for lowering; each is defined in its family's folder."""

from sw.compiler.kernels.base import Layer, LayerProgram
from sw.compiler.kernels.conv.layer import ConvLayer
from sw.compiler.kernels.depthwise.layer import DepthwiseLayer
from sw.compiler.kernels.elementwise.layer import ElementwiseLayer
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.gather.layer import GatherLayer
from sw.compiler.kernels.move.layer import MoveLayer
from sw.compiler.kernels.operands import Epilogue, Operand, Residual, RowFactor
from sw.compiler.kernels.pool.layer import PoolLayer
from sw.compiler.kernels.resize.layer import ResizeLayer
from sw.compiler.kernels.transpose.layer import TransposeLayer

__all__ = [
    "ConvLayer",
    "DepthwiseLayer",
    "ElementwiseLayer",
    "Epilogue",
    "FusedLayer",
    "GatherLayer",
    "Layer",
    "LayerProgram",
    "MoveLayer",
    "Operand",
    "PoolLayer",
    "Residual",
    "ResizeLayer",
    "RowFactor",
    "TransposeLayer",
]
