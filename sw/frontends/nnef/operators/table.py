"""All operations that are taken, by name."""

from sw.frontends.nnef.operators.elementwise import ELEMENTWISE, Row
from sw.frontends.nnef.operators.moves import MOVES
from sw.frontends.nnef.operators.windows import WINDOWS

ROWS: dict[str, Row] = {**WINDOWS, **ELEMENTWISE, **MOVES}
