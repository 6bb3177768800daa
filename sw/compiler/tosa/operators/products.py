"""Rules of convolutions, MATMUL and the pools (TOSA 1.0, section 2.2)."""

from sw.compiler.tosa.operators.checker import Checker, Shape


def _window(c: Checker, axis: str, size: int, pads: int, reach: int, stride: int) -> int:
    steps, rest = divmod(size - 1 + pads - reach, stride)
    c.require(
        rest == 0 and steps >= 0,
        f"{axis}: {size} - 1 + padding {pads} - {reach} must be a multiple >= 0 of {stride}",
        "TOSA wants exact sizes: lower the padding at the end, or SLICE the input",
    )
    return steps + 1


def _operands(c: Checker, channels: int, weight_channels: int, oc: int) -> None:
    """Types, bias, zero points and accumulator of any convolution."""
    c.require(
        weight_channels == channels,
        f"weight {list(c['weight'].shape)} has {weight_channels} input channels, "
        f"input has {channels}",
    )
    c.dtype("input", "int8")
    c.dtype("weight", "int8")
    c.dtype("bias", "int32")
    bias = c.rank("bias", 1)
    c.require(bias in ((oc,), (1,)), f"bias {list(bias)} must be [{oc}] or [1]")
    c.zero_point("input_zp", "int8")
    c.zero_point("weight_zp", "int8")
    _accumulator(c)


def _accumulator(c: Checker) -> None:
    acc = c.op.attributes["acc_type"]
    c.require(acc == "int32", f"acc_type={acc}: must be int32 for int8 operands")


def _windows(c: Checker, axes: tuple[str, ...], kernel: Shape) -> Shape:
    """Output sizes along `axes` of a convolution; `pad` has a start and an end for each."""
    sizes = c["input"].shape[1:-1]
    pad = c.ints("pad", 2 * len(axes), 0)
    stride = c.ints("stride", len(axes), 1)
    dilation = c.ints("dilation", len(axes), 1)
    return tuple(
        _window(
            c, axes[i], sizes[i], pad[2 * i] + pad[2 * i + 1], (kernel[i] - 1) * dilation[i],
            stride[i],
        )
        for i in range(len(axes))
    )  # fmt: skip


def conv2d(c: Checker, _: str) -> tuple[Shape, str]:
    n, _h, _w, ic = c.rank("input", 4)
    oc, kh, kw, wc = c.rank("weight", 4)
    _operands(c, ic, wc, oc)
    return (n, *_windows(c, ("height", "width"), (kh, kw)), oc), "int32"


def depthwise_conv2d(c: Checker, _: str) -> tuple[Shape, str]:
    n, _h, _w, ic = c.rank("input", 4)
    kh, kw, wc, multiplier = c.rank("weight", 4)
    _operands(c, ic, wc, ic * multiplier)
    return (n, *_windows(c, ("height", "width"), (kh, kw)), ic * multiplier), "int32"


def conv3d(c: Checker, _: str) -> tuple[Shape, str]:
    n, _d, _h, _w, ic = c.rank("input", 5)
    oc, kd, kh, kw, wc = c.rank("weight", 5)
    _operands(c, ic, wc, oc)
    return (n, *_windows(c, ("depth", "height", "width"), (kd, kh, kw)), oc), "int32"


def transpose_conv2d(c: Checker, _: str) -> tuple[Shape, str]:
    n, h, w, ic = c.rank("input", 4)
    oc, kh, kw, wc = c.rank("weight", 4)
    _operands(c, ic, wc, oc)
    pad = c.ints("out_pad", 4, None)
    sy, sx = c.ints("stride", 2, 1)
    c.require(
        min(pad[:2]) > -kh and min(pad[2:]) > -kw,
        f"out_pad={pad}: must be above minus the kernel {(kh, kw)}",
    )
    oh = (h - 1) * sy + pad[0] + pad[1] + kh
    ow = (w - 1) * sx + pad[2] + pad[3] + kw
    c.require(oh >= 1 and ow >= 1, f"output {oh}x{ow} is empty")
    return (n, oh, ow, oc), "int32"


def matmul(c: Checker, _: str) -> tuple[Shape, str]:
    n, h, k = c.rank("A", 3)
    bn, bk, w = c.rank("B", 3)
    c.dtype("A", "int8")
    c.dtype("B", "int8")
    c.require((bn, bk) == (n, k), f"B {[bn, bk, w]} does not fit A {[n, h, k]}: wants [{n},{k},…]")
    c.zero_point("A_zp", "int8")
    c.zero_point("B_zp", "int8")
    return (n, h, w), "int32"


def _pool(c: Checker) -> Shape:
    n, h, w, ch = c.rank("input", 4)
    kh, kw = c.ints("kernel", 2, 1)
    sy, sx = c.ints("stride", 2, 1)
    pad = c.ints("pad", 4, 0)
    c.require(
        max(pad[:2]) < kh and max(pad[2:]) < kw, f"pad={pad}: must be below kernel {(kh, kw)}"
    )
    oh = _window(c, "height", h, pad[0] + pad[1], kh - 1, sy)
    ow = _window(c, "width", w, pad[2] + pad[3], kw - 1, sx)
    return (n, oh, ow, ch)


def max_pool2d(c: Checker, _: str) -> tuple[Shape, str]:
    return _pool(c), c.dtype("input", "int8", "int16")


def avg_pool2d(c: Checker, _: str) -> tuple[Shape, str]:
    dtype = c.dtype("input", "int8", "int16")
    c.zero_point("input_zp", dtype)
    c.zero_point("output_zp", dtype)
    acc = c.op.attributes["acc_type"]
    c.require(acc == "int32", f"acc_type={acc}: must be int32")
    return _pool(c), dtype
