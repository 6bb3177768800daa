"""A TOSA graph as a TOSA 1.0 flatbuffer, for the reference model and other TOSA consumers.

The specification's CONST and CONST_SHAPE operators, which our graph implies, are written out.
"""

import importlib
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.errors import CompileError, GraphError
from sw.compiler.tosa.graph import DTYPES, Graph, Op, Tensor

TOSA_VERSION = (1, 0, 2)


def to_flatbuffer(graph: Graph) -> bytes:
    """`graph`, verified first, as the bytes of a `.tosa` file; `CompileError` if that fails."""
    graph.verify()
    ts = _serializer()
    major, minor, patch = TOSA_VERSION
    out = ts.TosaSerializer(
        "", targetMajor=major, targetMinor=minor, targetPatch=patch, targetDraft=False
    )
    region = out.currRegion
    used = {name for op in graph.ops for name in op.inputs} | set(graph.outputs)
    block = region.currBasicBlock
    for name, tensor in graph.tensors.items():
        if tensor.is_constant and name not in used:
            continue
        if tensor.dtype == "shape":
            _add_shape(ts, block, tensor)
        else:
            _add_tensor(ts, block, tensor)
    for name in graph.inputs:
        block.addInput(name)
    for op in graph.ops:
        block.addOperator(getattr(ts.Op, op.kind), op.inputs, op.outputs, _attribute(ts, graph, op))
    for name in graph.outputs:
        block.addOutput(name)
    return bytes(out.serialize())


def _serializer() -> ModuleType:
    try:
        return importlib.import_module("tosa_serializer")
    except ImportError as error:
        raise CompileError(
            f"cannot write a TOSA flatbuffer: {error}", hint="pip install tosa-tools"
        ) from None


def _dtype(ts: ModuleType, name: str) -> Any:
    return getattr(ts.DType, name.upper())


def _little_endian(data: NDArray[Any]) -> list[int]:
    """The element bytes as the container stores them."""
    return list(np.ascontiguousarray(data, data.dtype.newbyteorder("<")).tobytes())


def _add_tensor(ts: ModuleType, block: Any, tensor: Tensor) -> None:
    dtype = _dtype(ts, tensor.dtype)
    if tensor.data is None:
        block.addTensor(tensor.name, list(tensor.shape), dtype)
        return
    block.addTensor(tensor.name, list(tensor.shape), dtype, tensor.data)
    attribute = ts.TosaSerializerAttribute()
    attribute.ConstAttribute()
    block.addOperator(ts.Op.CONST, [], [tensor.name], attribute)


def _add_shape(ts: ModuleType, block: Any, tensor: Tensor) -> None:
    if tensor.data is None:
        raise GraphError(f"shape {tensor.name!r} must be a constant")
    block.addShape(tensor.name, tensor.size, [int(v) for v in tensor.data])
    attribute = ts.TosaSerializerAttribute()
    attribute.ConstShapeAttribute()
    block.addOperator(ts.Op.CONST_SHAPE, [], [tensor.name], attribute)


def _attribute(ts: ModuleType, graph: Graph, op: Op) -> Any:
    """The operator's attribute record; operators without attributes have an empty one."""
    a, out = op.attributes, ts.TosaSerializerAttribute()
    propagate = ts.NanPropagationMode.PROPAGATE
    arguments: tuple[Any, ...] = ()
    if op.kind in _CONVOLUTIONS:
        acc = _dtype(ts, a["acc_type"])
        arguments = (list(a["pad"]), list(a["stride"]), list(a["dilation"]), False, acc)
    elif op.kind == "TRANSPOSE_CONV2D":
        arguments = (list(a["out_pad"]), list(a["stride"]), False, _dtype(ts, a["acc_type"]))
    elif op.kind in ("MAX_POOL2D", "AVG_POOL2D"):
        last = propagate if op.kind == "MAX_POOL2D" else _dtype(ts, a["acc_type"])
        arguments = (list(a["kernel"]), list(a["stride"]), list(a["pad"]), last)
    elif op.kind == "RESCALE":
        mode = getattr(ts.RoundingMode, a["rounding_mode"])
        flags = (a["per_channel"], a["input_unsigned"], a["output_unsigned"])
        arguments = (a["scale32"], mode, *flags)
    elif op.kind == "CLAMP":
        kind = DTYPES[graph.tensors[op.inputs[0]].dtype]
        limits = [_little_endian(np.array(a[key], kind)) for key in ("min_val", "max_val")]
        arguments = (*limits, propagate)
    elif op.kind == "TRANSPOSE":
        arguments = (list(a["perms"]),)
    elif op.kind == "RESIZE":
        arguments = (getattr(ts.ResizeMode, a["mode"]),)
    elif op.kind == "ARITHMETIC_RIGHT_SHIFT":
        arguments = (a["round"],)
    elif "axis" in a:
        arguments = (a["axis"],)
    if op.kind in _NAN_MODE:
        arguments = (*arguments, propagate)
    getattr(out, f"{_record(op.kind)}Attribute")(*arguments)
    return out


def _record(kind: str) -> str:
    """The schema's name of an operator's record: `MaxPool2d` for MAX_POOL2D."""
    return _IRREGULAR.get(kind) or "".join(word.title() for word in kind.split("_"))


_CONVOLUTIONS = ("CONV2D", "CONV3D", "DEPTHWISE_CONV2D")
_NAN_MODE = ("MAXIMUM", "MINIMUM", "ARGMAX", "REDUCE_MAX", "REDUCE_MIN")
_IRREGULAR = {
    "ARGMAX": "ArgMax",
    "AVG_POOL2D": "AvgPool2d",
    "CONV2D": "Conv2d",
    "CONV3D": "Conv3d",
    "DEPTHWISE_CONV2D": "DepthwiseConv2d",
    "INTDIV": "IntDiv",
    "MATMUL": "MatMul",
    "MAX_POOL2D": "MaxPool2d",
    "TRANSPOSE_CONV2D": "TransposeConv2d",
}
