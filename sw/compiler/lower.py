"""Stage `lower`: the TOSA graph becomes layers; everything that follows a product is fused into it.

A layer is CONV2D or MATMUL + RESCALE + CLAMP + TABLE, a pooling + CLAMP + TABLE, or RESCALE x 2 +
ADD (SUB, MAXIMUM, MINIMUM) + RESCALE + CLAMP + TABLE. Only values that nobody else reads are fused
away.
RESHAPE, IDENTITY and SLICE become views.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from spec.isa import Alu, DType
from spec.numerics import RANGES
from sw.compiler.errors import CompileError
from sw.compiler.layers import (
    DTYPE,
    UNSIGNED,
    ConvLayer,
    ElementwiseLayer,
    Epilogue,
    Layer,
    LayerProgram,
    MoveLayer,
    Operand,
    PoolLayer,
    View,
    dense,
)
from sw.compiler.storage import Storage, to_nhwc
from sw.compiler.tosa import Graph, Op

INT32 = RANGES[DType.I32]
_ALU = {"ADD": Alu.ADD, "SUB": Alu.SUB, "MAXIMUM": Alu.MAX, "MINIMUM": Alu.MIN}


class Lowering:
    """Walks the operators in order; `done` holds those that an earlier layer has absorbed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.users = graph.consumers()
        self.producers = graph.producers()
        self.storage = Storage(graph)
        self.layers: list[Layer] = []
        self.done: set[int] = set()

    def run(self) -> LayerProgram:
        """The layers of the whole graph; `CompileError` names the operator that has none."""
        self._delay_operand_rescales()
        for op in self.graph.ops:
            if id(op) not in self.done:
                self._handler(op)(op)
        for out in self.graph.outputs:
            self._own_output(out)
        return LayerProgram(layers=tuple(self.layers), storage=self.storage)

    def _handler(self, op: Op) -> Callable[[Op], None]:
        handlers: dict[str, Callable[[Op], None]] = {
            "CONV2D": self._conv2d,
            "MATMUL": self._matmul,
            "MAX_POOL2D": self._pool,
            "AVG_POOL2D": self._pool,
            "RESCALE": self._rescale,
            "CLAMP": self._unary,
            "TABLE": self._unary,
            "RESHAPE": self._view,
            "IDENTITY": self._view,
            "SLICE": self._view,
            "TRANSPOSE": self._transpose,
            "PAD": self._pad,
            **dict.fromkeys(_ALU, self._binary),
        }
        if op.kind not in handlers:
            raise CompileError(
                f"operator {op.kind} has no implementation on the device",
                node=op.name,
                source=op.source,
                hint=f"supported: {', '.join(sorted(handlers))}",
            )
        return handlers[op.kind]

    # Views ------------------------------------------------------------------------------------

    def _view(self, op: Op) -> None:
        if not self.storage.alias(op):
            # A reshape of a strided piece: its elements must be made contiguous first.
            self._copy(op.inputs[0], op)
            self.storage.alias(op)

    def _copy(self, name: str, op: Op) -> None:
        copied = self.storage.add_copy(name)
        self._move(name, copied, f"{op.name}.copy", op.source)
        self.storage.redirect(name, copied)

    def _move(
        self, name: str, root: str, label: str, source: str, perms: tuple[int, ...] = ()
    ) -> None:
        """A layer that writes tensor `name`, its dimensions permuted, densely to `root`."""
        offset, shape, strides, tensor = self.storage.four(name, perms)
        self.layers.append(
            MoveLayer(
                name=label,
                output=dense(root, self.graph.tensors[name].dtype, shape),
                ops=("TRANSPOSE" if perms else "IDENTITY",),
                source=source,
                tensor=tensor,
                offset=offset,
                source_shape=shape,
                source_strides=strides,
            )
        )

    def _transpose(self, op: Op) -> None:
        root = self.storage.add(op.outputs[0])
        self._move(op.inputs[0], root, op.name, op.source, tuple(op.attributes["perms"]))

    def _pad(self, op: Op) -> None:
        tensor = self.graph.tensors[op.inputs[0]]
        if len(tensor.shape) > 4:
            raise CompileError(
                f"PAD of rank {len(tensor.shape)} is not implemented on the device",
                node=op.name,
                source=op.source,
                hint="pad a tensor of rank 4 or less",
            )
        pads = [int(v) for v in self.graph.constant(op.inputs[1])]
        befores = [0] * (4 - len(tensor.shape)) + pads[0::2]
        view = self.storage.view(op.inputs[0], to_nhwc(tensor.shape))
        out = op.outputs[0]
        self.layers.append(
            MoveLayer(
                name=op.name,
                output=self._output(out, to_nhwc(self.graph.tensors[out].shape)),
                ops=("PAD",),
                source=op.source,
                tensor=view.tensor,
                offset=view.offset,
                source_shape=view.shape,
                source_strides=(*view.strides, view.item),
                before=(befores[0], befores[1], befores[2], befores[3]),
                value=self._int(op.inputs[2]),
            )
        )

    def _own_output(self, name: str) -> None:
        """Give graph output `name` its own place in the output region, by a copy if need be."""
        if self.storage.claim_output(name):
            return
        self._move(name, self.storage.add_output(name), f"{name}.output", "")

    # Chains -----------------------------------------------------------------------------------

    def _next(self, name: str, *kinds: str) -> Op | None:
        """The only reader of tensor `name`, if it is one of `kinds` and nobody else sees it."""
        users = self.users[name]
        if len(users) != 1 or name in self.graph.outputs or users[0].kind not in kinds:
            return None
        op = users[0]
        return op if op.inputs[0] == name and id(op) not in self.done else None

    def _absorb(self, op: Op, names: list[str]) -> str:
        self.done.add(id(op))
        names.append(op.kind)
        return op.outputs[0]

    def _int(self, name: str) -> int:
        return int(self.graph.constant(name).reshape(-1)[0])

    def _rescale_values(self, op: Op) -> dict[str, Any]:
        """Epilogue fields of a RESCALE: multiplier, shift, zero point, range, type."""
        name = op.outputs[0]
        kinds = UNSIGNED if op.attributes["output_unsigned"] else DTYPE
        kind = kinds[self.graph.tensors[name].dtype]
        low, high = RANGES[kind]
        return {
            "multiplier": self.graph.constant(op.inputs[1]).astype(np.int64),
            "shift": self.graph.constant(op.inputs[2]).astype(np.int64),
            "zero_point": self._zero_point(op.inputs[4], op.attributes["output_unsigned"]),
            "low": low,
            "high": high,
            "dtype": kind,
        }

    def _zero_point(self, name: str, unsigned: bool) -> int:
        value = self._int(name)
        if unsigned and value < 0:
            value += {"int8": 256, "int16": 65536}.get(self.graph.tensors[name].dtype, 0)
        return value

    def _clamps(self, name: str, epilogue: Epilogue, names: list[str]) -> tuple[str, Epilogue]:
        """Fold the CLAMPs and one TABLE that follow `name` into the epilogue."""
        if epilogue.dtype not in (DType.I8, DType.I16):
            return name, epilogue
        while (op := self._next(name, "CLAMP")) is not None:
            low, high = op.attributes["min_val"], op.attributes["max_val"]
            epilogue = replace(
                epilogue,
                low=min(max(epilogue.low, low), high),
                high=max(min(epilogue.high, high), low),
            )
            name = self._absorb(op, names)
        if epilogue.dtype is DType.I8 and (op := self._next(name, "TABLE")) is not None:
            epilogue = replace(epilogue, table=self.graph.constant(op.inputs[1]))
            name = self._absorb(op, names)
        return name, epilogue

    def _after_int32(self, name: str, names: list[str], **values: Any) -> tuple[str, Epilogue]:
        """The epilogue of int32 tensor `name`: RESCALE, CLAMPs, TABLE, as far as they follow."""
        op = self._next(name, "RESCALE")
        if op is None:
            return name, Epilogue(dtype=DType.I32, low=INT32[0], high=INT32[1], **values)
        name = self._absorb(op, names)
        return self._clamps(name, Epilogue(**self._rescale_values(op), **values), names)

    def _output(self, name: str, shape: tuple[int, int, int, int]) -> View:
        return dense(self.storage.add(name), self.graph.tensors[name].dtype, shape)

    # Layers -----------------------------------------------------------------------------------

    def _conv2d(self, op: Op) -> None:
        x, weight, bias, x_zp, w_zp = op.inputs
        if not self.graph.tensors[weight].is_constant or not self.graph.tensors[bias].is_constant:
            raise CompileError(
                "CONV2D needs constant weights and bias",
                node=op.name,
                source=op.source,
                hint="use MATMUL for a product of two run-time tensors",
            )
        names = [op.kind]
        oc = self.graph.tensors[op.outputs[0]].shape[3]
        bias_data = np.broadcast_to(self.graph.constant(bias), (oc,)).astype(np.int32)
        out, epilogue = self._after_int32(op.outputs[0], names, bias=bias_data)
        top, _, left, _ = op.attributes["pad"]
        shape = self.graph.tensors[x].shape
        view = self.storage.view(x, (shape[0], shape[1], shape[2], shape[3]))
        kernel = self.graph.tensors[weight].shape[1:3]
        stride = op.attributes["stride"]
        target = self._output(out, to_nhwc(self.graph.tensors[op.outputs[0]].shape))
        if kernel == (1, 1) and op.attributes["pad"] == (0, 0, 0, 0):
            view, stride = _subsample(view, target, stride), (1, 1)
        self.layers.append(
            ConvLayer(
                name=op.name,
                output=target,
                ops=tuple(names),
                source=op.source,
                input=view,
                epilogue=epilogue,
                kernel=(kernel[0], kernel[1]),
                stride=stride,
                dilation=op.attributes["dilation"],
                pad=(top, left),
                input_zp=self._int(x_zp),
                weight_zp=self._int(w_zp),
                weights=self.graph.constant(weight),
            )
        )

    def _matmul(self, op: Op) -> None:
        a, b, a_zp, b_zp = op.inputs
        n, h, k = self.graph.tensors[a].shape
        w = self.graph.tensors[b].shape[2]
        names = [op.kind]
        out, epilogue = self._after_int32(op.outputs[0], names)
        self.layers.append(
            ConvLayer(
                name=op.name,
                output=self._output(out, (n, h, 1, w)),
                ops=tuple(names),
                source=op.source,
                input=self.storage.view(a, (n, h, 1, k)),
                epilogue=epilogue,
                input_zp=self._int(a_zp),
                weight_zp=self._int(b_zp),
                weight_view=self.storage.view(b, (n, k, 1, w)),
            )
        )

    def _pool(self, op: Op) -> None:
        x = op.inputs[0]
        n, h, w, c = self.graph.tensors[x].shape
        average = op.kind == "AVG_POOL2D"
        kind = DTYPE[self.graph.tensors[x].dtype]
        low, high = RANGES[kind]
        zero_point = self._int(op.inputs[2]) if average else 0
        epilogue = Epilogue(dtype=kind, low=low, high=high, zero_point=zero_point)
        names = [op.kind]
        shape = to_nhwc(self.graph.tensors[op.outputs[0]].shape)
        out, epilogue = self._clamps(op.outputs[0], epilogue, names)
        top, _, left, _ = op.attributes["pad"]
        self.layers.append(
            PoolLayer(
                name=op.name,
                output=self._output(out, shape),
                ops=tuple(names),
                source=op.source,
                input=self.storage.view(x, (n, h, w, c)),
                epilogue=epilogue,
                average=average,
                kernel=op.attributes["kernel"],
                stride=op.attributes["stride"],
                pad=(top, left),
                input_zp=self._int(op.inputs[1]) if average else 0,
            )
        )

    # Elementwise ------------------------------------------------------------------------------

    def _delay_operand_rescales(self) -> None:
        """RESCALEs that only feed a binary operator become part of that operator's layer."""
        for op in self.graph.ops:
            if op.kind in _ALU:
                for name in set(op.inputs):
                    if (source := self._operand_rescale(name)) is not None:
                        self.done.add(id(source))

    def _operand_rescale(self, name: str) -> Op | None:
        source = self.producers.get(name)
        if source is None or source.kind != "RESCALE" or name in self.graph.outputs:
            return None
        if source.attributes["per_channel"] or any(u.kind not in _ALU for u in self.users[name]):
            return None
        before = self.producers.get(source.inputs[0])
        if before is not None and self._fuses_rescale(before, source):
            return None
        return source

    def _fuses_rescale(self, before: Op, rescale: Op) -> bool:
        """Whether the RESCALE belongs to the layer of the operator before it."""
        products = ("CONV2D", "MATMUL", *_ALU)
        return before.kind in products and self._next(before.outputs[0], "RESCALE") is rescale

    def _operand(self, name: str, shape: tuple[int, int, int, int]) -> Operand:
        source = self._operand_rescale(name)
        if source is None:
            kind = DTYPE[self.graph.tensors[name].dtype]
            return Operand(view=self.storage.view(name, shape), dtype=kind)
        unsigned = source.attributes["input_unsigned"]
        inner = source.inputs[0]
        kind = (UNSIGNED if unsigned else DTYPE)[self.graph.tensors[inner].dtype]
        return Operand(
            view=self.storage.view(inner, shape),
            dtype=kind,
            zero_point=self._zero_point(source.inputs[3], unsigned),
            multiplier=int(self.graph.constant(source.inputs[1])[0]),
            shift=int(self.graph.constant(source.inputs[2])[0]),
        )

    def _binary(self, op: Op) -> None:
        shapes = [self.graph.tensors[i].shape for i in op.inputs]
        if shapes[0] != shapes[1]:
            raise CompileError(
                f"{op.kind} of {list(shapes[0])} and {list(shapes[1])}: broadcasting is not "
                "implemented on the device",
                node=op.name,
                source=op.source,
                hint="make both operands the same shape",
            )
        names = [op.kind]
        shape = to_nhwc(shapes[0])
        a, b = (self._operand(i, shape) for i in op.inputs)
        out, epilogue = self._after_int32(op.outputs[0], names)
        self.layers.append(
            ElementwiseLayer(
                name=op.name,
                output=self._output(out, shape),
                ops=tuple(names),
                source=op.source,
                a=a,
                b=b,
                alu=_ALU[op.kind],
                epilogue=epilogue,
            )
        )

    def _rescale(self, op: Op) -> None:
        names = [op.kind]
        shape = to_nhwc(self.graph.tensors[op.inputs[0]].shape)
        unsigned = op.attributes["input_unsigned"]
        kind = (UNSIGNED if unsigned else DTYPE)[self.graph.tensors[op.inputs[0]].dtype]
        epilogue = Epilogue(**self._rescale_values(op))
        out, epilogue = self._clamps(op.outputs[0], epilogue, names)
        a = Operand(
            view=self.storage.view(op.inputs[0], shape),
            dtype=kind,
            zero_point=self._zero_point(op.inputs[3], unsigned),
        )
        self._append_unary(op, names, a, out, epilogue)

    def _unary(self, op: Op) -> None:
        """A CLAMP or TABLE that no layer before it could take."""
        names: list[str] = []
        tensor = self.graph.tensors[op.inputs[0]]
        kind = DTYPE[tensor.dtype]
        low, high = RANGES[kind]
        epilogue = Epilogue(dtype=kind, low=low, high=high)
        if op.kind == "CLAMP":
            epilogue = replace(
                epilogue,
                low=max(low, op.attributes["min_val"]),
                high=min(high, op.attributes["max_val"]),
            )
            names.append(op.kind)
            out, epilogue = self._clamps(op.outputs[0], epilogue, names)
        else:
            epilogue = replace(epilogue, table=self.graph.constant(op.inputs[1]))
            out = self._absorb(op, names)
        a = Operand(view=self.storage.view(op.inputs[0], to_nhwc(tensor.shape)), dtype=kind)
        self._append_unary(op, names, a, out, epilogue)

    def _append_unary(
        self, op: Op, names: list[str], a: Operand, out: str, epilogue: Epilogue
    ) -> None:
        self.layers.append(
            ElementwiseLayer(
                name=op.name,
                output=self._output(out, a.view.shape),
                ops=tuple(names),
                source=op.source,
                a=a,
                epilogue=epilogue,
            )
        )


def _subsample(view: View, target: View, stride: tuple[int, int]) -> View:
    """The pixels of `view` that a 1x1 kernel with `stride` reads."""
    n, _, _, c = view.shape
    _, oh, ow, _ = target.shape
    s0, s1, s2 = view.strides
    return replace(view, shape=(n, oh, ow, c), strides=(s0, s1 * stride[0], s2 * stride[1]))


def lower(graph: Graph) -> LayerProgram:
    """Layers of `graph`; `CompileError` on an operator that the device lacks."""
    return Lowering(graph).run()
