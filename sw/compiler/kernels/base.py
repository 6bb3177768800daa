"""What every kind of layer has, and what its kernel family must offer the stages.

A family is a folder: `layer.py` (what is computed), `plan.py` (tiles), `cost.py` (cycles of a plan)
and `emit.py` (instructions). Stages find it by the layer's type in `families.FAMILIES`; whatever
else they must know of a layer they ask the layer itself.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.isa import Engine
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.views import MemoryMap, View


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCycles:
    """Cycles for which a layer needs the array and the vector engine, at least."""

    array: int
    vector: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What every layer has. `ops`: names of the TOSA operators; `source`: line of the model.

    `engine`: the one that computes it (LOAD: nothing is computed). `follows_rows`: it can take the
    rows of its first input in the order in which the layer before writes them.
    """

    engine: ClassVar[Engine]
    follows_rows: ClassVar[bool] = False

    name: str
    output: View
    ops: tuple[str, ...] = ()
    source: str = ""

    @property
    def inputs(self) -> tuple[View, ...]:
        """Everything that it reads from tensors, the operand that flows through it first."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[View, ...]:
        """Everything that it writes, `output` first."""
        return (self.output,)

    @property
    def memory_views(self) -> tuple[View, ...]:
        """The views that must lie in memory; the others may stay on chip."""
        return (*self.inputs, *self.outputs)

    @property
    def uses_table(self) -> bool:
        """Whether it needs the TABLE, of which there is one."""
        return False

    @property
    def product_weights(self) -> NDArray[np.int8] | None:
        """Constant weights that could stay on chip for other layers that have the same."""
        return None

    @property
    def common(self) -> str:
        """The name of these weights on chip, where others have the same."""
        return ""

    def sharing(self, name: str) -> "Layer":
        """The layer with its `product_weights` under that name."""
        raise NotImplementedError

    @property
    def product_op(self) -> str:
        """Name of the TOSA product that it computes, or a part of it with more behind a dot."""
        return ""

    @property
    def signature(self) -> Hashable:
        """Everything that a plan depends on, but the views; no names and no values."""
        raise NotImplementedError

    @property
    def likeness(self) -> Hashable:
        """Equal for layers that differ in names, values and places alone."""
        views = (*self.inputs, *self.outputs)
        return self.engine, self.signature, *(view.shape for view in views)

    def free_array_vectors(self, cols: int) -> int:
        """Vectors of `cols` lanes for which the vector engine works alone; 0 if that is unknown.

        Meanwhile the array could compute a product that has nothing to do with the layer.
        """
        return 0

    def idle_array_vectors(self, config: NpuConfig) -> int:
        """The same of a layer that computes a product as well: for how many vectors more than those
        of the product the vector engine works.
        """
        return self.free_array_vectors(config.cols)

    def engine_cycles(self, config: NpuConfig) -> EngineCycles | None:
        """How long its engines work; None if it has no `samples`."""
        return None

    def samples(self, part: int, parts: int) -> "Layer":
        """The layer of part `part` of the batch, which is cut into `parts` equal ones."""
        raise NotImplementedError

    def columns(self, part: slice) -> "Layer":
        """The part that computes output channels `part` of a product of `product_weights`."""
        raise NotImplementedError

    def split(self) -> Iterator["Layer"]:
        """Layers that together compute this one and fit an instruction's coordinates."""
        yield self


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProgram:
    """The layers in execution order, and where their tensors lie in memory.

    `in_turn`: numbers of layers that are computed for parts of the batch in turn.
    """

    layers: tuple[Layer, ...]
    storage: MemoryMap
    in_turn: frozenset[int] = frozenset()


def common_weights(program: LayerProgram) -> dict[str, int]:
    """Bytes of the weights that several products have, by name."""
    found = {layer.common: layer.product_weights for layer in program.layers if layer.common}
    return {name: weights.nbytes for name, weights in found.items() if weights is not None}


class Plan(Protocol):
    """How a layer is cut. `cycles`, `traffic`: estimates, the latter in bytes; `str` for dumps."""

    @property
    def spad_bytes(self) -> int:
        """Scratchpad bytes of all its buffers."""

    @property
    def cycles(self) -> int: ...
    @property
    def traffic(self) -> int: ...


AnyLayer = TypeVar("AnyLayer", bound=Layer)
AnyPlan = TypeVar("AnyPlan", bound=Plan)


def no_check(layer: Layer, plan: Plan, config: NpuConfig) -> None:
    """For families whose plans have no limits besides the scratchpad."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFamily(Generic[AnyLayer, AnyPlan]):
    """A row of the registry: how the stages treat layers of type `layer`.

    `plan`: the best plan within a budget, `CompileError` if none fits. `check`: `LegalityError` if
    a plan breaks a limit of the family. `emit`: appends the layer's instructions to the program.
    `near`: plans that are nearly as fast as the best, if the family knows any.
    """

    layer: type[AnyLayer]
    plan: Callable[[AnyLayer, NpuConfig, MemoryBudget], AnyPlan]
    emit: Callable[[AnyLayer, AnyPlan, EmitContext], None]
    check: Callable[[AnyLayer, AnyPlan, NpuConfig], None] = no_check
    near: Callable[[AnyLayer, NpuConfig, MemoryBudget], Sequence[AnyPlan]] | None = None
