"""Stage `tiling`: a plan for every layer. Each family searches its own in its `plan.py`."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

from spec.config import NpuConfig
from sw.compiler.errors import CompileError, LegalityError
from sw.compiler.kernels.base import Layer, Plan
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.families import FAMILIES, Families, family_of
from sw.compiler.kernels.views import View


class Planner:
    """Plans layers; layers that look alike share the search."""

    def __init__(self, config: NpuConfig, families: Families = FAMILIES) -> None:
        self.config, self.families = config, families
        # By everything but the bytes of the budget: (bytes, what a search in them found).
        self._known: dict[Hashable, list[tuple[int, Plan | CompileError]]] = defaultdict(list)

    def plan(self, layer: Layer, budget: MemoryBudget) -> Plan:
        """The best plan of `layer` in `budget`; `CompileError` if none fits.

        The best plan of a larger budget, where it fits, is the best of the smaller one.
        """
        views = (*layer.inputs, *layer.outputs)
        held = tuple((v.tensor in budget.held, budget.streams(v, self.config)) for v in views)
        kept = layer.common in budget.held
        size = budget.buffer_bytes
        banks = budget.shares_acc, budget.other_banks
        order = budget.row_order, budget.overlap, budget.tiles
        known = self._known[_signature(layer), banks, order, held, kept]
        for searched, found in known:
            # A plan does not know its budget: what was best with more room is best with less.
            if size == searched or (size < searched and _serves(found, size)):
                break
        else:
            found = self._attempt(layer, budget)
            known.append((size, found))
        if isinstance(found, CompileError):
            raise found
        return found

    def near(self, layer: Layer, budget: MemoryBudget) -> Sequence[Plan]:
        """Plans of `layer` that are nearly as fast as the best, by the family's model."""
        near = family_of(layer, self.families).near
        plans: Sequence[Plan] = near(layer, self.config, budget) if near else ()
        return plans

    def cost(self, layer: Layer, budget: MemoryBudget) -> int | None:
        """Estimated cycles of `layer` in `budget`; None if it does not fit."""
        try:
            return self.plan(layer, budget).cycles
        except CompileError:
            return None

    def _attempt(self, layer: Layer, budget: MemoryBudget) -> Plan | CompileError:
        try:
            plan: Plan = family_of(layer, self.families).plan(layer, self.config, budget)
        except LegalityError:
            # No family: a fault of the compiler, not a budget that is too small.
            raise
        except CompileError as error:
            # Kept like a plan: what does not fit in so many bytes does not fit in fewer either.
            return error
        return plan


def _serves(found: Plan | CompileError, size: int) -> bool:
    """Whether the result of a search in more than `size` bytes holds for `size`."""
    return isinstance(found, CompileError) or found.spad_bytes <= size


def _signature(layer: Layer) -> Hashable:
    """Everything that a plan depends on, but no names and no values."""
    places = tuple(_place(view) for view in (*layer.inputs, layer.output))
    return type(layer), places, layer.signature


def _place(view: View) -> Hashable:
    return view.dtype, view.shape, view.strides, view.offset


def check_plans(
    layers: Sequence[Layer],
    plans: Sequence[Plan],
    budgets: Sequence[MemoryBudget],
    config: NpuConfig,
    families: Families = FAMILIES,
) -> None:
    """Every plan fits in the scratchpad, and keeps the limits of its family."""
    for layer, plan, budget in zip(layers, plans, budgets, strict=True):
        if plan.spad_bytes > budget.buffer_bytes:
            raise LegalityError(
                f"tiles need {plan.spad_bytes} of {budget.buffer_bytes} scratchpad bytes",
                node=layer.name,
            )
        family_of(layer, families).check(layer, plan, config)
