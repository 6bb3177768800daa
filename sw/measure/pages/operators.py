"""docs/operators.md from the importer's table of operators."""

from itertools import groupby

_HEAD = """\
<!-- Generated from sw/compiler/frontend/operators.py by `make docs`. -->

# Operators on the NPU

What the float importer, and with it `torch.compile(model, backend="systola")`, runs on the device:
{core} operators of core ATen and {others} other spellings. Everything else stays on the CPU, with
the reason in the report.

Types: `float` is float32, computed as int8, int16 or int32 with a scale; `int` is any integer type,
computed as int32, exactly within its range; `bool` is TOSA's. Shapes are static, of at most 6
dimensions, none of them empty. What no input reaches (`full`, `arange`, `scalar_tensor`, …) is a
constant, whatever computes it. Operators with several results give the first one.

Tested, by `tests/test_aten_operators.py`: each row alone, the golden model's integers being the
interpreter's, and the result against PyTorch's in float64 for inputs that the ports hold exactly. A
step is the result's scale; PCC is the correlation, for products whose operands become int8.
"""


def operators_page() -> str:
    """Every ATen operator of the float importer: types, limits, how it is tested."""
    import torch

    from sw.compiler.frontend.operator_sets import FILLED
    from sw.compiler.frontend.operators import ROWS, Operator

    def core(row: Operator) -> bool:
        if row.name == "getitem":
            return False
        _, packet, overload = row.name.split(".")
        return torch.Tag.core in getattr(getattr(torch.ops.aten, packet), overload).tags

    def line(rows: list[Operator]) -> str:
        first = rows[0]
        names = ", ".join(
            f"`{r.name.removeprefix('aten.').removesuffix('.default')}`" for r in rows
        )
        return f"| {names} | {first.types} | {first.limits} | {first.tested} |"

    def table(rows: list[Operator]) -> list[str]:
        same = [
            list(group) for _, group in groupby(rows, lambda r: (r.types, r.limits, str(r.tested)))
        ]
        head = ["| operator | types | limits | tested |", "|---|---|---|---|"]
        return [*head, *(line(rows) for rows in same)]

    inside = [row for row in ROWS if core(row)]
    outside = [row for row in ROWS if not core(row)]
    filled = {str(target) for target in FILLED}
    count = sum(row.name not in filled for row in inside)
    head = _HEAD.format(core=count, others=len(outside))
    parts = ["## Core ATen", "", *table(inside), "", "## Other spellings", "", *table(outside), ""]
    return "\n".join([head, *parts])
