"""Kernel workloads: a TOSA graph of one operator, seeded inputs, and the MACs that count.

    work = kernel("conv2d", parse_shape("h=14,w=14,c=16,oc=32,k=3,p=1", "conv2d"), seed=1)

Shapes are given as `MxKxN` (matmul, fully_connected) or `key=value,…`; keys left out take defaults.
Multipliers are chosen from the reduction length so that outputs spread over int8.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.errors import SystolaError
from spec.names import did_you_mean
from spec.numerics import scale_to_multiplier
from sw.compiler.tosa.graph import Graph

Shape = dict[str, int]
Arrays = dict[str, NDArray[Any]]


MAX_BYTES = 1 << 28
"""Largest tensor of a workload, in bytes (256 MiB)."""
MAX_MACS = 1 << 36
"""Most MACs of a workload: minutes on the golden model, hours on the RTL."""


class KernelError(SystolaError, ValueError):
    """An unknown kernel or an illegal shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A graph, its inputs by name, its MACs (output elements x reduction) and its shape."""

    name: str
    graph: Graph
    inputs: Arrays
    macs: int
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """`defaults`: every key with its default. `aliases`: short keys for several long ones."""

    build: Callable[[Graph, Shape, np.random.Generator], int]
    defaults: Mapping[str, int]
    positional: tuple[str, ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = ()  # type: ignore[assignment]


_LOW = {"pad_top": 0, "pad_bottom": 0, "pad_left": 0, "pad_right": 0, "per_channel": 0}


def parse_shape(text: str, name: str = "matmul") -> Shape:
    """The shape in `text` for kernel `name`, defaults added; `KernelError` says what is wrong."""
    spec = _find(name)
    values: Shape = {}
    if "=" not in text and text.strip():
        parts = text.lower().split("x")
        if len(parts) != len(spec.positional):
            form = "x".join(key.upper() for key in spec.positional) or "key=value,…"
            raise KernelError(f"shape {text!r}: {name} wants {form}, like {_example(spec)}")
        values = {
            key: _whole(key, part, text) for key, part in zip(spec.positional, parts, strict=True)
        }
    else:
        for item in filter(None, (p.strip() for p in text.split(","))):
            key, sign, value = item.partition("=")
            if not sign:
                raise KernelError(f"shape {text!r}: {item!r} is not of the form key=value")
            values[key.strip()] = _whole(key.strip(), value, text)
    return complete_shape(values, name, text)


def complete_shape(values: Mapping[str, int], name: str, text: str = "") -> Shape:
    """`values` with aliases resolved, defaults added and every value checked."""
    spec = _find(name)
    where = f"shape {text or dict(values)!r}"
    shape = dict(spec.defaults)
    long = {k: v for k, v in values.items() if k not in dict(spec.aliases)}
    for key, value in values.items():
        for target in dict(spec.aliases).get(key, ()):
            shape[target] = value
    for key, value in long.items():
        if key not in shape:
            known = ", ".join([*spec.defaults, *dict(spec.aliases)])
            raise KernelError(f"{where}: {name} has no dimension {key!r}; it has {known}")
        shape[key] = value
    for key, value in shape.items():
        low = _LOW.get(key, 1)
        if not low <= value <= 65535:
            raise KernelError(
                f"{where}: dimension {key}={value} is illegal, it must lie in {low}…65535"
            )
    return shape


def kernel(name: str, shape: Mapping[str, int] | None = None, seed: int = 0) -> Workload:
    """The workload of kernel `name`; `shape` may leave out keys. Same seed, same data."""
    spec = _find(name)
    full = complete_shape(shape or {}, name)
    _check_size(name, full)
    graph = Graph(name=name)
    rng = np.random.default_rng(seed)
    macs = spec.build(graph, full, rng)
    graph.verify()
    inputs = {n: _random(rng, graph.tensors[n].shape, graph.tensors[n].dtype) for n in graph.inputs}
    return Workload(name=name, graph=graph, inputs=inputs, macs=macs, shape=full)


def _check_size(name: str, s: Shape) -> None:
    """Refuse what would take this machine minutes to make, before anything is made."""
    if "m" in s:
        batch = s.get("batch", 1)
        sizes = {"a": batch * s["m"] * s["k"], "b": batch * s["k"] * s["n"]}
        outputs, reduction = batch * s["m"] * s["n"], s["k"]
    else:
        channels = s["c"] * s.get("groups", 1)
        sizes = {"x": s["n"] * s["h"] * s["w"] * channels * (s.get("in_bits", 8) // 8 or 1)}
        outputs = s["n"] * s.get("oc", channels) * s.get("multiplier", 1) * s.get("factor", 1) ** 2
        for side, pads, axis, k in (
            ("h", ("pad_top", "pad_bottom"), "y", "kh"),
            ("w", ("pad_left", "pad_right"), "x", "kw"),
        ):
            extent = s[side] + sum(s.get(pad, 0) for pad in pads) - s.get(k, 1)
            outputs *= max(0, extent) // s.get(f"stride_{axis}", 1) + 1
        # Four pixels around each one that is interpolated.
        reduction = 4 if "factor" in s else s.get("kh", 1) * s.get("kw", 1)
        if "oc" in s:
            reduction *= s["c"]
            sizes["weight"] = s["oc"] * reduction
    # The accumulators are int32.
    sizes["y"] = 4 * outputs
    for tensor, size in sizes.items():
        if size > MAX_BYTES:
            raise KernelError(
                f"{name}: tensor {tensor} of {size:,} bytes is above the limit of {MAX_BYTES:,}; "
                "use a smaller shape"
            )
    if outputs * reduction > MAX_MACS:
        raise KernelError(
            f"{name}: {outputs * reduction:,} MACs are above the limit of {MAX_MACS:,}; use a "
            "smaller shape"
        )


def kernel_names() -> list[str]:
    """The kernels there are."""
    return list(_KERNELS)


def _find(name: str) -> _Kernel:
    if name not in _KERNELS:
        raise KernelError(
            f"kernel {name!r}: no such kernel{did_you_mean(name, _KERNELS)}; kernels are "
            f"{', '.join(_KERNELS)}"
        )
    return _KERNELS[name]


def _example(spec: _Kernel) -> str:
    if spec.positional:
        return "x".join(str(spec.defaults[k]) for k in spec.positional)
    return ",".join(f"{k}={v}" for k, v in list(spec.defaults.items())[:4])


def _whole(key: str, value: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", value.strip()):
        raise KernelError(f"shape {text!r}: {key}={value!r} is not a whole number")
    return int(value)


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    if dtype == "int32":
        # As wide as a reduction of a few hundred int8 products.
        return rng.integers(-(1 << 20), 1 << 20, shape, dtype=np.int32)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape, dtype=np.dtype(dtype))


# Graphs ---------------------------------------------------------------------------------------


def _zp(g: Graph, name: str, value: int, dtype: str = "int8") -> str:
    return g.add_constant(name, [value], dtype)


def _requantize(
    g: Graph, x: str, scales: list[float], rng: np.random.Generator, out: str = "int8"
) -> str:
    """RESCALE of int32 `x` to `out`; one scale, or one per channel."""
    pairs = [scale_to_multiplier(s) for s in scales]
    operands = [
        x,
        g.add_constant("multiplier", [m for m, _ in pairs], "int32"),
        g.add_constant("shift", [s for _, s in pairs], "int8"),
        _zp(g, "input_zp", 0, "int32"),
        _zp(g, "output_zp", int(rng.integers(-9, 10)) if out == "int8" else 0, out),
    ]
    return g.add_op(
        "RESCALE",
        operands,
        {"per_channel": len(pairs) > 1},
        name="requantize",
        output="y",
        out_dtype=out,
    )


def _spread(rng: np.random.Generator, reduction: int, channels: int) -> list[float]:
    """Per-channel scales that map sums of `reduction` random int8 products onto int8."""
    base = 35.0 / (74.0 * 74.0 * math.sqrt(reduction))
    return [float(base * f) for f in rng.uniform(0.6, 1.6, channels)]


def _matmul(g: Graph, s: Shape, rng: np.random.Generator) -> int:
    batch, m, k, n = s["batch"], s["m"], s["k"], s["n"]
    a = g.add_input("a", (batch, m, k))
    b = g.add_input("b", (batch, k, n))
    zps = [_zp(g, f"{x}_zp", int(rng.integers(-8, 9))) for x in ("a", "b")]
    acc = g.add_op("MATMUL", [a, b, *zps], name="matmul")
    g.outputs = [_requantize(g, acc, _spread(rng, k, n), rng)]
    return batch * m * k * n


def _conv(
    g: Graph,
    x: str,
    oc: int,
    kernel: tuple[int, int],
    attributes: Mapping[str, Any],
    rng: Any,
    kind: str = "CONV2D",
) -> str:
    """CONV2D, or DEPTHWISE_CONV2D to `oc` channels, and its RESCALE."""
    c = g.tensors[x].shape[3]
    depthwise = kind == "DEPTHWISE_CONV2D"
    shape = (*kernel, c, oc // c) if depthwise else (oc, *kernel, c)
    w = g.add_constant("weight", rng.integers(-127, 128, shape), "int8")
    reduction = kernel[0] * kernel[1] * (1 if depthwise else c)
    spread = int(2000 * math.sqrt(reduction))
    bias = g.add_constant("bias", rng.integers(-spread, spread + 1, oc), "int32")
    x_zp = _zp(g, "x_zp", int(rng.integers(-20, 21)))
    acc = g.add_op(kind, [x, w, bias, x_zp, _zp(g, "w_zp", 0)], attributes, name=kind.lower())
    return _requantize(g, acc, _spread(rng, reduction, oc), rng)


def _fully_connected(g: Graph, s: Shape, rng: np.random.Generator) -> int:
    x = g.add_input("x", (s["m"], 1, 1, s["k"]))
    g.outputs = [_conv(g, x, s["n"], (1, 1), {}, rng)]
    return s["m"] * s["k"] * s["n"]


def _fit_window(g: Graph, x: str, s: Shape) -> tuple[str, tuple[int, int, int, int]]:
    """TOSA wants exact windows: drop the rows and columns at the end that none would read."""
    pads, sizes = [], []
    for axis, before, after in (("y", "pad_top", "pad_bottom"), ("x", "pad_left", "pad_right")):
        size = s["h" if axis == "y" else "w"]
        reach = (s["kh" if axis == "y" else "kw"] - 1) * s.get(f"dilation_{axis}", 1)
        span = size - 1 + s[before] + s[after] - reach
        if span < 0:
            raise KernelError(
                f"{axis}: a window of {reach + 1} does not fit in {size} + {s[before]} + {s[after]}"
            )
        spare = span % s[f"stride_{axis}"]
        if spare - s[after] >= size:
            raise KernelError(
                f"{axis}: the only windows that fit read padding alone: size {size} with "
                f"{before}={s[before]}, {after}={s[after]}, window {reach + 1}, stride "
                f"{s[f'stride_{axis}']}; use a smaller stride or less padding"
            )
        pads += [s[before], max(0, s[after] - spare)]
        sizes.append(size - max(0, spare - s[after]))
    n, h, w, c = g.tensors[x].shape
    if (h, w) != tuple(sizes):
        start = g.add_constant("start", [0, 0, 0, 0], "shape")
        extent = g.add_constant("size", [n, *sizes, c], "shape")
        x = g.add_op("SLICE", [x, start, extent], name="crop")
    return x, (pads[0], pads[1], pads[2], pads[3])


def _conv2d(g: Graph, s: Shape, rng: np.random.Generator) -> int:
    x = g.add_input("x", (s["n"], s["h"], s["w"], s["c"]))
    x, pad = _fit_window(g, x, s)
    attributes = {
        "pad": pad,
        "stride": (s["stride_y"], s["stride_x"]),
        "dilation": (s["dilation_y"], s["dilation_x"]),
    }
    y = _conv(g, x, s["oc"], (s["kh"], s["kw"]), attributes, rng)
    g.outputs = [y]
    return g.tensors[y].size * s["kh"] * s["kw"] * s["c"]


def _depthwise_conv2d(g: Graph, s: Shape, rng: np.random.Generator) -> int:
    x = g.add_input("x", (s["n"], s["h"], s["w"], s["c"]))
    x, pad = _fit_window(g, x, s)
    attributes = {
        "pad": pad,
        "stride": (s["stride_y"], s["stride_x"]),
        "dilation": (s["dilation_y"], s["dilation_x"]),
    }
    oc, kernel = s["c"] * s["multiplier"], (s["kh"], s["kw"])
    y = _conv(g, x, oc, kernel, attributes, rng, "DEPTHWISE_CONV2D")
    g.outputs = [y]
    return g.tensors[y].size * s["kh"] * s["kw"]


def _pool2d(kind: str) -> Callable[[Graph, Shape, np.random.Generator], int]:
    def build(g: Graph, s: Shape, rng: np.random.Generator) -> int:
        x = g.add_input("x", (s["n"], s["h"], s["w"], s["c"]))
        for side, size in (("top", "kh"), ("bottom", "kh"), ("left", "kw"), ("right", "kw")):
            if s[f"pad_{side}"] >= s[size]:
                raise KernelError(f"pad_{side}={s[f'pad_{side}']} must be below {size}={s[size]}")
        x, pad = _fit_window(g, x, s)
        attributes = {
            "kernel": (s["kh"], s["kw"]),
            "stride": (s["stride_y"], s["stride_x"]),
            "pad": pad,
        }
        zps = []
        if kind == "AVG_POOL2D":
            zps = [_zp(g, f"{n}_zp", int(rng.integers(-20, 21))) for n in ("x", "y")]
        y = g.add_op(kind, [x, *zps], attributes, name=kind.lower(), output="y")
        g.outputs = [y]
        return g.tensors[y].size * s["kh"] * s["kw"]

    return build


def _add(g: Graph, s: Shape, rng: np.random.Generator) -> int:
    shape = (s["n"], s["h"], s["w"], s["c"])
    wide = []
    for name, scale in (("a", 0.9), ("b", 0.5)):
        x = g.add_input(name, shape)
        # As in TFLite: 20 fractional bits keep the rounding of the operands out of the sum.
        m, shift = scale_to_multiplier(scale * (1 << 20))
        operands = [
            x,
            g.add_constant(f"{name}_multiplier", [m], "int32"),
            g.add_constant(f"{name}_shift", [shift], "int8"),
            _zp(g, f"{name}_zp", int(rng.integers(-20, 21))),
            _zp(g, f"{name}_out_zp", 0, "int32"),
        ]
        wide.append(g.add_op("RESCALE", operands, name=f"widen_{name}", out_dtype="int32"))
    total = g.add_op("ADD", wide, name="add")
    g.outputs = [_requantize(g, total, [0.8 / (1 << 20)], rng)]
    return g.tensors[total].size


def _rescale(g: Graph, s: Shape, rng: np.random.Generator) -> int:
    dtypes = {8: "int8", 16: "int16", 32: "int32"}
    for key in ("in_bits", "out_bits"):
        if s[key] not in dtypes:
            raise KernelError(f"{key}={s[key]} must be 8, 16 or 32")
    source, out = dtypes[s["in_bits"]], dtypes[s["out_bits"]]
    x = g.add_input("x", (s["n"], s["h"], s["w"], s["c"]), source)
    wide = {"int8": 128.0, "int16": 32768.0, "int32": float(1 << 20)}
    base = 0.7 * wide[out] / wide[source]
    count = s["c"] if s["per_channel"] else 1
    pairs = [scale_to_multiplier(float(base * f)) for f in rng.uniform(0.6, 1.2, count)]
    operands = [
        x,
        g.add_constant("multiplier", [m for m, _ in pairs], "int32"),
        g.add_constant("shift", [n for _, n in pairs], "int8"),
        _zp(g, "x_zp", int(rng.integers(-9, 10)) if source == "int8" else 0, source),
        _zp(g, "y_zp", int(rng.integers(-9, 10)) if out == "int8" else 0, out),
    ]
    attributes = {"per_channel": bool(s["per_channel"])}
    y = g.add_op("RESCALE", operands, attributes, name="rescale", output="y", out_dtype=out)
    g.outputs = [y]
    return g.tensors[y].size


def _resize(g: Graph, s: Shape, rng: np.random.Generator) -> int:
    """BILINEAR by a whole factor; pixels lie in the middle of their squares."""
    x, factor = g.add_input("x", (s["n"], s["h"], s["w"], s["c"])), s["factor"]
    operands = [
        g.add_constant("scale", [2 * factor, 2] * 2, "shape"),
        g.add_constant("offset", [1 - factor] * 2, "shape"),
        g.add_constant("border", [factor - 1] * 2, "shape"),
    ]
    wide = g.add_op("RESIZE", [x, *operands], {"mode": "BILINEAR"}, name="resize")
    g.outputs = [_requantize(g, wide, [0.9 / (4 * factor * factor)], rng)]
    return g.tensors[wide].size * 4


def _channel_shuffle(g: Graph, s: Shape, rng: np.random.Generator) -> int:
    """`groups` groups of `c` channels each, interleaved; a MAC stands for an element."""
    dtypes = {8: "int8", 16: "int16", 32: "int32"}
    if s["in_bits"] not in dtypes:
        raise KernelError(f"in_bits={s['in_bits']} must be 8, 16 or 32")
    n, h, w, c, groups = (s[key] for key in ("n", "h", "w", "c", "groups"))
    x = g.add_input("x", (n, h, w, groups * c), dtypes[s["in_bits"]])
    apart = g.add_constant("apart", [n, h, w, groups, c], "shape")
    y = g.add_op("RESHAPE", [x, apart], name="apart")
    y = g.add_op("TRANSPOSE", [y], {"perms": (0, 1, 2, 4, 3)}, name="shuffle")
    whole = g.add_constant("whole", [n, h, w, groups * c], "shape")
    g.outputs = [g.add_op("RESHAPE", [y, whole], name="whole", output="y")]
    return g.tensors[x].size


_IMAGE = {"n": 1, "h": 14, "w": 14, "c": 32}
_PADS = {"pad_top": 0, "pad_bottom": 0, "pad_left": 0, "pad_right": 0}
_WINDOW = {
    "k": ("kh", "kw"),
    "s": ("stride_y", "stride_x"),
    "p": ("pad_top", "pad_bottom", "pad_left", "pad_right"),
}
_CONV = {
    "kh": 3,
    "kw": 3,
    "stride_y": 1,
    "stride_x": 1,
    **dict.fromkeys(_PADS, 1),
    "dilation_y": 1,
    "dilation_x": 1,
}
_POOL = {**_IMAGE, "kh": 2, "kw": 2, "stride_y": 2, "stride_x": 2, **_PADS}

_KERNELS: dict[str, _Kernel] = {
    "matmul": _Kernel(
        build=_matmul,
        defaults={"m": 64, "k": 64, "n": 64, "batch": 1},
        positional=("m", "k", "n"),
    ),
    "fully_connected": _Kernel(
        build=_fully_connected, defaults={"m": 1, "k": 256, "n": 64}, positional=("m", "k", "n")
    ),
    "conv2d": _Kernel(
        build=_conv2d,
        defaults={**_IMAGE, "oc": 32, **_CONV},
        aliases={**_WINDOW, "d": ("dilation_y", "dilation_x")},
    ),
    "depthwise_conv2d": _Kernel(
        build=_depthwise_conv2d,
        defaults={**_IMAGE, "multiplier": 1, **_CONV},
        aliases={**_WINDOW, "d": ("dilation_y", "dilation_x")},
    ),
    "max_pool2d": _Kernel(build=_pool2d("MAX_POOL2D"), defaults=_POOL, aliases=_WINDOW),
    "avg_pool2d": _Kernel(build=_pool2d("AVG_POOL2D"), defaults=_POOL, aliases=_WINDOW),
    "resize": _Kernel(build=_resize, defaults={**_IMAGE, "factor": 2}),
    "channel_shuffle": _Kernel(
        build=_channel_shuffle, defaults={**_IMAGE, "groups": 3, "in_bits": 8}
    ),
    "add": _Kernel(build=_add, defaults=_IMAGE),
    "rescale": _Kernel(
        build=_rescale,
        defaults={**_IMAGE, "in_bits": 32, "out_bits": 8, "per_channel": 1},
    ),
}
