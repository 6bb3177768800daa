"""Random networks: every kind of layer on tensors that others read too, cut, joined and moved.

    python tests/random_networks.py --first 0 --count 500 [--rtl] [--config tiny]

compiles each, runs it on the golden model (or the RTL), and compares every output with the
interpreter of TOSA graphs. A seed that fails is printed with its error.
"""

import argparse
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale, zero_point

from spec.config import NpuConfig, preset
from sw.compiler.errors import CompileError
from sw.compiler.pipeline import compile_graph
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.rtl import RtlDevice
from sw.runtime.session import run_image

Rng = np.random.Generator
CONFIGS = ("tiny", "odd", "rect", "default", "small")
LARGEST = 12_000
"""Elements of a tensor, at most."""


class _Net:
    """A graph that grows by layers; `tensors` have four dimensions and types int8 and int16."""

    def __init__(self, rng: Rng) -> None:
        self.rng, self.graph = rng, Graph(name="network")
        self.tensors: list[str] = []
        for i in range(int(rng.integers(1, 3))):
            shape = (1, *(int(rng.integers(1, 13)) for _ in range(2)), int(rng.integers(1, 40)))
            dtype = "int8" if rng.integers(3) else "int16"
            self.tensors.append(self.graph.add_input(f"x{i}", shape, dtype))

    # What there is ----------------------------------------------------------------------------

    def shape(self, x: str) -> tuple[int, ...]:
        return self.graph.tensors[x].shape

    def dtype(self, x: str) -> str:
        return self.graph.tensors[x].dtype

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def pick(self, *dtypes: str) -> str:
        """A tensor, most often one of the last; of another type it is rescaled."""
        recent = self.tensors[-3:] if self.rng.integers(4) else self.tensors
        x = str(self.rng.choice(recent))
        return x if not dtypes or self.dtype(x) in dtypes else self.narrow(x, dtypes[0])

    def narrow(self, x: str, dtype: str, scale: float | None = None) -> str:
        """`x` rescaled to int8 or int16, by one scale or one for each channel."""
        bits = {"int8": 8, "int16": 16, "int32": 20}
        usual = 2.0 ** (bits[dtype] - bits[self.dtype(x)])
        if scale is None:
            scale = usual * float(self.rng.uniform(0.4, 1.6))
        channels = self.shape(x)[-1]
        many = channels > 1 and self.rng.integers(4) == 0
        scales = list(scale * self.rng.uniform(0.5, 1.2, channels)) if many else scale
        zp = int(self.rng.integers(-9, 10)) if dtype == "int8" else 0
        return rescale(self.graph, x, scales, zp, dtype)

    def wide(self, x: str) -> str:
        """`x` as int32: cast, or rescaled as PyTorch's quantized sums are."""
        if self.dtype(x) == "int32":
            return x
        if self.rng.integers(2):
            return self.graph.add_op("CAST", [x], out_dtype="int32")
        return rescale(self.graph, x, float(self.rng.uniform(0.3, 1.9)), 0, "int32", self._zp(x))

    def _zp(self, x: str) -> int:
        return int(self.rng.integers(-9, 10)) if self.dtype(x) == "int8" else 0

    def result(self, x: str) -> None:
        """Keep an int32 or narrow tensor for others, perhaps clamped or looked up."""
        if self.dtype(x) == "int32":
            x = self.narrow(x, self.one_of("int8", "int8", "int16"), self._fitting(x))
        if self.rng.integers(4) == 0:
            x = self.graph.add_op("CLAMP", [x], {"min_val": -100, "max_val": 90})
        if self.rng.integers(5) == 0 and self.dtype(x) == "int8":
            entries = self.rng.integers(-128, 128, 256)
            x = self.graph.add_op("TABLE", [x, self.graph.add_constant("t", entries, "int8")])
        self.tensors.append(x)

    def _fitting(self, x: str) -> float:
        """Any scale will do: what is too large saturates."""
        return float(2.0 ** self.rng.uniform(-12, -3))

    def constant(self, shape: tuple[int, ...], dtype: str = "int32") -> str:
        """Random numbers, or one number everywhere: 0, 1 or another."""
        high = 100 if dtype == "int8" else 3000
        values = self.rng.integers(-high, high, shape)
        if self.rng.integers(2):
            values = np.full(shape, self.one_of(0, 0, 1, -1, 77))
        return self.graph.add_constant("c", values, dtype)

    # Layers -----------------------------------------------------------------------------------

    def conv(self) -> None:
        g, rng, x = self.graph, self.rng, self.pick("int8")
        _, h, w, c = self.shape(x)
        k, stride = (self.one_of(1, 1, 2, 3) for _ in range(2))
        pad = int(rng.integers(0, k))
        weight = g.add_constant("w", rng.integers(-127, 128, (self._channels(), k, k, c)), "int8")
        bias = self.constant((g.tensors[weight].shape[0],))
        # As much at the end as the last step needs.
        ends = [max(0, k - pad - size) + (-(max(k, size + pad) - k)) % stride for size in (h, w)]
        operands = [x, weight, bias, zero_point(g, self._zp(x)), zero_point(g, 0)]
        attributes = {"pad": (pad, ends[0], pad, ends[1]), "stride": (stride, stride)}
        self._behind_product(g.add_op("CONV2D", operands, attributes))

    def _channels(self) -> int:
        return self.one_of(1, 3, 8, 16, 17, 24, 32, 40)

    def _behind_product(self, x: str) -> None:
        """Factors, offsets and a residual may come before the RESCALE of a product."""
        g = self.graph
        shape = self.shape(x)
        if self.rng.integers(4) == 0:
            x = g.add_op("ADD", [x, self.constant((1, 1, 1, shape[-1]))])
        partners = [t for t in self.tensors if self.shape(t) == shape]
        if partners and self.rng.integers(2):
            made = self.narrow(x, self.one_of("int8", "int16"), self._fitting(x))
            other = str(self.rng.choice(partners))
            x = g.add_op(self.one_of("ADD", "SUB"), [self.wide(made), self.wide(other)])
        self.result(x)

    def depthwise(self) -> None:
        g, rng, x = self.graph, self.rng, self.pick("int8")
        c = self.shape(x)[-1]
        k = self.one_of(1, 3, 5)
        pad = k // 2
        weight = g.add_constant("w", rng.integers(-127, 128, (k, k, c, 1)), "int8")
        operands = [x, weight, self.constant((c,)), zero_point(g, self._zp(x)), zero_point(g, 0)]
        attributes = {"pad": (pad,) * 4, "stride": (1, 1), "dilation": (1, 1)}
        self._behind_product(g.add_op("DEPTHWISE_CONV2D", operands, attributes))

    def attention(self) -> None:
        """x · xᵀ, or a product with another tensor of as many channels, then RESCALE."""
        g, x = self.graph, self.pick("int8")
        n, h, w, c = self.shape(x)
        if h * w > 80:
            return
        flat = g.add_op("RESHAPE", [x, g.add_constant("s", (n, h * w, c), "shape")])
        turned = g.add_op("TRANSPOSE", [flat], {"perms": (0, 2, 1)})
        operands = [flat, turned, zero_point(g, self._zp(x)), zero_point(g, 0)]
        y = g.add_op("MATMUL", operands)
        scores = g.add_op("RESHAPE", [y, g.add_constant("s", (n, h, w, h * w), "shape")])
        self.result(scores)

    def pool(self) -> None:
        g, x = self.graph, self.pick()
        shape = {"kernel": (2, 2), "stride": (2, 2), "pad": (0,) * 4}
        if self.rng.integers(2):
            shape = {"kernel": (3, 3), "stride": (1, 1), "pad": (1,) * 4}
        _, h, w, _ = self.shape(x)
        if min(h, w) < 3 or (shape["stride"] == (2, 2) and (h % 2 or w % 2)):
            return
        if self.dtype(x) == "int8" and self.rng.integers(2):
            self.result(g.add_op("AVG_POOL2D", [x, zero_point(g, 0), zero_point(g, 0)], shape))
        else:
            self.result(g.add_op("MAX_POOL2D", [x], shape))

    def combine(self) -> None:
        """A chain of binary operators, with another tensor or a constant, in both orders."""
        g, rng = self.graph, self.rng
        x = self.pick()
        y = self.wide(x)
        for _ in range(int(rng.integers(1, 4))):
            partners = [t for t in self.tensors if self._broadcasts(self.shape(t), self.shape(y))]
            kind = self.one_of("ADD", "SUB", "MAXIMUM", "MINIMUM", "MUL")
            if kind == "MUL":
                y = self.wide(self.narrow(y, "int8", 2.0 ** -int(rng.integers(2, 10))))
            if rng.integers(3) and partners:
                other = self.wide(str(rng.choice(partners)))
            else:
                shape = (1, 1, 1, self.shape(y)[-1] if rng.integers(2) else 1)
                other = self.constant(shape)
            operands = [y, other] if rng.integers(3) else [other, y]
            y = g.add_op(kind, [*operands, zero_point(g, 0)] if kind == "MUL" else operands)
        self.result(y)

    @staticmethod
    def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        return all(m == n or m == 1 for m, n in zip(a, b, strict=True))

    def scale_and_shift(self) -> None:
        """Batch norm, a layer of its own."""
        g, x = self.graph, self.pick("int16")
        shape = (1, 1, 1, self.shape(x)[-1])
        y = g.add_op("CAST", [x], out_dtype="int32")
        y = g.add_op("MUL", [y, self.constant(shape), zero_point(g, 0)])
        self.result(g.add_op("ADD", [y, self.constant(shape)]))

    def gate(self) -> None:
        """Squeeze and excite: channels times their means."""
        g, x = self.graph, self.pick("int8")
        total = self.wide(x)
        axes = (1, 2) if self.rng.integers(2) else (3,)
        for axis in axes:
            total = g.add_op(self.one_of("REDUCE_SUM", "REDUCE_MAX"), [total], {"axis": axis})
        mean = self.narrow(total, "int8", 2.0**-5)
        operands = [self.wide(x), self.wide(mean), zero_point(g, 0)]
        self.result(g.add_op("MUL", operands))
        if self.rng.integers(2):
            self.tensors.insert(0, mean)

    def choose(self) -> None:
        g, x = self.graph, self.pick()
        y = self.wide(x)
        other = self.constant((1, 1, 1, self.shape(x)[-1]))
        mask = g.add_op(self.one_of("GREATER", "EQUAL"), [y, other])
        self.result(g.add_op("SELECT", [mask, y, other]))

    def look_up(self) -> None:
        g, x = self.graph, self.pick("int16")
        entries = np.cumsum(self.rng.integers(-60, 80, 513)).clip(-32768, 32767)
        self.result(g.add_op("TABLE", [x, g.add_constant("t", entries, "int16")]))

    # Moves ------------------------------------------------------------------------------------

    def _sliced(self, x: str, axis: int, start: int, size: int) -> str:
        g, shape = self.graph, self.shape(x)
        at = [start if i == axis else 0 for i in range(4)]
        sizes = [size if i == axis else n for i, n in enumerate(shape)]
        operands = [x, g.add_constant("a", at, "shape"), g.add_constant("b", sizes, "shape")]
        return g.add_op("SLICE", operands)

    def split(self) -> None:
        """Pieces of a tensor along one axis; some are kept."""
        x = self.pick()
        axis = self.one_of(1, 2, 3, 3, 3)
        n = self.shape(x)[axis]
        if n < 2:
            return
        at = int(self.rng.integers(1, n))
        pieces = [self._sliced(x, axis, 0, at), self._sliced(x, axis, at, n - at)]
        self.tensors += pieces if self.rng.integers(3) else pieces[:1]

    def join(self) -> None:
        """A CONCAT of tensors that fit, of constants, and perhaps of one twice."""
        g, x = self.graph, self.pick()
        axis = self.one_of(1, 2, 3, 3, 3)
        alike = [
            t
            for t in self.tensors
            if self.dtype(t) == self.dtype(x)
            and all(i == axis or a == b for i, (a, b) in enumerate(zip(*map(self.shape, (t, x)))))
        ]
        parts = [x, *map(str, self.rng.choice(alike, int(self.rng.integers(0, 3))))]
        if self.rng.integers(5) == 0:
            shape = tuple(2 if i == axis else n for i, n in enumerate(self.shape(x)))
            parts.append(self.constant(shape, self.dtype(x)))
        if len(parts) < 2:
            return
        order = [parts[int(i)] for i in self.rng.permutation(len(parts))]
        self.tensors.append(g.add_op("CONCAT", order, {"axis": axis}))

    def move(self) -> None:
        g, rng, x = self.graph, self.rng, self.pick()
        n, h, w, c = self.shape(x)
        kind = int(rng.integers(6))
        if kind == 0:
            order = (0, *(1 + int(p) for p in rng.permutation(3)))
            x = g.add_op("TRANSPOSE", [x], {"perms": order})
        elif kind == 1:
            shape = self.one_of((n, w, h, c), (n, h * w, 1, c), (n, 1, h, w * c), (n, h, c, w))
            x = g.add_op("RESHAPE", [x, g.add_constant("s", shape, "shape")])
        elif kind == 2:
            pads = [0, 0, *(int(p) for p in rng.integers(0, 3, 6))]
            fill = zero_point(g, self._zp(x), self.dtype(x))
            x = g.add_op("PAD", [x, g.add_constant("p", pads, "shape"), fill])
        elif kind == 3:
            x = g.add_op("REVERSE", [x], {"axis": int(rng.integers(1, 4))})
        elif kind == 4:
            times = self.one_of((1, 1, 2, 1), (1, 1, 1, 2), (1, 2, 1, 1))
            x = g.add_op("TILE", [x, g.add_constant("t", times, "shape")])
        elif self.dtype(x) == "int8" and h > 1 and w > 1:
            steps = {"scale": (2, 1, 2, 1), "offset": (0, 0), "border": (1, 1)}
            operands = [x, *(g.add_constant(k, v, "shape") for k, v in steps.items())]
            x = g.add_op("RESIZE", operands, {"mode": "NEAREST"}, out_dtype="int8")
        self.tensors.append(x)

    def grow(self) -> None:
        layers: tuple[Callable[[], None], ...] = (
            *(self.conv,) * 3,
            *(self.depthwise,) * 2,
            self.attention,
            self.pool,
            *(self.combine,) * 3,
            self.scale_and_shift,
            self.gate,
            self.choose,
            self.look_up,
            *(self.split,) * 2,
            *(self.join,) * 3,
            *(self.move,) * 2,
        )
        layers[int(self.rng.integers(len(layers)))]()
        self.tensors = [t for t in self.tensors if self.graph.tensors[t].size <= LARGEST]


