"""The one table of operations: the function of each."""

from sw.frontends.stablehlo.call import Row
from sw.frontends.stablehlo.operators.elementwise import ELEMENTWISE
from sw.frontends.stablehlo.operators.indices import INDICES
from sw.frontends.stablehlo.operators.moves import MOVES
from sw.frontends.stablehlo.operators.products import PRODUCTS
from sw.frontends.stablehlo.operators.reductions import REDUCTIONS
from sw.frontends.stablehlo.operators.scatters import SCATTERS
from sw.frontends.stablehlo.operators.sorts import SORTS

ROWS: dict[str, Row] = {
    **ELEMENTWISE, **PRODUCTS, **MOVES, **REDUCTIONS, **INDICES, **SCATTERS, **SORTS,
}  # fmt: skip
"""By kind, as `Op` has it."""
