"""All Relax operators that are taken, by name."""

from sw.frontends.tvm.operators.elementwise import ELEMENTWISE
from sw.frontends.tvm.operators.moves import MOVES
from sw.frontends.tvm.operators.products import PRODUCTS, Row

ROWS: dict[str, Row] = {**PRODUCTS, **ELEMENTWISE, **MOVES}
