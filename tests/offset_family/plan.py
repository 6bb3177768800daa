"""The plan of an OffsetLayer: tiles of equally many elements, which fit twice."""

import math
from dataclasses import dataclass

from offset_family.cost import offset_cycles
from offset_family.layer import OffsetLayer
from spec.config import NpuConfig
from sw.compiler.errors import LegalityError
from sw.compiler.kernels.budget import MemoryBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPlan:
    """Tiles of `elements` vectors' worth of elements in two buffers."""

    elements: int
    cycles: int
    traffic: int

    @property
    def spad_bytes(self) -> int:
        return 2 * 4 * self.elements

    def __str__(self) -> str:
        return f"tiles of {self.elements}; {self.cycles} cycles {self.traffic} bytes"


def plan_offset(layer: OffsetLayer, config: NpuConfig, budget: MemoryBudget) -> OffsetPlan:
    """Whole vectors, as many as fit in a quarter of the budget."""
    vectors = max(1, budget.buffer_bytes // 4 // (4 * config.cols))
    nbytes = 4 * math.prod(layer.output.shape)
    cycles = offset_cycles(nbytes, config)
    return OffsetPlan(elements=vectors * config.cols, cycles=cycles, traffic=2 * nbytes)


def check_offset(layer: OffsetLayer, plan: OffsetPlan, config: NpuConfig) -> None:
    """Tiles are whole vectors."""
    if plan.elements % config.cols:
        raise LegalityError(f"tiles of {plan.elements} are no whole vectors", node=layer.name)
