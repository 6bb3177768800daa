"""Convolutions, matrix products, pools, attention, images."""

from collections.abc import Callable
from typing import Any

from sw.frontends.onnx.errors import refused
from sw.frontends.tvm.call import HINT, Call, pads

Row = Callable[[Call], Any]
_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def _conv(rank: int, transposed: bool = False) -> Row:
    wanted, kernel = f"NC{_SPATIAL[rank]}", f"{'IO' if transposed else 'OI'}{_SPATIAL[rank]}"

    def row(c: Call) -> str:
        layout = c.get("data_layout", wanted)
        x = c.laid_out(c.x(0), layout, wanted)
        weight = c.laid_out(c.x(1), c.get("kernel_layout", kernel), kernel)
        more = {"output_padding": c.get("output_padding", [0] * rank)} if transposed else {}
        made = c.add(
            "ConvTranspose" if transposed else "Conv", x, weight,
            strides=c.get("strides"), pads=pads(c.get("padding"), rank),
            dilations=c.get("dilation"), group=int(c.get("groups", 1)), **more,
        )  # fmt: skip
        return c.laid_out(made, wanted, c.get("out_layout", "") or layout)

    return row


def _pool(kind: str, rank: int) -> Row:
    wanted = f"NC{_SPATIAL[rank]}"

    def row(c: Call) -> str:
        layout = c.get("layout", wanted)
        more = {"count_include_pad": int(c.get("count_include_pad", 0))}
        made = c.add(
            kind, c.laid_out(c.x(), layout, wanted),
            kernel_shape=c.get("pool_size"), strides=c.get("strides"),
            pads=pads(c.get("padding"), rank), dilations=c.get("dilation"),
            ceil_mode=int(c.get("ceil_mode", 0)), **(more if kind == "AveragePool" else {}),
        )  # fmt: skip
        return c.laid_out(made, wanted, c.get("out_layout", "") or layout)

    return row


def _adaptive_pool(rank: int) -> Row:
    """Windows of one size, where the sizes are multiples of the result's."""
    wanted = f"NC{_SPATIAL[rank]}"

    def row(c: Call) -> str:
        layout = c.get("layout", wanted)
        x = c.laid_out(c.x(), layout, wanted)
        sizes = c.graph.shape(x)[2:]
        lengths = c.get("output_size", list(sizes))
        lengths = [int(n) for n in (lengths if len(lengths) == rank else lengths * rank)]
        if any(size % length for size, length in zip(sizes, lengths, strict=True)):
            raise refused(f"an adaptive pool of {list(sizes)} to {lengths}", HINT)
        if set(lengths) == {1}:
            made = c.add("GlobalAveragePool", x)
        else:
            steps = [size // length for size, length in zip(sizes, lengths, strict=True)]
            made = c.add("AveragePool", x, kernel_shape=steps, strides=steps)
        return c.laid_out(made, wanted, c.get("out_layout", "") or layout)

    return row


def _matmul(c: Call) -> Any:
    return c.add("MatMul", c.x(0), c.x(1))


def _attention(c: Call) -> Any:
    """Of [batch, rows, heads, size] operands."""
    if c.get("window_size") is not None or c.get("causal_mask"):
        raise refused("attention with a window, or a causal mask", HINT)
    q, k, v = (c.laid_out(c.x(i), "BSHD", "BHSD") for i in range(3))
    scale = c.get("scale")
    scale = float(c.graph.shape(q)[-1]) ** -0.5 if scale is None else float(scale)
    scores = c.add("MatMul", q, c.laid_out(k, "BHSD", "BHDS"))
    scores = c.add("Mul", scores, scale)
    if c.count() > 3:
        scores = c.add("Add", scores, c.x(3))
    made = c.add("MatMul", c.add("Softmax", scores, axis=-1), v)
    return c.laid_out(made, "BHSD", "BSHD")


_COORDINATES = ("half_pixel", "asymmetric", "align_corners")
_METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
_ROUNDING = {
    "round": "round_prefer_floor", "floor": "floor", "ceil": "ceil", "": "floor",
    "round_prefer_floor": "round_prefer_floor", "round_prefer_ceil": "round_prefer_ceil",
}  # fmt: skip


def _resize(c: Call) -> Any:
    layout = c.get("layout", "NCHW")
    x = c.laid_out(c.x(), layout, "NCHW")
    rounding = c.only("rounding_method", *_ROUNDING)
    method = _METHODS[c.only("method", *_METHODS)]
    more: dict[str, Any] = {"nearest_mode": _ROUNDING[rounding]} if method == "nearest" else {}
    if method == "cubic":
        more["cubic_coeff_a"] = float(c.get("cubic_alpha", -0.75))
    sizes = [*c.graph.shape(x)[:2], *c.ints(1)]
    made = c.add(
        "Resize", x, None, None, sizes, mode=method,
        coordinate_transformation_mode=c.only("coordinate_transformation_mode", *_COORDINATES),
        **more,
    )  # fmt: skip
    return c.laid_out(made, "NCHW", layout)


PRODUCTS: dict[str, Row] = {
    **{f"nn.conv{rank}d": _conv(rank) for rank in (1, 2, 3)},
    **{f"nn.conv{rank}d_transpose": _conv(rank, transposed=True) for rank in (1, 2, 3)},
    **{f"nn.max_pool{rank}d": _pool("MaxPool", rank) for rank in (1, 2, 3)},
    **{f"nn.avg_pool{rank}d": _pool("AveragePool", rank) for rank in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{rank}d": _adaptive_pool(rank) for rank in (1, 2, 3)},
    "matmul": _matmul,
    "nn.attention": _attention,
    "nn.attention_bias": _attention,
    "image.resize2d": _resize,
}
