"""FusedLayer: a short VECTOR program over tiles of operands that broadcast.

Registers hold tensors, tile by tile: first the sources, then what the steps write. A register
spans a dimension or has one element along it, so broadcasting and reductions are only differences
between what registers span.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.isa import LOOPS, DType, Engine, Reduce
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.operands import Epilogue
from sw.compiler.kernels.views import View
from sw.compiler.program.records import ArithmeticFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Elements of type `kind`; `spans`: by dimension, whether it has more than one there.

    `acc`: it may lie in the accumulator, a vector of lanes along the last dimension, as steps read
    it as A only and write nothing that wraps.
    """

    kind: DType
    spans: tuple[bool, ...]
    acc: bool = False

    def extents(self, tile: tuple[int, ...]) -> tuple[int, ...]:
        """Its size in a tile, by dimension."""
        return tuple(n if span else 1 for n, span in zip(tile, self.spans, strict=True))

    def nbytes(self, tile: tuple[int, ...]) -> int:
        return prod(self.extents(tile)) * self.kind.bytes

    def vectors(self, tile: tuple[int, ...], cols: int) -> int:
        """Vectors of the accumulator that it takes."""
        *outer, last = self.extents(tile)
        return prod(outer) * -(-last // cols)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an operand lies in memory: root, byte offset, byte strides by dimension."""

    tensor: str
    dtype: str
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Where a register goes: the view of its whole tensor, byte offset and strides by dimension."""

    register: int
    view: View
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedStep:
    """One VECTOR: registers a and b (None: no operand, or an immediate) to register `out`.

    `values`: fields of the VECTOR besides places and loops. `reduce`: combines along `axis`.
    `lookup`, `params`: numbers of the layer's TABLE and parameters that it uses, or −1.
    """

    a: int
    out: int
    b: int | None = None
    values: ArithmeticFields = field(default_factory=ArithmeticFields)
    reduce: Reduce = Reduce.NONE
    axis: int = -1
    lookup: int = -1
    params: int = -1

    def __str__(self) -> str:
        operands = f"r{self.a}" + (f", r{self.b}" if self.b is not None else "")
        fields = " ".join(f"{k}={v}" for k, v in self.values.items())
        reduce = f" {self.reduce.name} over {self.axis}" if self.reduce else ""
        params = f" params {self.params}" if self.params >= 0 else ""
        return f"r{self.out} = ({operands}) {fields}{reduce}{params}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """An int8 operand in memory; byte strides by dimension of the layer, and along the sum.

    One operand has no stride along columns, the other none along rows.
    """

    tensor: str
    offset: int
    strides: tuple[int, ...]
    along: int
    zero_point: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """`register` is Σ_k (left[…, row, k] − zp)·(right[…, k, col] − zp), k below `depth`.

    `transposed`: of `right` elements along the sum are neighbours in memory, not those of columns.
    """

    register: int
    left: Factor
    right: Factor
    depth: int
    transposed: bool

    def nbytes(self, tile: tuple[int, ...]) -> tuple[int, int]:
        """Bytes of both operands in a tile."""
        return tile[-2] * self.depth, self.depth * tile[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedLayer(Layer):
    """Elementwise operators and reductions over dimensions `shape`.

    `output` is the view of the first of `results`. `whole`: dimensions that no tile may cut.
    `tables`: what steps with TABLE look up. `params`: parameters along the last dimension, which
    then is whole. `product`: a register that the layer computes as a product; of the dimensions
    before rows and columns a tile then has one, and `product_name` is its MATMUL.
    """

    engine: ClassVar[Engine] = Engine.VECTOR

    shape: tuple[int, ...]
    sources: tuple[Source, ...]
    registers: tuple[Register, ...]
    steps: tuple[FusedStep, ...]
    results: tuple[Result, ...]
    whole: frozenset[int] = frozenset()
    tables: tuple[NDArray[np.generic], ...] = ()
    params: tuple[Epilogue, ...] = ()
    product: Product | None = None
    product_name: str = ""

    @property
    def inputs(self) -> tuple[View, ...]:
        return tuple(
            View(tensor=s.tensor, dtype=s.dtype, shape=(1, 1, 1, 1), strides=(0, 0, 0))
            for s in (
                *self.sources,
                *(() if self.product is None else self._factors(self.product)),
            )
        )

    @property
    def memory_views(self) -> tuple[View, ...]:
        inputs, count = self.inputs, len(self.sources)
        sources = zip(self.sources, inputs[:count], strict=True)
        places = [(i, s.strides, view) for i, (s, view) in enumerate(sources)]
        places += [(r.register, r.strides, r.view) for r in self.results]
        barred = (view for i, strides, view in places if not self._takes(i, strides))
        return (*inputs[count:], *barred)

    def _takes(self, register: int, strides: tuple[int, ...]) -> bool:
        """Whether steps may take a register where its tensor lies on chip: in whole vectors, with
        a loop for each dimension and one for the vectors of the last.
        """
        held = self.registers[register]
        lanes = not held.spans[-1] or strides[-1] == held.kind.bytes
        return lanes and min(strides) >= 0 and len(self.shape) < LOOPS

    def _factors(self, product: Product) -> tuple[Source, ...]:
        return tuple(
            Source(tensor=f.tensor, dtype="int8", offset=f.offset, strides=f.strides)
            for f in (product.left, product.right)
        )

    @property
    def outputs(self) -> tuple[View, ...]:
        return tuple(result.view for result in self.results)

    @property
    def product_op(self) -> str:
        return self.product_name

    @property
    def uses_table(self) -> bool:
        return bool(self.tables)

    @property
    def signature(self) -> Hashable:
        steps = tuple((s.a, s.b, s.out, s.reduce, s.axis, s.params) for s in self.steps)
        uses = tuple((s.values.get("alu"), s.values.get("a_scale")) for s in self.steps)
        kept = tuple(result.register for result in self.results)
        places = [s.strides for s in self.sources] + [r.strides for r in self.results]
        shape = self.shape, self.registers, self.whole, self.product
        return shape, steps, uses, kept, tuple(places)

    def free_array_vectors(self, cols: int) -> int:
        if self.product is not None:
            return 0
        return prod(self.shape) * len(self.steps) // cols

    def idle_array_vectors(self, config: NpuConfig) -> int:
        if self.product is None:
            return self.free_array_vectors(config.cols)
        *outer, last = self.shape
        vectors = prod(outer) * -(-last // config.cols)
        wide = sum(self.registers[s.a].spans[-1] for s in self.steps)
        return vectors * (wide - -(-self.product.depth // config.rows))

    def __str__(self) -> str:
        sources = ", ".join(f"%{s.tensor}+{s.offset}@{list(s.strides)}" for s in self.sources)
        steps = "; ".join(map(str, self.steps))
        outputs = ", ".join(map(str, self.outputs))
        if self.product is not None:
            found = self.product
            steps = f"r{found.register} = {found.left} * {found.right}; {steps}"
        return f"fused {self.name}: {outputs} over {list(self.shape)} of {sources}: {steps}"
