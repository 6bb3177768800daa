"""The one table of operations: the function of each."""

from sw.frontends.stablehlo.call import Row
from sw.frontends.stablehlo.operators.elementwise import ELEMENTWISE
from sw.frontends.stablehlo.operators.indices import INDICES
from sw.frontends.stablehlo.operators.moves import MOVES
from sw.frontends.stablehlo.operators.products import PRODUCTS
from sw.frontends.stablehlo.operators.reductions import REDUCTIONS

ROWS: dict[str, Row] = {**ELEMENTWISE, **PRODUCTS, **MOVES, **REDUCTIONS, **INDICES}
"""By kind, as `Op` has it."""
