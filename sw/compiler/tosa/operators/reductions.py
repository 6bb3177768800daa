"""Rules of reductions and ARGMAX (TOSA 1.0, sections 2.2.1 and 2.8)."""

from sw.compiler.tosa.operators.checker import Checker, Infer, Shape


def reduction(*dtypes: str) -> Infer:
    """One axis becomes 1."""

    def infer(c: Checker, _: str) -> tuple[Shape, str]:
        axis, shape = c.axis("input"), c["input"].shape
        return (*shape[:axis], 1, *shape[axis + 1 :]), c.dtype("input", *dtypes)

    return infer


def argmax(c: Checker, _: str) -> tuple[Shape, str]:
    axis, shape = c.axis("input"), c["input"].shape
    c.dtype("input", "int8", "int16")
    return (*shape[:axis], *shape[axis + 1 :]), "int32"
