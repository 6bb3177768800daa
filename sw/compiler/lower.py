"""Stage `lower`: the TOSA graph becomes layers; everything that follows a product is fused into it.

A layer is CONV2D, DEPTHWISE_CONV2D or MATMUL + RESCALE + CLAMP + TABLE, a pooling + CLAMP + TABLE,
or RESCALE x 2 + ADD (SUB, MAXIMUM, MINIMUM) + RESCALE + CLAMP + TABLE. Only values that nobody else
reads are fused away.
RESHAPE, IDENTITY and SLICE become views.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.numerics import RANGES
from sw.compiler.depthwise import MAX_STEP
from sw.compiler.errors import CompileError
from sw.compiler.fusion import ALU, Fusion
from sw.compiler.layers import (
    DTYPE,
    UNSIGNED,
    ConvLayer,
    DepthwiseLayer,
    ElementwiseLayer,
    Epilogue,
    Layer,
    LayerProgram,
    MoveLayer,
    Operand,
    PoolLayer,
    Residual,
    View,
    dense,
)
from sw.compiler.storage import Storage, to_nhwc
from sw.compiler.tosa import Graph, Op


class Lowering:
    """Walks the operators in order; those that an earlier layer has absorbed are passed over."""

    def __init__(self, graph: Graph, config: NpuConfig) -> None:
        self.graph, self.config = graph, config
        self.fusion = Fusion(graph)
        self.storage = Storage(graph)
        self.layers: list[Layer] = []

    def run(self) -> LayerProgram:
        """The layers of the whole graph; `CompileError` names the operator that has none."""
        for op in self.graph.ops:
            # A product that a sum follows waits for the sum's other operand.
            if id(op) not in self.fusion.done and id(op) not in self.fusion.deferred:
                self._handler(op)(op)
        for out in self.graph.outputs:
            self._own_output(out)
        return LayerProgram(layers=tuple(self.layers), storage=self.storage)

    def _handler(self, op: Op) -> Callable[[Op], None]:
        handlers: dict[str, Callable[[Op], None]] = {
            "CONV2D": self._conv2d,
            "DEPTHWISE_CONV2D": self._depthwise_conv2d,
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
            **dict.fromkeys(ALU, self._binary),
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
                value=self.fusion.integer(op.inputs[2]),
            )
        )

    def _own_output(self, name: str) -> None:
        """Give graph output `name` its own place in the output region, by a copy if need be."""
        if self.storage.claim_output(name):
            return
        self._move(name, self.storage.add_output(name), f"{name}.output", "")

    def _output(self, name: str, shape: tuple[int, int, int, int]) -> View:
        return dense(self.storage.add(name), self.graph.tensors[name].dtype, shape)

    # Layers -----------------------------------------------------------------------------------

    def _conv2d(self, op: Op) -> None:
        names, target, epilogue, residual = self._weighted(op)
        view = self._image(op.inputs[0])
        kernel = self.graph.tensors[op.inputs[1]].shape[1:3]
        stride = op.attributes["stride"]
        if kernel == (1, 1) and op.attributes["pad"] == (0, 0, 0, 0):
            view, stride = _subsample(view, target, stride), (1, 1)
        top, _, left, _ = op.attributes["pad"]
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
                input_zp=self.fusion.integer(op.inputs[3]),
                weight_zp=self.fusion.integer(op.inputs[4]),
                weights=self.graph.constant(op.inputs[1]),
                residual=residual,
            )
        )

    def _weighted(self, op: Op) -> tuple[list[str], View, Epilogue, Residual | None]:
        """`_product` of a convolution."""
        _, weight, bias, _, _ = op.inputs
        if not self.graph.tensors[weight].is_constant or not self.graph.tensors[bias].is_constant:
            raise CompileError(
                f"{op.kind} needs constant weights and bias",
                node=op.name,
                source=op.source,
                hint="use MATMUL for a product of two run-time tensors",
            )
        shape = self.graph.tensors[op.outputs[0]].shape
        values = np.broadcast_to(self.graph.constant(bias), shape[3:]).astype(np.int32)
        return self._product(op, to_nhwc(shape), bias=values)

    def _product(
        self, op: Op, shape: tuple[int, int, int, int], **values: Any
    ) -> tuple[list[str], View, Epilogue, Residual | None]:
        """(operators, output, epilogue, residual) of a product and of what follows it.

        `shape`: of its result as NHWC; `values`: fields of the epilogue.
        """
        names = [op.kind]
        out, epilogue = self.fusion.after_int32(op.outputs[0], names, **values)
        found = self.fusion.sum_of.get(id(op))
        if found is None:
            return names, self._output(out, shape), epilogue, None
        operand = self._operand(found.other, shape)
        out, last = self.fusion.after_int32(self.fusion.absorb(found.add, names), names)
        residual = Residual(
            operand=operand,
            low=epilogue.low - epilogue.zero_point,
            high=epilogue.high - epilogue.zero_point,
            shift_left=found.shift_left,
            multiplier=0 if last.multiplier is None else int(last.multiplier[0]),
            shift=0 if last.shift is None else int(last.shift[0]),
        )
        epilogue = replace(
            last, bias=epilogue.bias, multiplier=epilogue.multiplier, shift=epilogue.shift
        )
        return names, self._output(out, shape), epilogue, residual

    def _image(self, name: str) -> View:
        n, h, w, c = self.graph.tensors[name].shape
        return self.storage.view(name, (n, h, w, c))

    def _depthwise_conv2d(self, op: Op) -> None:
        names, target, epilogue, residual = self._weighted(op)
        stride, dilation = op.attributes["stride"], op.attributes["dilation"]
        top, _, left, _ = op.attributes["pad"]
        weights = self.graph.constant(op.inputs[1])
        shared: dict[str, Any] = {
            "ops": tuple(names),
            "source": op.source,
            "stride": stride,
            "dilation": dilation,
            "pad": (top, left),
            "input_zp": self.fusion.integer(op.inputs[3]),
            "weight_zp": self.fusion.integer(op.inputs[4]),
        }
        view = self._image(op.inputs[0])
        if self.config.depthwise and weights.shape[3] == 1 and max(*stride, *dilation) <= MAX_STEP:
            self.layers.append(
                DepthwiseLayer(
                    name=op.name,
                    output=target,
                    input=view,
                    epilogue=epilogue,
                    weights=np.ascontiguousarray(weights[..., 0]),
                    residual=residual,
                    **shared,
                )
            )
        else:
            self._grouped(op.name, view, target, weights, epilogue, residual, shared)

    def _grouped(
        self,
        name: str,
        view: View,
        target: View,
        weights: NDArray[np.int8],
        epilogue: Epilogue,
        residual: Residual | None,
        shared: dict[str, Any],
    ) -> None:
        """A depthwise convolution as products: blocks of channels with block-diagonal weights."""
        kh, kw, c, multiplier = weights.shape
        step = max(1, min(self.config.rows, self.config.cols // multiplier))
        for c0 in range(0, c, step):
            c1 = min(c0 + step, c)
            # Off the diagonal the zero point, which counts as zero.
            dense = np.full((c1 - c0, multiplier, kh, kw, c1 - c0), shared["weight_zp"], np.int8)
            own = np.arange(c1 - c0)
            dense[own, :, :, :, own] = weights[:, :, c0:c1].transpose(2, 3, 0, 1)
            outs = slice(c0 * multiplier, c1 * multiplier)
            self.layers.append(
                ConvLayer(
                    name=name if step >= c else f"{name}.c{c0}",
                    output=target.channels(outs),
                    input=view.channels(slice(c0, c1)),
                    epilogue=epilogue.channels(outs),
                    kernel=(kh, kw),
                    weights=dense.reshape(-1, kh, kw, c1 - c0),
                    residual=residual and residual.channels(outs),
                    **shared,
                )
            )

    def _matmul(self, op: Op) -> None:
        a, b, a_zp, b_zp = op.inputs
        n, h, k = self.graph.tensors[a].shape
        w = self.graph.tensors[b].shape[2]
        names, target, epilogue, residual = self._product(op, (n, h, 1, w))
        self.layers.append(
            ConvLayer(
                name=op.name,
                output=target,
                ops=tuple(names),
                source=op.source,
                input=self.storage.view(a, (n, h, 1, k)),
                epilogue=epilogue,
                input_zp=self.fusion.integer(a_zp),
                weight_zp=self.fusion.integer(b_zp),
                weight_view=self.storage.view(b, (n, k, 1, w)),
                residual=residual,
            )
        )

    def _pool(self, op: Op) -> None:
        x = op.inputs[0]
        average = op.kind == "AVG_POOL2D"
        kind = DTYPE[self.graph.tensors[x].dtype]
        low, high = RANGES[kind]
        zero_point = self.fusion.integer(op.inputs[2]) if average else 0
        epilogue = Epilogue(dtype=kind, low=low, high=high, zero_point=zero_point)
        names = [op.kind]
        shape = to_nhwc(self.graph.tensors[op.outputs[0]].shape)
        out, epilogue = self.fusion.clamps(op.outputs[0], epilogue, names)
        top, _, left, _ = op.attributes["pad"]
        self.layers.append(
            PoolLayer(
                name=op.name,
                output=self._output(out, shape),
                ops=tuple(names),
                source=op.source,
                input=self._image(x),
                epilogue=epilogue,
                average=average,
                kernel=op.attributes["kernel"],
                stride=op.attributes["stride"],
                pad=(top, left),
                input_zp=self.fusion.integer(op.inputs[1]) if average else 0,
            )
        )

    # Elementwise ------------------------------------------------------------------------------

    def _operand(self, name: str, shape: tuple[int, int, int, int]) -> Operand:
        source = self.fusion.operand_rescales.get(name)
        if source is None:
            kind = DTYPE[self.graph.tensors[name].dtype]
            return Operand(view=self.storage.view(name, shape), dtype=kind)
        unsigned = source.attributes["input_unsigned"]
        inner = source.inputs[0]
        kind = (UNSIGNED if unsigned else DTYPE)[self.graph.tensors[inner].dtype]
        return Operand(
            view=self.storage.view(inner, shape),
            dtype=kind,
            zero_point=self.fusion.zero_point(source.inputs[3], unsigned),
            multiplier=int(self.graph.constant(source.inputs[1])[0]),
            shift=int(self.graph.constant(source.inputs[2])[0]),
        )

    def _binary(self, op: Op) -> None:
        if (found := self.fusion.sum_at.get(id(op))) is not None:
            self._handler(found.product)(found.product)
            return
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
        out, epilogue = self.fusion.after_int32(op.outputs[0], names)
        self.layers.append(
            ElementwiseLayer(
                name=op.name,
                output=self._output(out, shape),
                ops=tuple(names),
                source=op.source,
                a=a,
                b=b,
                alu=ALU[op.kind],
                epilogue=epilogue,
            )
        )

    def _rescale(self, op: Op) -> None:
        names = [op.kind]
        shape = to_nhwc(self.graph.tensors[op.inputs[0]].shape)
        unsigned = op.attributes["input_unsigned"]
        kind = (UNSIGNED if unsigned else DTYPE)[self.graph.tensors[op.inputs[0]].dtype]
        epilogue = Epilogue(**self.fusion.rescale_values(op))
        out, epilogue = self.fusion.clamps(op.outputs[0], epilogue, names)
        a = Operand(
            view=self.storage.view(op.inputs[0], shape),
            dtype=kind,
            zero_point=self.fusion.zero_point(op.inputs[3], unsigned),
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
            out, epilogue = self.fusion.clamps(op.outputs[0], epilogue, names)
        else:
            epilogue = replace(epilogue, table=self.graph.constant(op.inputs[1]))
            out = self.fusion.absorb(op, names)
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


def lower(graph: Graph, config: NpuConfig) -> LayerProgram:
    """Layers of `graph` for `config`; `CompileError` on an operator that the device lacks."""
    return Lowering(graph, config).run()
