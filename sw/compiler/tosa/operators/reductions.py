"""Rules of reductions and ARGMAX (TOSA 1.0, sections 2.2.1 and 2.8)."""

from collections.abc import Mapping

from sw.compiler.tosa.operators.checker import INTS, Checker, OperatorSpec, Shape


def _reduction(*dtypes: str) -> OperatorSpec:
    def infer(c: Checker, _: str) -> tuple[Shape, str]:
        axis, shape = c.axis("input"), c["input"].shape
        return (*shape[:axis], 1, *shape[axis + 1 :]), c.dtype("input", *dtypes)

    return OperatorSpec(operands=("input",), attributes={"axis": None}, infer=infer)


def _argmax(c: Checker, _: str) -> tuple[Shape, str]:
    axis, shape = c.axis("input"), c["input"].shape
    c.dtype("input", "int8", "int16")
    return (*shape[:axis], *shape[axis + 1 :]), "int32"


REDUCTIONS: Mapping[str, OperatorSpec] = {
    "REDUCE_SUM": _reduction("int32"),
    "REDUCE_MAX": _reduction(*INTS),
    "REDUCE_MIN": _reduction(*INTS),
    "REDUCE_ALL": _reduction("bool"),
    "REDUCE_ANY": _reduction("bool"),
    "ARGMAX": OperatorSpec(operands=("input",), attributes={"axis": None}, infer=_argmax),
}
