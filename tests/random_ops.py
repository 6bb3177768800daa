"""Random one-operator TOSA graphs, odd shapes and every parameter, to check against references."""

from collections.abc import Callable

import numpy as np

from spec.numerics import scale_to_multiplier
from sw.compiler.tosa.graph import Graph

Rng = np.random.Generator
LIMITS = {"int8": (-128, 127), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}


def _graph(rng: Rng, kind: str) -> Graph:
    return Graph(name=f"{kind.lower()}_{rng.integers(1 << 30)}")


def _zp(g: Graph, rng: Rng, name: str, low: int = -128, high: int = 127) -> str:
    return g.add_constant(name, [int(rng.integers(low, high + 1))], "int8")


def _size(rng: Rng, reach: int, pads: int, stride: int) -> int:
    """An input size into which the windows fit exactly."""
    steps = int(rng.integers(0, 6))
    size = steps * stride + reach - pads
    while size < 1:
        size += stride
    return size


def conv2d(rng: Rng) -> Graph:
    g = _graph(rng, "CONV2D")
    kh, kw = (int(v) for v in rng.integers(1, 5, 2))
    sy, sx, dy, dx = (int(v) for v in rng.integers(1, 4, 4))
    pad = tuple(int(v) for v in rng.integers(0, 4, 4))
    h = _size(rng, (kh - 1) * dy + 1, pad[0] + pad[1], sy)
    w = _size(rng, (kw - 1) * dx + 1, pad[2] + pad[3], sx)
    n, ic, oc = int(rng.integers(1, 3)), int(rng.choice([1, 3, 8, 17])), int(rng.choice([1, 5, 18]))
    bias = int(rng.choice([1, oc]))
    operands = [
        g.add_input("x", (n, h, w, ic)),
        g.add_constant("w", rng.integers(-128, 128, (oc, kh, kw, ic)), "int8"),
        g.add_constant("b", rng.integers(-(1 << 20), 1 << 20, bias), "int32"),
        _zp(g, rng, "input_zp"),
        _zp(g, rng, "weight_zp"),
    ]
    attributes = {"pad": pad, "stride": (sy, sx), "dilation": (dy, dx)}
    g.outputs = [g.add_op("CONV2D", operands, attributes)]
    return g


def depthwise_conv2d(rng: Rng) -> Graph:
    g = _graph(rng, "DEPTHWISE_CONV2D")
    kh, kw = (int(v) for v in rng.integers(1, 5, 2))
    sy, sx, dy, dx = (int(v) for v in rng.integers(1, 4, 4))
    pad = tuple(int(v) for v in rng.integers(0, 4, 4))
    h = _size(rng, (kh - 1) * dy + 1, pad[0] + pad[1], sy)
    w = _size(rng, (kw - 1) * dx + 1, pad[2] + pad[3], sx)
    n, channels, multiplier = (int(rng.choice(v)) for v in ([1, 2], [1, 3, 17], [1, 1, 3]))
    bias = int(rng.choice([1, channels * multiplier]))
    operands = [
        g.add_input("x", (n, h, w, channels)),
        g.add_constant("w", rng.integers(-128, 128, (kh, kw, channels, multiplier)), "int8"),
        g.add_constant("b", rng.integers(-(1 << 20), 1 << 20, bias), "int32"),
        _zp(g, rng, "input_zp"),
        _zp(g, rng, "weight_zp"),
    ]
    attributes = {"pad": pad, "stride": (sy, sx), "dilation": (dy, dx)}
    g.outputs = [g.add_op("DEPTHWISE_CONV2D", operands, attributes)]
    return g


def matmul(rng: Rng) -> Graph:
    g = _graph(rng, "MATMUL")
    n, h, k, w = (int(v) for v in rng.choice([1, 2, 3, 17, 33], 4))
    a, b = g.add_input("a", (n, h, k)), g.add_input("b", (n, k, w))
    g.outputs = [g.add_op("MATMUL", [a, b, _zp(g, rng, "a_zp"), _zp(g, rng, "b_zp")])]
    return g


