"""Lowering of products: CONV2D, DEPTHWISE_CONV2D and MATMUL with all that follows them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.isa import DType
from spec.numerics import RANGES
from sw.compiler.kernels.depthwise.geometry import MAX_STEP
from sw.compiler.kernels.layers import ConvLayer, DepthwiseLayer, Epilogue, Residual, RowFactor
from sw.compiler.kernels.views import View, to_nhwc, view_of
from sw.compiler.lower.runtime_weights import RuntimeOperands
from sw.compiler.tosa.graph import Op


class ProductLowering(RuntimeOperands):
    """Handlers that each add the layers of one product."""

    def conv2d(self, op: Op) -> None:
        """CONV2D, or as a product of pixels where the kernel is 1 x 1."""
        view, stride = self.image(op.inputs[0]), op.attributes["stride"]
        _, kh, kw, _ = self.graph.tensors[op.inputs[1]].shape
        if (kh, kw) == (1, 1) and op.attributes["pad"] == (0, 0, 0, 0):
            out = self.graph.tensors[op.outputs[0]].shape
            view, stride = _subsample(view, (out[1], out[2]), stride), (1, 1)
        top, _, left, _ = op.attributes["pad"]
        self.convolution(
            op,
            view,
            (kh, kw),
            stride=stride,
            dilation=op.attributes["dilation"],
            pad=(top, left),
        )

    def convolution(
        self,
        op: Op,
        view: View,
        kernel: tuple[int, int],
        *,
        arranged: Callable[[NDArray[Any]], NDArray[Any]] = lambda weights: weights,
        perms: tuple[int, ...] = (3, 1, 2, 0),
        **values: Any,
    ) -> None:
        """The ConvLayer of `op` over `view`.

        `arranged`: the constant weights as OHWI. Those of run time are brought into the order
        `perms`. `values`: stride, dilation and pad of the layer.
        """
        names, target, epilogue, residual = self._weighted(op)
        weight, later = op.inputs[1], self.is_runtime(op.inputs[1])
        self.layers.append(
            ConvLayer(
                name=op.name,
                output=target,
                ops=tuple(names),
                source=op.source,
                input=view,
                epilogue=self._biased(op, epilogue),
                kernel=kernel,
                input_zp=self.fusion.integer(op.inputs[3]),
                weight_zp=self.fusion.integer(op.inputs[4]),
                weights=None if later else arranged(self.graph.constant(weight)),
                weight_view=self.conv_weights(op, weight, perms) if later else None,
                residual=residual,
                **values,
            )
        )

    def _weighted(self, op: Op) -> tuple[list[str], View, Epilogue, Residual | RowFactor | None]:
        """`_product` of a convolution."""
        bias, shape = op.inputs[2], self.graph.tensors[op.outputs[0]].shape
        if self.is_runtime(bias):
            return self._product(op, to_nhwc(shape))
        values = np.broadcast_to(self.graph.constant(bias), shape[-1:]).astype(np.int32)
        return self._product(op, to_nhwc(shape), bias=values)

    def _biased(self, op: Op, epilogue: Epilogue, outs: tuple[int, int] | None = None) -> Epilogue:
        """The epilogue of output channels `outs` with a bias that is known at run time."""
        if not self.is_runtime(op.inputs[2]):
            return epilogue
        start, stop = outs or (0, self.graph.tensors[op.outputs[0]].shape[-1])
        label = f"{op.outputs[0]}.{start}"
        return self.packed(op, epilogue, self.storage.get(op.inputs[2]), (start, stop), label)

    def _product(
        self, op: Op, shape: tuple[int, int, int, int], **values: Any
    ) -> tuple[list[str], View, Epilogue, Residual | RowFactor | None]:
        """(operators, output, epilogue, what it also reads) of a product and what follows it.

        `shape`: of its result as NHWC; `values`: fields of the epilogue.
        """
        names = [op.kind]
        found = self.fusion.sum_of.get(id(op))
        several = found is None and op.kind in ("CONV2D", "CONV3D", "MATMUL")
        several = several and (op.kind == "MATMUL" or not self.is_runtime(op.inputs[2]))
        factor = self._factor(op, shape) if several else None
        if factor is not None:
            return self._multiplied(op, factor, shape, names, values)
        out, epilogue = self.fusion.after_int32(op.outputs[0], names, several=several, **values)
        if found is None:
            return names, self.product(out, shape), epilogue, None
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
        return names, self.product(out, shape), epilogue, residual

    def _factor(self, op: Op, shape: tuple[int, int, int, int]) -> RowFactor | None:
        """The MUL behind a product by one element a row, if that is in memory already."""
        mul = self.fusion.next(op.outputs[0], "MUL")
        if mul is None:
            return None
        name = self.fusion.other(mul, op.outputs[0])
        before, rows = (self.graph.tensors[n].shape for n in (op.outputs[0], name))
        if rows != (*before[:-1], 1) or name not in self.storage.placed:
            return None
        operand = self.operand(name, (*shape[:3], 1))
        return RowFactor(operand=operand, shift=self.fusion.integer(mul.inputs[2]))

    def _multiplied(
        self,
        op: Op,
        factor: RowFactor,
        shape: tuple[int, int, int, int],
        names: list[str],
        values: dict[str, Any],
    ) -> tuple[list[str], View, Epilogue, RowFactor]:
        """`_product` with a factor; a sum with a constant per channel is a pass of its own."""
        (mul,) = self.fusion.users[op.outputs[0]]
        out = self.fusion.absorb(mul, names)
        add = self.fusion.next(out, "ADD")
        bias = None if add is None else self._per_channel(self.fusion.other(add, out), shape[3])
        if add is not None and bias is not None:
            low, high = RANGES[DType.I32]
            first = Epilogue(dtype=DType.I32, low=low, high=high, **values)
            values = {"bias": bias, "first": first}
            out = self.fusion.absorb(add, names)
        out, epilogue = self.fusion.after_int32(out, names, several=True, **values)
        return names, self.product(out, shape), epilogue, factor

    def _per_channel(self, name: str, channels: int) -> NDArray[np.int32] | None:
        """A constant of one element for each channel, or for all of them."""
        tensor = self.graph.tensors[name]
        if not tensor.is_constant or tensor.size not in (1, channels):
            return None
        if tensor.shape[-1:] not in ((1,), (channels,)):
            return None
        return np.broadcast_to(self.graph.constant(name).reshape(-1), (channels,)).astype(np.int32)

    def depthwise_conv2d(self, op: Op) -> None:
        """DEPTHWISE_CONV2D on its engine, or as products where that cannot do it."""
        names, target, epilogue, residual = self._weighted(op)
        assert not isinstance(residual, RowFactor)
        stride, dilation = op.attributes["stride"], op.attributes["dilation"]
        top, _, left, _ = op.attributes["pad"]
        weight, later = op.inputs[1], self.is_runtime(op.inputs[1])
        kh, kw, c, multiplier = self.graph.tensors[weight].shape
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
        engine = self.config.depthwise and max(*stride, *dilation) <= MAX_STEP
        if not engine or (multiplier > 1 and not later):
            self._grouped(op, view, target, epilogue, residual, shared)
            return
        if multiplier > 1:
            view = self.repeated(op, op.inputs[0], multiplier)
        constant = None if later else self.graph.constant(weight)
        self.layers.append(
            DepthwiseLayer(
                name=op.name,
                output=target,
                input=view,
                epilogue=self._biased(op, epilogue),
                weights=None if constant is None else np.ascontiguousarray(constant[..., 0]),
                weight_view=self.view(weight, (1, kh, kw, c * multiplier)) if later else None,
                residual=residual,
                **shared,
            )
        )

    def _grouped(
        self,
        op: Op,
        view: View,
        target: View,
        epilogue: Epilogue,
        residual: Residual | None,
        shared: dict[str, Any],
    ) -> None:
        """A depthwise convolution as products: blocks of channels with block-diagonal weights."""
        weight, later = op.inputs[1], self.is_runtime(op.inputs[1])
        kh, kw, c, multiplier = self.graph.tensors[weight].shape
        zero_point = shared["weight_zp"]
        step = max(1, min(self.config.rows, self.config.cols // multiplier))
        for c0 in range(0, c, step):
            c1 = min(c0 + step, c)
            outs = slice(c0 * multiplier, c1 * multiplier)
            constant = None if later else self.graph.constant(weight)[:, :, c0:c1]
            self.layers.append(
                ConvLayer(
                    name=op.name if step >= c else f"{op.name}.c{c0}",
                    output=target.channels(outs),
                    input=view.channels(slice(c0, c1)),
                    epilogue=self._biased(op, epilogue.channels(outs), (outs.start, outs.stop)),
                    kernel=(kh, kw),
                    weights=None if constant is None else _diagonal(constant, zero_point),
                    weight_view=(
                        self.diagonal_weights(op, weight, c0, c1, zero_point) if later else None
                    ),
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
        weights = self._columns(b, n, k, w)
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
                weight_view=self.view(b, (n, k, 1, w)) if weights is None else weights,
                transposed=weights is not None,
                residual=residual,
            )
        )

    def _columns(self, name: str, n: int, k: int, w: int) -> View | None:
        """Weights [n, k, w] as [n, w, 1, k], if only their columns can be read as they lie."""
        if not self.config.transposed_weights or self.storage.fits(name, (n, k, 1, w)):
            return None
        placed = self.storage.get(name)
        dtype = self.graph.tensors[name].dtype
        return view_of(placed.permuted((0, 2, 1)), dtype, (n, w, 1, k))


def _subsample(view: View, size: tuple[int, int], stride: tuple[int, int]) -> View:
    """The pixels of `view` that a 1x1 kernel with `stride` reads for `size` outputs."""
    n, _, _, c = view.shape
    oh, ow = size
    s0, s1, s2 = view.strides
    return replace(view, shape=(n, oh, ow, c), strides=(s0, s1 * stride[0], s2 * stride[1]))


def _diagonal(weights: NDArray[np.int8], zero_point: int) -> NDArray[np.int8]:
    """[KH,KW,C,M] weights as a product's; off the diagonal the zero point, which counts as zero."""
    kh, kw, c, multiplier = weights.shape
    dense = np.full((c, multiplier, kh, kw, c), zero_point, np.int8)
    own = np.arange(c)
    dense[own, :, :, :, own] = weights.transpose(2, 3, 0, 1)
    return dense.reshape(-1, kh, kw, c)