def random_network(seed: int) -> Graph:
    """Up to 14 layers; the last tensor and perhaps others are outputs."""
    rng = np.random.default_rng(seed)
    net = _Net(rng)
    for _ in range(int(rng.integers(3, 15))):
        net.grow()
    g = net.graph
    made = [t for t in dict.fromkeys(net.tensors) if t not in g.inputs]
    made = [t for t in made if not g.tensors[t].is_constant]
    if not made:
        return random_network(seed + (1 << 32))
    g.outputs = list(dict.fromkeys([*(t for t in made[:-1] if rng.integers(5) == 0), made[-1]]))
    g.verify()
    return g


def random_config(rng: Rng) -> NpuConfig:
    """A preset, sometimes with another size of memory or number of banks."""
    config = preset(str(rng.choice(CONFIGS)))
    if rng.integers(3) == 0:
        config = replace(config, spad_kib=config.spad_kib * 2)
    return config


def check(seed: int, config: NpuConfig | None = None) -> int:
    """Compare one network on the golden model; the number of elements compared."""
    g = random_network(seed)
    chosen = config or random_config(np.random.default_rng(seed))
    return assert_compiles_exactly(g, chosen, random_inputs(g, seed))


def check_on_rtl(seed: int, device: RtlDevice) -> int:
    """The same on the simulated RTL."""
    g = random_network(seed)
    inputs = random_inputs(g, seed)
    got, _ = run_image(compile_graph(g, device.config), inputs, device)
    want = run_graph(g, inputs)
    for name in g.outputs:
        np.testing.assert_array_equal(got[name], want[name], err_msg=f"seed {seed}: {name}")
    return sum(want[name].size for name in g.outputs)


