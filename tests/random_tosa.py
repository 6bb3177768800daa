"""Random one-operator graphs for the operators that `random_ops` leaves out, ranks 0 to 6."""

from collections.abc import Callable

import numpy as np
from random_ops import LIMITS

from sw.compiler.tosa.graph import Graph

Rng = np.random.Generator
Values = dict[str, np.ndarray]
Build = Callable[["_Case"], None]
INTS = ("int8", "int16", "int32")
ANY = ("bool", *INTS)


def _values(rng: Rng, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The whole range of the type, its limits among them."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    low, high = LIMITS[dtype]
    flat = rng.integers(low, high, shape, endpoint=True)
    extreme = rng.choice([low, low + 1, -1, 0, 1, high], shape)
    return np.where(rng.integers(0, 4, shape) == 0, extreme, flat).astype(dtype)


def _shape(rng: Rng, least: int = 0, most: int = 6) -> tuple[int, ...]:
    return tuple(int(v) for v in rng.choice([1, 2, 3, 5], int(rng.integers(least, most + 1))))


class _Case:
    """An operator in the making, in a graph that others may share, and the values of the inputs."""

    def __init__(self, kind: str, rng: Rng) -> None:
        self.kind, self.rng = kind, rng
        self.graph = Graph(name=kind.lower())
        self.values: Values = {}

    def input(self, shape: tuple[int, ...], dtype: str, values: np.ndarray | None = None) -> str:
        name = f"i{len(self.values)}"
        self.values[name] = (_values(self.rng, shape, dtype) if values is None else values).astype(
            np.dtype(dtype)
        )
        return self.graph.add_input(name, shape, dtype)

    def shape(self, values: list[int]) -> str:
        return self.graph.add_constant("shape", np.array(values, np.int64), "shape")

    def done(self, operands: list[str], out_dtype: str = "", **attributes: object) -> None:
        g = self.graph
        g.outputs.append(g.add_op(self.kind, operands, attributes, out_dtype=out_dtype))


def _unary(*dtypes: str) -> Build:
    def build(case: _Case) -> None:
        rng = case.rng
        dtype = str(rng.choice(dtypes))
        values = _values(rng, shape := _shape(rng), dtype)
        if case.kind == "ABS":  # the lowest value has no absolute value
            values = np.maximum(values, LIMITS[dtype][0] + 1)
        case.done([case.input(shape, dtype, values)])

    return build


def _partner(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(v if rng.integers(3) else 1 for v in shape)


def _binary(
    *dtypes: str, halve: bool = False, shifts: bool = False, **options: list[object]
) -> Build:
    def build(case: _Case) -> None:
        rng = case.rng
        dtype = str(rng.choice(dtypes))
        shape = _shape(rng)
        shapes = _partner(rng, shape), _partner(rng, shape)
        values = [_values(rng, s, dtype) for s in shapes]
        if halve:  # sums stay in range, as the specification requires
            values = [v // 2 for v in values]
        if shifts:
            bits = 8 * np.dtype(dtype).itemsize
            values[1] = rng.integers(0, bits, shapes[1]).astype(dtype)
        if case.kind == "INTDIV":
            values[1] = np.where(values[1] == 0, 7, values[1])
            values[0] = np.maximum(values[0], -(2**31) + 1)
        names = [case.input(s, dtype, v) for s, v in zip(shapes, values, strict=True)]
        attributes = {k: rng.choice(np.array(v)).item() for k, v in options.items()}
        case.done(names, **attributes)

    return build


def _mul(case: _Case) -> None:
    rng = case.rng
    dtype = str(rng.choice(INTS))
    shift = int(rng.integers(31, 64)) if dtype == "int32" and rng.integers(2) else 0
    shape = _shape(rng)
    shapes = _partner(rng, shape), _partner(rng, shape)
    narrow = dtype == "int32" and shift == 0  # the product must fit
    values = [rng.integers(-46340, 46340, s) if narrow else _values(rng, s, dtype) for s in shapes]
    names = [case.input(s, dtype, v) for s, v in zip(shapes, values, strict=True)]
    case.done([*names, case.graph.add_constant("shift", [shift], "int8")])


def _negate(case: _Case) -> None:
    rng = case.rng
    dtype = str(rng.choice(INTS))
    zps = rng.integers(-128, 128, 2) if dtype == "int8" else [0, 0]
    values = np.maximum(_values(rng, shape := _shape(rng), dtype), LIMITS[dtype][0] + 1)
    x = case.input(shape, dtype, np.asarray(values))
    case.done([x, *(case.graph.add_constant("zp", [int(z)], dtype) for z in zps)])


def _select(case: _Case) -> None:
    rng = case.rng
    dtype, shape = str(rng.choice(ANY)), _shape(rng)
    types = ("bool", dtype, dtype)
    case.done([case.input(_partner(rng, shape), t) for t in types])


def _cast(case: _Case) -> None:
    rng = case.rng
    source, target = (str(v) for v in rng.choice(ANY, 2, replace=False))
    case.done([case.input(_shape(rng), source)], target)


def _table16(case: _Case) -> None:
    rng = case.rng
    # Neighbours differ by less than 2^15, as the specification requires.
    entries = _values(rng, (513,), "int16") // 2
    table = case.graph.add_constant("table", entries, "int16")
    case.done([case.input((2, 3, 200), "int16"), table])


def _reduction(*dtypes: str, small: bool = False) -> Build:
    def build(case: _Case) -> None:
        rng = case.rng
        dtype, shape = str(rng.choice(dtypes)), _shape(rng, 1)
        values = _values(rng, shape, dtype)
        x = case.input(shape, dtype, values // 8 if small else values)
        case.done([x], axis=int(rng.integers(len(shape))))

    return build


def _tile(case: _Case) -> None:
    rng = case.rng
    shape = _shape(rng, 1, 5)
    times = case.shape([int(v) for v in rng.integers(1, 4, len(shape))])
    case.done([case.input(shape, str(rng.choice(ANY))), times])


def _move(case: _Case) -> None:
    """REVERSE, TRANSPOSE, RESHAPE, PAD or SLICE of any type and rank."""
    rng = case.rng
    shape, dtype = _shape(rng, 1), str(rng.choice(ANY))
    x = case.input(shape, dtype)
    if case.kind == "REVERSE":
        return case.done([x], axis=int(rng.integers(len(shape))))
    if case.kind == "TRANSPOSE":
        return case.done([x], perms=tuple(int(v) for v in rng.permutation(len(shape))))
    if case.kind == "RESHAPE":
        return case.done([x, case.shape([*(v for v in shape if v > 1)])])
    if case.kind == "PAD":
        pads = case.shape([int(v) for v in rng.integers(0, 3, 2 * len(shape))])
        value = case.graph.add_constant("value", _values(rng, (1,), dtype), dtype)
        return case.done([x, pads, value])
    start = [int(rng.integers(v)) for v in shape]
    size = [int(rng.integers(1, v - a + 1)) for v, a in zip(shape, start, strict=True)]
    return case.done([x, case.shape(start), case.shape(size)])


def _concat(case: _Case) -> None:
    rng = case.rng
    shape, dtype = list(_shape(rng, 1)), str(rng.choice(ANY))
    axis, names = int(rng.integers(len(shape))), []
    for _ in range(int(rng.integers(1, 5))):
        shape[axis] = int(rng.integers(1, 4))
        names.append(case.input(tuple(shape), dtype))
    case.done(names, axis=axis)


def _gather(case: _Case) -> None:
    rng = case.rng
    dtype = str(rng.choice(ANY))
    n, k, w, c = (int(v) for v in rng.integers(1, 8, 4))
    values = case.input((n, k, c), dtype)
    case.done([values, case.input((n, w), "int32", rng.integers(0, k, (n, w)))])


def _scatter(case: _Case) -> None:
    rng = case.rng
    dtype = str(rng.choice(ANY))
    n, w, c = (int(v) for v in rng.integers(1, 8, 3))
    k = w + int(rng.integers(0, 4))
    indices = np.stack([rng.permutation(k)[:w] for _ in range(n)])  # none twice
    values = case.input((n, k, c), dtype)
    where = case.input((n, w), "int32", indices)
    case.done([values, where, case.input((n, w, c), dtype)])


def _resize(case: _Case) -> None:
    rng = case.rng
    mode = str(rng.choice(["NEAREST", "BILINEAR"]))
    h, w = (int(v) for v in rng.integers(1, 9, 2))
    scale, offset, border = [], [], []
    for size in (h, w):
        n = int(rng.integers(1, 9))
        d, at = int(rng.integers(1, min(16 * n, 12))), int(rng.integers(-n, min(n, size * n)))
        span = (size - 1) * n - at
        end = -(span % d) if (span % d) <= 16 * n else 0  # the last step falls on the border
        if span + end < 0:
            end = -span
        scale += [n, d]
        offset.append(at)
        border.append(end)
    dtype = str(rng.choice(["int8", "int16"])) if mode == "NEAREST" else "int8"
    x = case.input((int(rng.integers(1, 3)), h, w, int(rng.integers(1, 5))), dtype)
    case.done([x, case.shape(scale), case.shape(offset), case.shape(border)], mode=mode)


def _weights(case: _Case, ic: int, weight: tuple[int, ...], oc: int) -> list[str]:
    g, rng = case.graph, case.rng
    zps = (g.add_constant("zp", [int(v)], "int8") for v in rng.integers(-128, 128, 2))
    return [
        g.add_constant("w", rng.integers(-128, 128, weight), "int8"),
        g.add_constant("b", rng.integers(-1000, 1000, int(rng.choice([1, oc]))), "int32"),
        *zps,
    ]


def _conv3d(case: _Case) -> None:
    rng = case.rng
    kernel, stride, dilation = (tuple(int(v) for v in rng.integers(1, 4, 3)) for _ in range(3))
    pad = tuple(int(v) for v in rng.integers(0, 3, 6))
    ic, oc = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    sizes = []
    for i in range(3):
        size = int(rng.integers(1, 3)) * stride[i] + (kernel[i] - 1) * dilation[i] + 1
        size -= pad[2 * i] + pad[2 * i + 1]
        sizes.append(size if size > 0 else size + stride[i] * (1 - size))
    x = case.input((int(rng.integers(1, 3)), *sizes, ic), "int8")
    operands = [x, *_weights(case, ic, (oc, *kernel, ic), oc)]
    case.done(operands, pad=pad, stride=stride, dilation=dilation)


def _transpose_conv2d(case: _Case) -> None:
    rng = case.rng
    kh, kw, sy, sx, h, w = (int(v) for v in rng.integers(1, 5, 6))
    pad = [0, 0, 0, 0]
    for i, (size, kernel, stride) in enumerate(((h, kh, sy), (w, kw, sx))):
        reach = (size - 1) * stride + kernel
        for side in (2 * i, 2 * i + 1):
            pad[side] = int(rng.integers(max(1 - kernel, -((reach - 1) // 2)), 3))
    ic, oc = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    x = case.input((int(rng.integers(1, 3)), h, w, ic), "int8")
    operands = [x, *_weights(case, ic, (oc, kh, kw, ic), oc)]
    case.done(operands, out_pad=tuple(pad), stride=(sy, sx))


CASES: dict[str, Build] = {
    **{kind: _binary("int32", halve=True) for kind in ("ADD", "SUB")},
    **{kind: _binary("int32") for kind in ("MAXIMUM", "MINIMUM", "INTDIV")},
    **{kind: _binary(*INTS) for kind in ("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR")},
    **{k: _binary(*INTS, shifts=True) for k in ("LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT")},
    "ARITHMETIC_RIGHT_SHIFT": _binary(*INTS, shifts=True, round=[False, True]),
    **{kind: _binary("bool") for kind in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")},
    **{kind: _binary("int32") for kind in ("EQUAL", "GREATER", "GREATER_EQUAL")},
    "MUL": _mul,
    "ABS": _unary("int32"),
    "CLZ": _unary("int32"),
    "BITWISE_NOT": _unary(*INTS),
    "LOGICAL_NOT": _unary("bool"),
    "IDENTITY": _unary(*ANY),
    "NEGATE": _negate,
    "SELECT": _select,
    "CAST": _cast,
    "TABLE": _table16,
    "REDUCE_SUM": _reduction("int32", small=True),
    "REDUCE_MAX": _reduction(*INTS),
    "REDUCE_MIN": _reduction(*INTS),
    "REDUCE_ALL": _reduction("bool"),
    "REDUCE_ANY": _reduction("bool"),
    "ARGMAX": _reduction("int8", "int16"),
    **dict.fromkeys(("REVERSE", "TRANSPOSE", "RESHAPE", "PAD", "SLICE"), _move),
    "TILE": _tile,
    "CONCAT": _concat,
    "GATHER": _gather,
    "SCATTER": _scatter,
    "RESIZE": _resize,
    "CONV3D": _conv3d,
    "TRANSPOSE_CONV2D": _transpose_conv2d,
}


def random_graph(kind: str, rng: Rng, count: int) -> tuple[Graph, Values]:
    """A graph of `count` operators `kind` side by side, and a value for each of its inputs."""
    case = _Case(kind, rng)
    for _ in range(count):
        CASES[kind](case)
    return case.graph, case.values
