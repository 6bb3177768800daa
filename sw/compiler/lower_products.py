"""Lowering of products: CONV2D, DEPTHWISE_CONV2D and MATMUL with all that follows them."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.depthwise import MAX_STEP
from sw.compiler.errors import CompileError
from sw.compiler.layers import ConvLayer, DepthwiseLayer, Epilogue, Residual, View
from sw.compiler.lower_base import LayerBuilder
from sw.compiler.storage import to_nhwc
from sw.compiler.tosa import Op


class ProductLowering(LayerBuilder):
    """Handlers that each add the layers of one product."""

    def conv2d(self, op: Op) -> None:
        """CONV2D, or as a product of pixels where the kernel is 1 x 1."""
        names, target, epilogue, residual = self._weighted(op)
        view = self.image(op.inputs[0])
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
            return names, self.output(out, shape), epilogue, None
        operand = self.operand(found.other, shape)
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
        return names, self.output(out, shape), epilogue, residual

    def depthwise_conv2d(self, op: Op) -> None:
        """DEPTHWISE_CONV2D on its engine, or as products where that cannot do it."""
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
        view = self.image(op.inputs[0])
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

    def matmul(self, op: Op) -> None:
        """MATMUL: a convolution with 1 x 1 kernel whose weights are a tensor."""
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
                input=self.view(a, (n, h, 1, k)),
                epilogue=epilogue,
                input_zp=self.fusion.integer(a_zp),
                weight_zp=self.fusion.integer(b_zp),
                weight_view=self.view(b, (n, k, 1, w)),
                residual=residual,
            )
        )


def _subsample(view: View, target: View, stride: tuple[int, int]) -> View:
    """The pixels of `view` that a 1x1 kernel with `stride` reads."""
    n, _, _, c = view.shape
    _, oh, ow, _ = target.shape
    s0, s1, s2 = view.strides
    return replace(view, shape=(n, oh, ow, c), strides=(s0, s1 * stride[0], s2 * stride[1]))
