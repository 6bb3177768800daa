"""Layers in stripes of rows: what lies between them is then small enough to stay on chip.

All layers of a region are computed for some rows of its result, then for the next ones. Rows that
two stripes need are computed by both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from sw.compiler.tosa.bound import weight_bytes
from sw.compiler.tosa.graph import Graph, Op, Striped, Work
from sw.compiler.tosa.macs import op_macs

ROWS = 1
"""The axis of the rows in NHWC."""

Range = tuple[int, int]

Layers = Sequence[Sequence[Op]]
"""Operators, layer by layer: a chain through their first operands, whose others are constants."""


def cut_rows(graph: Graph, layers: Layers, count: int, ahead: int) -> None:
    """The operators of `layers` in `count` stripes.

    Nothing but the last result may be read elsewhere. The first `ahead` layers of a stripe run
    beside the other ones of the stripe before it.
    """
    final = layers[-1][-1]
    last = graph.tensors[final.outputs[0]]
    bounds = [last.shape[ROWS] * i // count for i in range(count + 1)]
    made: list[list[list[Op]]] = []
    results: list[str] = []
    for number, rows in enumerate(pairwise(bounds)):
        made.append([[] for _ in layers])
        results.append(_stripe(graph, layers, made[-1], number, rows, count))
    joined = Op(
        kind="CONCAT",
        name=f"{final.name}.rows",
        inputs=results,
        outputs=[last.name],
        attributes={"axis": ROWS},
        source=final.source,
    )
    graph.striped.append(
        Striped(
            first=layers[0][0].name,
            last=layers[-1][0].name,
            count=count,
            kept_bytes=sum(graph.tensors[layer[-1].outputs[0]].nbytes for layer in layers[:-1]),
        )
    )
    gone = {id(op) for layer in layers for op in layer}
    at = graph.ops.index(final) + 1
    graph.ops[at:at] = [*_in_turns(made, ahead), joined]
    graph.ops = [op for op in graph.ops if id(op) not in gone]


def rows_read(graph: Graph, op: Op, rows: Range) -> Range:
    """The rows of the first operand that `rows` of the result read, padding included."""
    if "pad" not in op.attributes:
        return rows
    weights = graph.tensors[op.inputs[1]].shape
    kernel = weights[0] if op.kind == "DEPTHWISE_CONV2D" else weights[1]
    stride, dilation = op.attributes["stride"][0], op.attributes["dilation"][0]
    first, last = rows[0] * stride, (rows[1] - 1) * stride + (kernel - 1) * dilation
    pad = op.attributes["pad"][0]
    return first - pad, last - pad + 1


def _stripe(
    graph: Graph, layers: Layers, made: list[list[Op]], number: int, rows: Range, count: int
) -> str:
    """Append one stripe's operators to `made`, layer by layer; returns its result."""
    chain = [op for layer in layers for op in layer]
    needed = [rows]
    for op in reversed(chain):
        height = graph.tensors[op.inputs[0]].shape[ROWS]
        first, last = rows_read(graph, op, needed[0])
        needed.insert(0, (max(0, first), min(height, last)))
    source = chain[0]
    name = _sliced(graph, made[0], source.inputs[0], needed[0], f"{source.name}.in{number}")
    step = iter(pairwise(needed))
    for layer, copies in zip(layers, made, strict=True):
        for op in layer:
            taken, result = next(step)
            copy = _copied(graph, copies, op, name, taken, result, number)
            if op_macs(graph, op):
                # What two stripes compute counts once.
                macs, weights = op_macs(graph, op), weight_bytes(graph, op)
                copy.work = Work(
                    macs=_share(macs, number, count), weight_bytes=_share(weights, number, count)
                )
            name = copy.outputs[0]
    return name


def _copied(
    graph: Graph, made: list[Op], op: Op, name: str, taken: Range, rows: Range, number: int
) -> Op:
    """`op` for `rows` of its result, which reads rows `taken` of its operand as `name`."""
    old, attributes = graph.tensors[op.outputs[0]], dict(op.attributes)
    if "pad" in attributes:
        first, last = rows_read(graph, op, rows)
        attributes["pad"] = (taken[0] - first, last - taken[1], *attributes["pad"][2:])
    shape = (*old.shape[:ROWS], rows[1] - rows[0], *old.shape[ROWS + 1 :])
    out = graph.add_tensor(replace(old, name=graph.fresh_name(f"{old.name}.{number}"), shape=shape))
    copy = replace(op, name=f"{op.name}.{number}", inputs=[name, *op.inputs[1:]], outputs=[out])
    copy.attributes = attributes
    made.append(copy)
    return copy


def _share(value: int, number: int, count: int) -> int:
    return value * (number + 1) // count - value * number // count


def _sliced(graph: Graph, made: list[Op], name: str, rows: Range, named: str) -> str:
    """Rows of a tensor, by a SLICE if these are not all."""
    tensor = graph.tensors[name]
    if rows == (0, tensor.shape[ROWS]):
        return name
    start, size = [0] * len(tensor.shape), list(tensor.shape)
    start[ROWS], size[ROWS] = rows[0], rows[1] - rows[0]
    out = graph.fresh_name(named)
    graph.add_tensor(replace(tensor, name=out, shape=tuple(size)))
    constants = [
        graph.add_constant(f"{out}_{what}", values, "shape")
        for what, values in (("start", start), ("size", size))
    ]
    made.append(Op(kind="SLICE", name=out, inputs=[name, *constants], outputs=[out]))
    return out


def _in_turns(stripes: Sequence[Layers], ahead: int) -> Iterator[Op]:
    """The layers of all stripes, the first `ahead` of each between those of the one before."""
    for layer in stripes[0][:ahead]:
        yield from layer
    nothing: Layers = ()
    for this, following in zip(stripes, [*stripes[1:], nothing], strict=True):
        first, second = following[:ahead], this[ahead:]
        for i in range(max(len(first), len(second))):
            for layer in (*first[i : i + 1], *second[i : i + 1]):
                yield from layer
