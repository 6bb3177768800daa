"""Random graphs of many TOSA operators that read each other's results.

Each operator alone is tested elsewhere. Here are the neighbours: layers that take what follows them
into their own steps, values that several layers read, moves that vanish into strides.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.numerics import scale_to_multiplier
from sw.compiler.tosa.graph import Graph

Rng = np.random.Generator
NARROW = ("int8", "int16")
LARGEST = {"int8": 128, "int16": 32768, "int32": 1 << 31}
ROOM = 1 << 30
"""What no int32 value may exceed: sums that wrap around are undefined."""


@dataclass(slots=True)
class Maker:
    """A graph in the making. `most`: elements of a value. `reach`: of each value, a bound of its
    magnitude.
    """

    rng: Rng
    most: int
    graph: Graph = field(default_factory=lambda: Graph(name="random"))
    reach: dict[str, int] = field(default_factory=dict)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.tensors[name].shape

    def dtype(self, name: str) -> str:
        return self.graph.tensors[name].dtype

    def pick(self, *dtypes: str, test: Callable[[str], bool] = lambda name: True) -> str | None:
        """A value of such a type, one of the latest more often than others."""
        found = [n for n in self.reach if self.dtype(n) in dtypes and test(n)]
        if not found:
            return None
        back = min(len(found) - 1, int(self.rng.exponential(2.5)))
        return found[-1 - back]

    def constant(self, data: object, dtype: str) -> str:
        return self.graph.add_constant("constant", np.asarray(data), dtype)

    def add(self, kind: str, operands: list[str], reach: int, out: str = "", **more: Any) -> str:
        name = self.graph.add_op(kind, operands, more, out_dtype=out)
        self.reach[name] = reach
        return name

    def chance(self, one_in: int) -> bool:
        return int(self.rng.integers(one_in)) == 0

    # What several makers need ---------------------------------------------------------------------

    def rescaled(self, name: str, dtype: str) -> str:
        """RESCALE to fill a good part of `dtype`, now and then more than that."""
        rng, kind = self.rng, self.dtype(name)
        unsigned = kind == "int8" and dtype != "int32" and self.chance(4)
        width = self.reach[name] * (2 if unsigned else 1)
        goal = min(LARGEST[dtype], 1 << 24) * float(rng.choice([0.3, 0.9, 2.0]))
        many = self.shape(name)[-1] if self.shape(name) and self.chance(3) else 1
        ratios = np.clip(goal / max(1, width) * rng.uniform(0.5, 1.0, many), 2.0**-28, 2.0**20)
        pairs = [scale_to_multiplier(float(r)) for r in ratios]
        zero = int(rng.integers(-128, 128)) if kind == "int8" and not unsigned else 0
        zeros = (zero, int(rng.integers(-128, 128)) if dtype == "int8" else 0)
        operands = [
            name,
            self.constant([m for m, _ in pairs], "int32"),
            self.constant([s for _, s in pairs], "int8"),
            self.constant([zeros[0]], kind),
            self.constant([zeros[1]], dtype),
        ]
        most = LARGEST[dtype]
        if dtype == "int32":
            most = math.ceil((width + abs(zero)) * float(ratios.max()) * 1.01) + 1
            if most > ROOM:
                return name
        return self.add(
            "RESCALE", operands, most, dtype, per_channel=many > 1, input_unsigned=unsigned
        )

    def wide(self, least_rank: int = 0) -> str | None:
        """An int32 value, made of a narrow one if there is none."""
        name = self.pick("int32", *NARROW, test=lambda n: len(self.shape(n)) >= least_rank)
        if name is None or self.dtype(name) == "int32":
            return name
        if self.chance(2):
            return self.add("CAST", [name], self.reach[name], "int32")
        made = self.rescaled(name, "int32")
        return made if self.dtype(made) == "int32" else None

    def partner(self, name: str) -> tuple[str, int]:
        """A value that broadcasts with `name`, and its reach: one of its shape, or a constant."""
        shape, kind = self.shape(name), self.dtype(name)
        other = self.pick(kind, test=lambda n: self.shape(n) == shape)
        if other is not None and not self.chance(3):
            return other, self.reach[other]
        some = tuple(s if self.chance(2) else 1 for s in shape)
        if kind == "bool":
            return self.constant(self.rng.integers(0, 2, some) != 0, kind), 1
        most = min(LARGEST[kind], int(2 ** self.rng.uniform(1, 20)))
        return self.constant(self.rng.integers(-most, most, some), kind), most


# Operators: each adds one, or nothing where no value suits ----------------------------------------


def _rescale(m: Maker) -> None:
    name = m.pick("int8", "int16", "int32")
    if name is not None:
        m.rescaled(name, str(m.rng.choice(["int8", "int8", "int16", "int32"])))


def _clamp(m: Maker) -> None:
    name = m.pick(*NARROW)
    if name is not None:
        most = LARGEST[m.dtype(name)]
        low, high = sorted(int(v) for v in m.rng.integers(-most, most, 2))
        m.add("CLAMP", [name], m.reach[name], min_val=low, max_val=high)


def _table(m: Maker) -> None:
    name = m.pick(*NARROW)
    if name is None:
        return
    if m.dtype(name) == "int8":
        entries = m.constant(m.rng.integers(-128, 128, 256), "int8")
        m.add("TABLE", [name, entries], 128)
    else:
        walk = np.cumsum(m.rng.integers(-200, 201, 513))
        m.add("TABLE", [name, m.constant(np.clip(walk, -32768, 32767), "int16")], 1 << 22)


def _sum(m: Maker) -> None:
    a = m.wide()
    if a is None:
        return
    b, most = m.partner(a)
    kind = str(m.rng.choice(["ADD", "SUB", "ADD", "MAXIMUM", "MINIMUM"]))
    reach = m.reach[a] + most if kind in ("ADD", "SUB") else max(m.reach[a], most)
    if reach <= ROOM:
        operands = [b, a] if m.chance(3) else [a, b]
        m.add(kind, operands, reach)


def _product(m: Maker) -> None:
    a = m.wide()
    if a is None:
        return
    b, most = m.partner(a)
    bits = (m.reach[a] * most).bit_length()
    shift = max(0, bits - 30) if m.chance(2) else 0
    if bits - shift <= 30 and shift < 63:
        m.add("MUL", [a, b, m.constant([shift], "int8")], (m.reach[a] * most >> shift) + 1)


def _compare(m: Maker) -> None:
    a = m.wide()
    if a is not None:
        kind = str(m.rng.choice(["EQUAL", "GREATER", "GREATER_EQUAL"]))
        m.add(kind, [a, m.partner(a)[0]], 1)


def _select(m: Maker) -> None:
    which = m.pick("bool")
    if which is None:
        return
    shape = m.shape(which)
    a = m.pick("int8", "int16", "int32", "bool", test=lambda n: m.shape(n) == shape)
    if a is not None:
        b, most = m.partner(a)
        operands = [which, b, a] if m.chance(2) else [which, a, b]
        m.add("SELECT", operands, max(m.reach[a], most))


def _logic(m: Maker) -> None:
    a = m.pick("bool")
    if a is None:
        return
    if m.chance(4):
        m.add("LOGICAL_NOT", [a], 1)
    else:
        kind = str(m.rng.choice(["LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR"]))
        m.add(kind, [a, m.partner(a)[0]], 1)


def _bits(m: Maker) -> None:
    a = m.pick("int8", "int16", "int32")
    if a is None:
        return
    b, most = m.partner(a)
    reach = 1 << max(m.reach[a], most).bit_length()
    if reach <= ROOM or m.dtype(a) != "int32":
        kind = str(m.rng.choice(["BITWISE_AND", "BITWISE_OR", "BITWISE_XOR"]))
        m.add(kind, [a, b], reach)


def _shift(m: Maker) -> None:
    a = m.wide()
    if a is None:
        return
    shape = tuple(s if m.chance(2) else 1 for s in m.shape(a))
    by = m.constant(m.rng.integers(0, 8, shape), "int32")
    kind = str(m.rng.choice(["ARITHMETIC_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT"]))
    if kind == "LOGICAL_LEFT_SHIFT":
        if m.reach[a] << 7 <= ROOM:
            m.add(kind, [a, by], m.reach[a] << 7)
    else:
        m.add(kind, [a, by], m.reach[a], round=bool(m.chance(2)))


def _unary(m: Maker) -> None:
    a = m.wide()
    if a is None:
        return
    if m.chance(2):
        m.add("ABS", [a], m.reach[a])
    elif m.chance(2):
        zeros = [m.constant([0], "int32") for _ in range(2)]
        m.add("NEGATE", [a, *zeros], m.reach[a])
    else:
        m.add("CLZ", [a], 32)


def _cast(m: Maker) -> None:
    name = m.pick("bool", "int8", "int16", "int32")
    if name is not None:
        to = [t for t in ("int8", "int16", "int32") if t != m.dtype(name)]
        kind = str(m.rng.choice(to))
        m.add("CAST", [name], min(m.reach[name], LARGEST[kind]), kind)


def _reduce(m: Maker) -> None:
    a = m.wide(1)
    if a is None:
        return
    axis = int(m.rng.integers(len(m.shape(a))))
    kind = str(m.rng.choice(["REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN"]))
    reach = m.reach[a] * (m.shape(a)[axis] if kind == "REDUCE_SUM" else 1)
    if reach <= ROOM:
        m.add(kind, [a], reach, axis=axis)


def _argmax(m: Maker) -> None:
    name = m.pick(*NARROW, test=lambda n: len(m.shape(n)) > 1)
    if name is not None:
        axis = int(m.rng.integers(len(m.shape(name))))
        m.add("ARGMAX", [name], m.shape(name)[axis], axis=axis)


def _move(m: Maker) -> None:
    name = m.pick("bool", "int8", "int16", "int32", test=lambda n: len(m.shape(n)) > 0)
    if name is None:
        return
    shape, reach, rng = m.shape(name), m.reach[name], m.rng
    rank, axis = len(shape), int(rng.integers(len(shape)))
    which = int(rng.integers(7))
    if which == 0:
        m.add("TRANSPOSE", [name], reach, perms=[int(p) for p in rng.permutation(rank)])
    elif which == 1:
        sizes = [math.prod(shape)]
        for divisor in (2, 3, 5, 7):
            while sizes[0] % divisor == 0 and len(sizes) < 5 and m.chance(2):
                sizes = [sizes[0] // divisor, divisor, *sizes[1:]]
        m.add(
            "RESHAPE", [name, m.constant([int(v) for v in rng.permutation(sizes)], "shape")], reach
        )
    elif which == 2:
        start = [int(rng.integers(s)) for s in shape]
        size = [int(rng.integers(1, s - at + 1)) for s, at in zip(shape, start, strict=True)]
        m.add("SLICE", [name, m.constant(start, "shape"), m.constant(size, "shape")], reach)
    elif which == 3:
        m.add("REVERSE", [name], reach, axis=axis)
    elif which == 4:
        others = m.pick(
            m.dtype(name),
            test=lambda n: (
                len(m.shape(n)) == rank
                and all(
                    a == b or i == axis
                    for i, (a, b) in enumerate(zip(m.shape(n), shape, strict=True))
                )
            ),
        )
        parts = [name, others or name][:: 1 if m.chance(2) else -1]
        if sum(math.prod(m.shape(p)) for p in parts) <= m.most:
            m.add("CONCAT", parts, max(m.reach[p] for p in parts), axis=axis)
    elif which == 5:
        pads = [int(v) for v in rng.integers(0, 3, 2 * rank)]
        grown = math.prod(s + a + b for s, a, b in zip(shape, pads[::2], pads[1::2], strict=True))
        if grown <= m.most:
            kind = m.dtype(name)
            value = m.constant([0 if kind == "bool" else int(rng.integers(-100, 100))], kind)
            m.add("PAD", [name, m.constant(pads, "shape"), value], max(reach, 100))
    else:
        times = [int(v) for v in rng.choice([1, 1, 2], rank)]
        if math.prod(shape) * math.prod(times) <= m.most:
            m.add("TILE", [name, m.constant(times, "shape")], reach)


def _image(m: Maker) -> str | None:
    return m.pick("int8", test=lambda n: len(m.shape(n)) == 4)


def _conv(m: Maker) -> None:
    name = _image(m)
    if name is None:
        return
    rng, (_, h, w, c) = m.rng, m.shape(name)
    kernel = [int(rng.integers(1, min(4, size + 3))) for size in (h, w)]
    pads = [int(v) for v in rng.integers(0, 2, 4)]
    kernel = [
        min(k, s + a + b) for k, s, a, b in zip(kernel, (h, w), pads[::2], pads[1::2], strict=True)
    ]
    if m.chance(3):
        kind, shape, many = "DEPTHWISE_CONV2D", (*kernel, c, 1), c
        taps = math.prod(kernel)
    else:
        many = int(rng.choice([1, 5, 9, 20]))
        kind, shape, taps = "CONV2D", (many, *kernel, c), math.prod(kernel) * c
    operands = [
        name,
        m.constant(rng.integers(-127, 128, shape), "int8"),
        m.constant(rng.integers(-5000, 5000, many), "int32"),
        m.constant([int(rng.integers(-128, 128))], "int8"),
        m.constant([0], "int8"),
    ]
    reach = taps * 256 * 127 + 5000
    strides = [int(v) for v in rng.choice([1, 1, 2, 3], 2)]
    for i, (size, k, by) in enumerate(zip((h, w), kernel, strides, strict=True)):
        # The last window leaves nothing over.
        pads[2 * i + 1] += -(size + pads[2 * i] + pads[2 * i + 1] - k) % by
    made = m.add(kind, operands, reach, pad=pads, stride=strides, dilation=[1, 1])
    _narrowed(m, made)


def _narrowed(m: Maker, made: str) -> None:
    """Most products are rescaled at once."""
    if not m.chance(4):
        m.rescaled(made, str(m.rng.choice(["int8", "int8", "int16"])))


def _transposed(m: Maker) -> None:
    name = _image(m)
    if name is None:
        return
    rng, c = m.rng, m.shape(name)[-1]
    kernel, strides = ([int(v) for v in rng.integers(1, 4, 2)] for _ in range(2))
    cut = [int(rng.integers(1 - min(k, 2), 2)) for k in kernel for _ in range(2)]
    many = int(rng.choice([1, 5, 9]))
    operands = [
        name,
        m.constant(rng.integers(-127, 128, (many, *kernel, c)), "int8"),
        m.constant(rng.integers(-5000, 5000, many), "int32"),
        m.constant([int(rng.integers(-128, 128))], "int8"),
        m.constant([0], "int8"),
    ]
    _, h, w, _ = m.shape(name)
    sizes = [
        (n - 1) * by + a + b + k
        for n, by, k, a, b in zip((h, w), strides, kernel, cut[::2], cut[1::2], strict=True)
    ]
    if min(sizes) > 0 and math.prod(sizes) * many <= m.most:
        reach = math.prod(kernel) * c * 256 * 127 + 5000
        made = m.add("TRANSPOSE_CONV2D", operands, reach, out_pad=cut, stride=strides)
        _narrowed(m, made)


def _gather(m: Maker) -> None:
    name = m.pick("int8", "int16", "int32", test=lambda n: len(m.shape(n)) == 3)
    if name is not None:
        n, k, _ = m.shape(name)
        rows = m.constant(m.rng.integers(0, k, (n, int(m.rng.integers(1, 9)))), "int32")
        m.add("GATHER", [name, rows], m.reach[name])


def _matmul(m: Maker) -> None:
    a = m.pick("int8", test=lambda n: len(m.shape(n)) == 3)
    if a is None:
        return
    n, _, depth = m.shape(a)
    b = m.pick("int8", test=lambda x: m.shape(x)[:2] == (n, depth) and len(m.shape(x)) == 3)
    if b is None:
        b = m.constant(m.rng.integers(-128, 128, (n, depth, int(m.rng.choice([1, 4, 11])))), "int8")
    zeros = [m.constant([int(m.rng.integers(-128, 128))], "int8") for _ in range(2)]
    m.add("MATMUL", [a, b, *zeros], depth * 256 * 256)


def _pool(m: Maker) -> None:
    name = _image(m)
    if name is None:
        return
    _, h, w, _ = m.shape(name)
    kernel = [int(m.rng.integers(1, min(size, 3) + 1)) for size in (h, w)]
    more: dict[str, Any] = {"kernel": kernel, "stride": [1, 1], "pad": [0, 0, 0, 0]}
    if m.chance(2):
        m.add("MAX_POOL2D", [name], m.reach[name], **more)
    else:
        zeros = [m.constant([int(m.rng.integers(-128, 128))], "int8") for _ in range(2)]
        m.add("AVG_POOL2D", [name, *zeros], 128, acc_type="int32", **more)


def _resize(m: Maker) -> None:
    name = _image(m)
    if name is None or 4 * math.prod(m.shape(name)) > m.most:
        return
    operands = [m.constant(v, "shape") for v in ([2, 1, 2, 1], [0, 0], [0, 0])]
    if m.chance(2):
        m.add("RESIZE", [name, *operands], m.reach[name], mode="NEAREST")
    else:
        m.add("RESIZE", [name, *operands], 4 * m.reach[name], "int32", mode="BILINEAR")


STEPS = (
    *(_rescale, _rescale, _rescale, _clamp, _table, _sum, _sum, _product, _compare, _select),
    *(_select, _logic, _bits, _shift, _unary, _cast, _reduce, _argmax, _move, _move, _move),
    *(_conv, _conv, _transposed, _gather, _matmul, _pool, _resize),
)
IMAGES = ((1, 4, 6, 5), (1, 3, 5, 8), (2, 5, 3, 4), (1, 1, 7, 17))
ROWS = ((3, 7, 9), (2, 9, 4), (6, 11), (40,))


def random_graph(seed: int, operators: int, large: int = 1) -> Graph:
    """A graph of about so many operators, all of whose ends are outputs, and some inner values.

    large: images have so many times as many rows and columns, rows so many times as many values.
    """
    m = Maker(np.random.default_rng(seed), 4096 * large**2)
    shapes: list[tuple[int, ...]] = [(n, h * large, w * large, c) for n, h, w, c in IMAGES]
    shapes += [(*some, last * large) for *some, last in ROWS]
    for _ in range(int(m.rng.integers(1, 4))):
        shape = shapes[int(m.rng.integers(len(shapes)))]
        dtype = str(m.rng.choice(["int8", "int8", "int8", "int16", "int32", "bool"]))
        for _ in range(int(m.rng.integers(1, 3))):
            name = m.graph.add_input(f"x{len(m.graph.inputs)}", shape, dtype)
            m.reach[name] = {"bool": 1, "int32": 1 << 20}.get(dtype, LARGEST.get(dtype, 1))
    for _ in range(20 * operators):
        if len(m.graph.ops) >= operators:
            break
        STEPS[int(m.rng.integers(len(STEPS)))](m)
    read = {name for op in m.graph.ops for name in op.inputs}
    made = [name for op in m.graph.ops for name in op.outputs]
    m.graph.outputs = [n for n in made if n not in read or m.chance(12)]
    used = {n for op in m.graph.ops for n in op.inputs}
    m.graph.inputs = [n for n in m.graph.inputs if n in used]
    return m.graph


def random_values(graph: Graph, seed: int) -> dict[str, NDArray[Any]]:
    """Values of the inputs, of which int32 has 20 bits."""
    rng, values = np.random.default_rng(seed), {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        most = {"bool": 1, "int32": 1 << 20}.get(tensor.dtype, LARGEST.get(tensor.dtype, 1))
        low, high = (0, 2) if tensor.dtype == "bool" else (-most, most)
        values[name] = rng.integers(low, high, tensor.shape).astype(np.dtype(tensor.dtype))
    return values
