"""Rules by their names: the functions of these files, as the table of operators names them."""

from collections.abc import Mapping

from sw.compiler.frontend.importer import Rule
from sw.compiler.frontend.rules import (
    convolutions,
    elementwise,
    gathers,
    logic,
    moves,
    norms,
    pools,
    products,
    quantize,
    reductions,
)

_FILES = (
    *(convolutions, elementwise, gathers, logic, moves, norms),
    *(pools, products, quantize, reductions),
)

RULES: Mapping[str, Rule] = {
    name: rule
    for file in _FILES
    for name, rule in vars(file).items()
    if getattr(rule, "__module__", "") == file.__name__
}
