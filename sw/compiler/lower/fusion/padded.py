"""PADs before averages, which a pool computes itself.

An average counts the elements of a PAD; those of its own padding it does not. So the pool must be
told: the operators themselves have no such attribute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sw.compiler.kernels.windows import KERNEL, LIMIT
from sw.compiler.tosa.graph import Graph, Op


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedAverage:
    """What an average reads in place of its operand: `source`, with padding above and to the left.

    `ops`: the PAD and, behind it, the SLICE that then nobody needs.
    """

    source: str
    pad: tuple[int, int]
    ops: tuple[Op, ...]


def padded_averages(graph: Graph) -> dict[int, PaddedAverage]:
    """By id of the AVG_POOL2D."""
    producers, users = graph.producers(), graph.consumers()
    found = {}
    for op in graph.ops:
        if op.kind == "AVG_POOL2D" and not any(op.attributes["pad"]):
            padded = _padded(graph, op, producers, users)
            if padded is not None:
                found[id(op)] = padded
    return found


def _padded(
    graph: Graph, pool: Op, producers: Mapping[str, Op], users: Mapping[str, Sequence[Op]]
) -> PaddedAverage | None:
    def before(name: str, kind: str) -> Op | None:
        op = producers.get(name)
        alone = len(users[name]) == 1 and name not in graph.outputs
        return op if op is not None and op.kind == kind and alone else None

    cut = before(pool.inputs[0], "SLICE")
    pad = before(pool.inputs[0] if cut is None else cut.inputs[0], "PAD")
    if pad is None:
        return None
    start = [0] * 4 if cut is None else graph.constant(cut.inputs[1]).tolist()
    rows = graph.constant(pad.inputs[1]).reshape(-1, 2).tolist()
    value = graph.constant(pad.inputs[2]).reshape(-1)[0]
    if value != graph.constant(pool.inputs[1]).reshape(-1)[0]:
        return None
    whole = graph.tensors[pool.inputs[0]].shape
    source = graph.tensors[pad.inputs[0]].shape
    if any(rows[0] + rows[3]) or whole[0] != source[0] or whole[3] != source[3]:
        return None
    top, left = (rows[d][0] - start[d] for d in (1, 2))
    # Larger layers are cut, also their windows.
    if min(top, left) < 0 or max(whole) > LIMIT or max(pool.attributes["kernel"]) > KERNEL:
        return None
    ops = (pad,) if cut is None else (pad, cut)
    return PaddedAverage(source=pad.inputs[0], pad=(top, left), ops=ops)
