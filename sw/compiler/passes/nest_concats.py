"""Let a CONCAT whose operands begin with those of an earlier one begin with that one's result.

All of them then are pieces of the last result (see `lower/fusion/joins.py`).
"""

from sw.compiler.tosa.graph import Graph, Op


def nest_concats(graph: Graph) -> None:
    """The longest earlier CONCAT along the same axis whose operands the later one joins first."""
    before: list[tuple[Op, list[str]]] = []
    for op in graph.ops:
        if op.kind != "CONCAT":
            continue
        operands = op.inputs
        fitting = [
            (other, names)
            for other, names in before
            if other.attributes["axis"] == op.attributes["axis"]
            and 1 < len(names) < len(operands)
            and operands[: len(names)] == names
        ]
        before.append((op, operands))
        if fitting:
            longest, names = max(fitting, key=lambda found: len(found[1]))
            op.inputs = [longest.outputs[0], *operands[len(names) :]]