def _pool(rng: Rng, kind: str) -> Graph:
    g = _graph(rng, kind)
    kernel = tuple(int(v) for v in rng.integers(1, 6, 2))
    stride = tuple(int(v) for v in rng.integers(1, 4, 2))
    pad = tuple(int(rng.integers(0, kernel[i // 2])) for i in range(4))
    h = _size(rng, kernel[0], pad[0] + pad[1], stride[0])
    w = _size(rng, kernel[1], pad[2] + pad[3], stride[1])
    shape = (int(rng.integers(1, 3)), h, w, int(rng.choice([1, 3, 17])))
    operands = [g.add_input("x", shape)]
    if kind == "AVG_POOL2D":
        operands += [_zp(g, rng, "input_zp"), _zp(g, rng, "output_zp")]
    attributes = {"kernel": kernel, "stride": stride, "pad": pad}
    g.outputs = [g.add_op(kind, operands, attributes)]
    return g


def max_pool2d(rng: Rng) -> Graph:
    return _pool(rng, "MAX_POOL2D")


def avg_pool2d(rng: Rng) -> Graph:
    return _pool(rng, "AVG_POOL2D")


def rescale(rng: Rng) -> Graph:
    g = _graph(rng, "RESCALE")
    source, target = (str(v) for v in rng.choice(["int8", "int16", "int32"], 2))
    wide = "int32" in (source, target)
    unsigned = [bool(not wide and rng.integers(2)) for _ in range(2)]
    if all(unsigned):  # the specification forbids both, and either one beside int32
        unsigned[int(rng.integers(2))] = False
    per_channel = bool(rng.integers(2))
    shape = tuple(int(v) for v in rng.choice([1, 3, 17], int(rng.integers(1, 5))))
    bits = {"int8": 8, "int16": 16, "int32": 32}
    lanes = shape[-1] if per_channel else 1
    spread = 2.0 ** (bits[target] - bits[source] - 3)
    # The scaled value must fit in int32 before it is clamped: else the result is not defined.
    pairs = [scale_to_multiplier(spread * float(s)) for s in rng.uniform(0.05, 1.9, lanes)]
    zps = []
    for dtype, is_unsigned in zip((source, target), unsigned, strict=True):
        low, high = {"int8": (-128, 127)}.get(dtype, (0, 0))
        if is_unsigned and dtype == "int16":
            zps.append(int(rng.choice([0, -32768])))  # as unsigned: 0 or 32768
        else:
            zps.append(int(rng.integers(low, high + 1)))
    operands = [
        g.add_input("x", shape, source),
        g.add_constant("multiplier", [m for m, _ in pairs], "int32"),
        g.add_constant("shift", [s for _, s in pairs], "int8"),
        g.add_constant("input_zp", [zps[0]], source),
        g.add_constant("output_zp", [zps[1]], target),
    ]
    attributes = {
        "per_channel": per_channel,
        "input_unsigned": unsigned[0],
        "output_unsigned": unsigned[1],
    }
    g.outputs = [g.add_op("RESCALE", operands, attributes, out_dtype=target)]
    return g


def rescale16(rng: Rng) -> Graph:
    """The form with 16-bit multipliers."""
    g = _graph(rng, "RESCALE")
    shape = (int(rng.choice([1, 5, 17])), int(rng.choice([1, 3, 16])))
    per_channel = bool(rng.integers(2))
    lanes = shape[-1] if per_channel else 1
    operands = [
        g.add_input("x", shape, "int8"),
        g.add_constant("multiplier", rng.integers(1 << 14, 1 << 15, lanes), "int16"),
        g.add_constant("shift", rng.integers(13, 17, lanes), "int8"),
        _zp(g, rng, "input_zp"),
        _zp(g, rng, "output_zp"),
    ]
    attributes = {"scale32": False, "per_channel": per_channel}
    g.outputs = [g.add_op("RESCALE", operands, attributes, out_dtype="int8")]
    return g


def elementwise(rng: Rng) -> Graph:
    kind = str(rng.choice(["ADD", "SUB", "MAXIMUM", "MINIMUM"]))
    g = _graph(rng, kind)
    a = [int(v) for v in rng.choice([1, 3, 17], int(rng.integers(1, 5)))]
    b = [v if rng.integers(3) else 1 for v in a]
    g.outputs = [g.add_op(kind, [g.add_input("a", a, "int32"), g.add_input("b", b, "int32")])]
    return g


def clamp(rng: Rng) -> Graph:
    g = _graph(rng, "CLAMP")
    dtype = str(rng.choice(["int8", "int16"]))
    low, high = sorted(int(v) for v in rng.integers(*LIMITS[dtype], 2, endpoint=True))
    x = g.add_input("x", (int(rng.integers(1, 30)), 7), dtype)
    g.outputs = [g.add_op("CLAMP", [x], {"min_val": low, "max_val": high})]
    return g


def table(rng: Rng) -> Graph:
    g = _graph(rng, "TABLE")
    entries = g.add_constant("table", rng.integers(-128, 128, 256), "int8")
    g.outputs = [g.add_op("TABLE", [g.add_input("x", (3, 1, 257)), entries])]
    return g


def moves(rng: Rng) -> Graph:
    """PAD, SLICE, TRANSPOSE, RESHAPE and IDENTITY in a row."""
    g = _graph(rng, "PAD")
    shape = [int(v) for v in rng.choice([1, 2, 3, 5], 4)]
    y = g.add_input("x", shape)
    pads = rng.integers(0, 3, 8)
    y = g.add_op("PAD", [y, g.add_constant("pads", pads, "shape"), _zp(g, rng, "fill")])
    shape = list(g.tensors[y].shape)
    start = [int(rng.integers(0, s)) for s in shape]
    size = [int(rng.integers(1, s - a + 1)) for s, a in zip(shape, start, strict=True)]
    at, extent = g.add_constant("start", start, "shape"), g.add_constant("size", size, "shape")
    y = g.add_op("SLICE", [y, at, extent])
    y = g.add_op("TRANSPOSE", [y], {"perms": tuple(int(p) for p in rng.permutation(4))})
    flat = g.add_constant("flat", [1, int(np.prod(size))], "shape")
    y = g.add_op("IDENTITY", [g.add_op("RESHAPE", [y, flat])])
    g.outputs = [y]
    return g


BUILDERS: dict[str, Callable[[Rng], Graph]] = {
    f.__name__: f
    for f in (
        conv2d, depthwise_conv2d, matmul, max_pool2d, avg_pool2d, rescale, rescale16, elementwise,
        clamp, table, moves,
    )
}  # fmt: skip


def random_inputs(g: Graph, rng: Rng) -> dict[str, np.ndarray]:
    """Whole range of the type; int32 sums stay in range, as the specification requires."""
    inputs = {}
    for name in g.inputs:
        tensor = g.tensors[name]
        low, high = LIMITS[tensor.dtype]
        if tensor.dtype == "int32" and len(g.inputs) > 1:
            low, high = low // 2, high // 2
        inputs[name] = rng.integers(low, high, tensor.shape, endpoint=True).astype(tensor.dtype)
    return inputs
