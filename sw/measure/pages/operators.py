"""docs/operators.md from the importer's table of operators."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from sw.measure.pages.markdown import document, heading, prose, table

if TYPE_CHECKING:
    from sw.compiler.frontend.operator_row import Operator

_INTRO = """
What the importer takes and the device runs, whether a model comes by `run`, `compile`,
`torch.compile` or as a `.pt2` file: {core} operators of core ATen and {others} other spellings.
Everything else is an error that names the operator, or stays on the CPU where that is allowed
(`--fallback`, `torch.compile`), with the reason in the report.

Types: `float` is float32, computed as int8, int16 or int32 with a scale; `int` is any integer type,
computed as int32, exactly within its range; `bool` is TOSA's. A float function of integers is that
function of the same floats. Shapes are static, of at most 6
dimensions, none of them empty. What no input reaches (`full`, `arange`, `scalar_tensor`, …) is a
constant, whatever computes it. Operators with several results give the first one. `embedding_bag`
of equally many indices a bag becomes gathers and a reduction. `max_unpool2d` by the indices of a
pool of windows side by side becomes comparisons and choices.

A value over its own norm is an RMS norm, in all usual spellings. Sines and cosines of many periods
have a table of one period. Functions that are curved around zero have a second table there.

Tested, by `tests/test_aten_operators.py`: each row alone, the golden model's integers being the
interpreter's, and the result against PyTorch's in float64 for inputs that the ports hold exactly. A
step is the result's scale; PCC is the correlation, for products whose operands become int8.
"""


def operators_page() -> str:
    """Every ATen operator of the importer: types, limits, how it is tested."""
    from sw.compiler.frontend.operators import ROWS

    inside = [row for row in ROWS if _is_core(row)]
    outside = [row for row in ROWS if not _is_core(row)]
    return document(
        "systola pages operators",
        "sw/compiler/frontend/operators.py",
        heading(1, "Operators on the NPU"),
        prose(_INTRO.format(core=len(inside), others=len(outside))),
        heading(2, "Core ATen"),
        _operators(inside),
        heading(2, "Other spellings"),
        _operators(outside),
    )


def _is_core(row: "Operator") -> bool:
    import torch

    return torch.Tag.core in getattr(row.target, "tags", ())


def _operators(rows: "Sequence[Operator]") -> str:
    """Neighbours in the list that differ in nothing but the name share a row."""
    groups = groupby(rows, lambda r: (r.types, r.limits, str(r.tested)))
    cells = [
        (", ".join(f"`{_short(row.name)}`" for row in group), types, limits, tested)
        for (types, limits, tested), group in groups
    ]
    return table(("operator", "types", "limits", "tested"), cells)


def _short(name: str) -> str:
    return name.removeprefix("aten.").removesuffix(".default")
