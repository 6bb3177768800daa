"""Convolutions, pools, up- and downsampling."""

import math
from collections.abc import Sequence
from typing import Any

from sw.frontends.nnef.call import HINT, Call
from sw.frontends.onnx.errors import refused

Pads = list[tuple[int, int]]
_MODES = {"replicate": "edge", "reflect": "reflect"}


def _same(c: Call, sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> Pads:
    """Padding for results of `size / stride`, rounded up, where the operation gives none."""
    dilation = _each(c, "dilation", len(sizes))
    given = c.pairs()
    if given:
        if len(given) != len(sizes):
            raise refused(f"padding of {len(given)} dimensions, not {len(sizes)}", HINT)
        return given
    total = [
        max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
    ]
    return [(t // 2, t - t // 2) for t in total]


def _each(c: Call, name: str, rank: int) -> list[int]:
    """An attribute for each dimension, ones where it is empty."""
    values = c.ints(name) or [1] * rank
    if len(values) != rank or min(values) < 1:
        raise refused(f"{name} is {values} of {rank} dimensions", HINT)
    return values


def _flat(pads: Pads) -> list[int]:
    return [before for before, _ in pads] + [behind for _, behind in pads]


def _padded(c: Call, x: str, pads: Pads, border: str) -> str:
    """The image with its padding, over its last dimensions."""
    if border not in ("constant", *_MODES):
        raise refused(f"border {border!r}", HINT)
    if not any(map(any, pads)):
        return x
    pads = [*[(0, 0)] * (len(c.shape(x)) - len(pads)), *pads]
    if border == "constant":
        zero = c.graph.value(x).new_tensor(0)
        return str(c.add("Pad", x, _flat(pads), zero, mode="constant"))
    return str(c.add("Pad", x, _flat(pads), mode=_MODES[border]))


def _bias(c: Call, channels: int) -> str | None:
    """A number for each channel, whatever shape it is stored in; none for a constant zero."""
    bias = c.x("bias")
    value = c.graph.constant(bias)
    if value is not None and value.numel() == 1 and not bool(value):
        return None
    if math.prod(c.shape(bias)) == 1:
        bias = c.add("Expand", c.shaped(bias, [1]), [channels])
    return c.shaped(bias, [channels])


def conv(c: Call) -> Any:
    x, weight = c.x("input"), c.x("filter")
    sizes, kernel = c.shape(x)[2:], c.shape(weight)[2:]
    if len(sizes) != len(kernel) or not sizes:
        raise refused(f"a convolution of {list(c.shape(x))} by {list(c.shape(weight))}", HINT)
    stride = _each(c, "stride", len(sizes))
    pads, border = _same(c, sizes, kernel, stride), c.get("border")
    if border != "constant":
        x, pads = _padded(c, x, pads, border), [(0, 0)] * len(sizes)
    return c.add(
        "Conv", x, weight, _bias(c, c.shape(weight)[0]), strides=stride, pads=_flat(pads),
        dilations=_each(c, "dilation", len(sizes)), group=_groups(c, x),
    )  # fmt: skip


def _groups(c: Call, x: str) -> int:
    """0 stands for one for each channel."""
    return int(c.get("groups")) or c.shape(x)[1]


def deconv(c: Call) -> Any:
    c.only("border", "constant")
    x, weight = c.x("input"), c.x("filter")
    sizes, kernel = c.shape(x)[2:], c.shape(weight)[2:]
    if len(sizes) != len(kernel) or not sizes:
        raise refused(f"a deconvolution of {list(c.shape(x))} by {list(c.shape(weight))}", HINT)
    rank = len(sizes)
    stride, dilation = _each(c, "stride", rank), _each(c, "dilation", rank)
    full = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(sizes, stride, kernel, dilation, strict=True)
    ]
    wanted, pads = c.ints("output_shape")[2:], c.pairs()
    if not pads:
        lengths = wanted or [n * s for n, s in zip(sizes, stride, strict=True)]
        cuts = [size - length for size, length in zip(full, lengths, strict=True)]
        pads = [(max(cut, 0) // 2, cut - max(cut, 0) // 2) for cut in cuts]
    more = [0] * rank
    if wanted:
        made = [size - sum(pad) for size, pad in zip(full, pads, strict=True)]
        more = [length - size for length, size in zip(wanted, made, strict=True)]
    pads = [(before, behind - m) for (before, behind), m in zip(pads, more, strict=True)]
    more = [max(0, -behind) for _, behind in pads]
    pads = [(before, max(0, behind)) for before, behind in pads]
    groups = _groups(c, x)
    return c.add(
        "ConvTranspose", x, weight, _bias(c, c.shape(weight)[1] * groups), strides=stride,
        pads=_flat(pads), dilations=dilation, group=groups, output_padding=more,
    )  # fmt: skip


def _window(c: Call, x: str) -> tuple[dict[str, Any], Pads]:
    """(the window of a pool over the spatial dimensions, its padding)."""
    shape, size = c.shape(x), c.ints("size")
    rank = len(shape)
    if len(size) != rank or rank < 3:
        raise refused(f"size {size} of a pool over {list(shape)}", HINT)
    stride = _each(c, "stride", rank)
    pads = _same(c, shape, size, stride)
    if size[:2] != [1, 1] or stride[:2] != [1, 1] or any(map(any, pads[:2])):
        raise refused("a pool over batch or channels", HINT)
    window = {
        "kernel_shape": size[2:], "strides": stride[2:],
        "dilations": _each(c, "dilation", rank)[2:],
    }  # fmt: skip
    return window, pads[2:]


def max_pool(c: Call) -> Any:
    x = c.x("input")
    window, pads = _window(c, x)
    border = c.get("border")
    if border != "ignore":
        x, pads = _padded(c, x, pads, border), [(0, 0)] * len(pads)
    return c.add("MaxPool", x, pads=_flat(pads), **window)


def _mean(c: Call) -> tuple[str, int]:
    """(the mean of each window, how many elements it has)."""
    x = c.x("input")
    window, pads = _window(c, x)
    border = c.get("border")
    if border not in ("ignore", "constant"):
        x, pads = _padded(c, x, pads, border), [(0, 0)] * len(pads)
    included = int(border != "ignore")
    made = c.add("AveragePool", x, pads=_flat(pads), count_include_pad=included, **window)
    return made, math.prod(window["kernel_shape"])


def avg_pool(c: Call) -> Any:
    return _mean(c)[0]


def box(c: Call) -> Any:
    if c.get("normalize"):
        return _mean(c)[0]
    c.only("border", "constant")
    mean, count = _mean(c)
    return c.add("Mul", mean, c.graph.hold(c.graph.value(mean).new_tensor(float(count))))


def _factors(c: Call, x: str) -> list[int]:
    factors = c.ints("factor")
    if len(factors) != len(c.shape(x)) - 2 or min(factors, default=0) < 1:
        raise refused(f"factor {factors} of {list(c.shape(x))}", HINT)
    return factors


def _enlarged(c: Call, x: str, **how: Any) -> Any:
    factors = _factors(c, x)
    sizes = [n * f for n, f in zip(c.shape(x)[2:], factors, strict=True)]
    return c.add("Resize", x, None, None, [*c.shape(x)[:2], *sizes], **how)


def nearest_upsample(c: Call) -> Any:
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return _enlarged(c, c.x("input"), mode="nearest", **how)


_METHODS = {"symmetric": "half_pixel", "asymmetric": "asymmetric", "aligned": "align_corners"}


def multilinear_upsample(c: Call) -> Any:
    c.only("border", "replicate")
    method = _METHODS[c.only("method", *_METHODS)]
    return _enlarged(c, c.x("input"), mode="linear", coordinate_transformation_mode=method)


def nearest_downsample(c: Call) -> Any:
    x = c.x("input")
    factors = _factors(c, x)
    axes = list(range(2, 2 + len(factors)))
    ends = [c.shape(x)[axis] for axis in axes]
    return c.add("Slice", x, [0] * len(axes), ends, axes, factors)


def area_downsample(c: Call) -> Any:
    x = c.x("input")
    factors = _factors(c, x)
    return c.add("AveragePool", x, kernel_shape=factors, strides=factors)


WINDOWS = {
    "conv": conv, "deconv": deconv, "max_pool": max_pool, "avg_pool": avg_pool, "box": box,
    "nearest_upsample": nearest_upsample, "multilinear_upsample": multilinear_upsample,
    "nearest_downsample": nearest_downsample, "area_downsample": area_downsample,
}  # fmt: skip