def run_seeds(seeds: Iterable[int], compare: Callable[[int], int]) -> int:
    """Compare each, tell about those that fail; how many did. What a configuration lacks is none.

    `compare`: of a seed, the number of elements that are equal.
    """
    count = failed = refused = elements = 0
    for seed in seeds:
        count += 1
        try:
            elements += compare(seed)
        except CompileError as error:
            refused += 1
            print(f"seed {seed}: refused: {' '.join(str(error).split())[:300]}", flush=True)
        except Exception as error:
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(str(error).split())[:300]
            print(f"seed {seed}: {type(error).__name__} in {where.name}: {text}", flush=True)
    exact = count - failed - refused
    print(f"{exact} networks exact, {refused} refused, {failed} failed, {elements:,} elements")
    return failed


def main() -> int:
    """Returns 1 if a seed fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--config", help="without: another one for each seed; tiny on the RTL")
    parser.add_argument("--rtl", action="store_true")
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.count)
    if args.rtl:
        with RtlDevice(preset(args.config or "tiny"), stall=0.2) as device:
            return int(run_seeds(seeds, lambda seed: check_on_rtl(seed, device)) > 0)
    config = preset(args.config) if args.config else None
    return int(run_seeds(seeds, lambda seed: check(seed, config)) > 0)


if __name__ == "__main__":
    sys.exit(main())
