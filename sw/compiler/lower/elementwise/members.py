"""Which operators form a chain: from the first on, what reads what the chain has made.

Only operators that a step can compute, with operands in memory or made by the chain, of shapes that
broadcast to one shape, join it.
"""

import math
from dataclasses import dataclass, field

from sw.compiler.kernels.views import ITEM
from sw.compiler.lower.capacity import row_fits
from sw.compiler.lower.context import Context
from sw.compiler.lower.elementwise.steps import REDUCTIONS, STEPS, data_operands
from sw.compiler.lower.fusion.fusion import ALU
from sw.compiler.tosa.graph import Op

WINDOW = 192
"""Operators behind the first that are looked at."""

LONG, MANY = 6, 8
"""Steps and vectors, at least, of what is a layer of its own where more elements read it."""

TILES = 4
"""Tiles of two reductions that the scratchpad has room for where they are one layer."""

RESULTS = 3
"""What a chain makes for others, at most."""

SINGLE = ("RESCALE", "CLAMP", "TABLE", *ALU)
"""Operators that other layers compute as well: alone they make no chain."""

_ALONE = ("CAST", "RESCALE", "ABS", "NEGATE", "CLAMP")
"""Operators of one tensor that cost a step."""

_KINDS = {*STEPS, "RESHAPE"} - {"INTDIV"}
"""Operators of chains; INTDIV is long enough alone."""


@dataclass(slots=True)
class Chain:
    """Operators of a chain in order; names of what they make, and which of it is packed.

    `beside`: operators that could be computed but read nothing of the chain, by what they make;
    they join it with the first one that reads them. `product`: it begins with a product, whose rows
    may pass in blocks.
    """

    ops: list[Op] = field(default_factory=list)
    beside: dict[str, Op] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    packed: set[str] = field(default_factory=set)
    shape: tuple[int, ...] = ()
    product: bool = False


def longest_chain(ctx: Context, chain: Chain, op: Op) -> list[Op]:
    """The longest chain from `op` on; what `chain` has made already is read by it."""
    best, begun = 0, bool(chain.made)
    if not begun and not _joins_chain(ctx, chain, op):
        return []
    start = ctx.place[id(op)]
    for other in ctx.graph.ops[start : start + WINDOW]:
        if (other is not op or begun) and not _joins_chain(ctx, chain, other):
            # It costs nothing to remember it: it joins only where the chain reads it.
            if _stands_beside(ctx, other):
                chain.beside[other.outputs[0]] = other
            continue
        for name in data_operands(ctx, other):
            if name in chain.beside:
                _join(ctx, chain, chain.beside.pop(name))
        _join(ctx, chain, other)
        if len(leaving(ctx, chain.ops)) <= RESULTS:
            best = len(chain.ops)
    found = without_casts(ctx, chain.ops[:best])
    return found if _is_worth(ctx, found) else []


def closed(ctx: Context, ops: list[Op]) -> list[Op]:
    """The longest beginning of `ops` of which few enough results are used elsewhere."""
    while len(ops) > 1 and len(leaving(ctx, ops)) > RESULTS:
        ops = ops[:-1]
    ops = without_casts(ctx, ops)
    return ops if _is_worth(ctx, ops) else []


def _is_worth(ctx: Context, ops: list[Op]) -> bool:
    """Whether other layers would not do as well: they compute SINGLE operators, but no TABLE of
    int16, and make one result each.
    """
    return any(
        op.kind not in (*SINGLE, "RESHAPE")
        or (op.kind == "TABLE" and ctx.dtype(op.inputs[0]) == "int16")
        for op in ops
    ) or (len(ops) > 1 and len(leaving(ctx, ops)) > 1)


def until_second_sum(ctx: Context, ops: list[Op]) -> list[Op]:
    """`ops` up to a reduction of what one along another axis has left, where that is faster.

    A tile holds the axes of all its reductions whole. Where it hardly fits, its loads and steps do
    not overlap; of a layer with one reduction tiles have any size along the other axis. Nothing
    behind may have more elements again: those would be read from memory twice.
    """
    first = next((i for i, op in enumerate(ops) if op.kind in REDUCTIONS), len(ops))
    for i, op in enumerate(ops[first + 1 :], first + 1):
        if op.kind not in REDUCTIONS or op.attributes["axis"] == ops[first].attributes["axis"]:
            continue
        names = [name for each in ops[i:] for name in (*data_operands(ctx, each), *each.outputs)]
        left = ctx.graph.tensors[op.inputs[0]].size
        small = all(ctx.graph.tensors[name].size <= left for name in names)
        crowded = _tile_bytes(ctx, ops[: first + 1], op) * TILES > ctx.config.spad_bytes
        return (closed(ctx, ops[:i]) or ops) if small and crowded else ops
    return ops


def _tile_bytes(ctx: Context, ops: list[Op], second: Op) -> int:
    """Bytes of a tile of one vector, which two reductions hold whole: of the last of `ops`, and
    `second`; with an int32 register where other operators come before them.
    """
    (name,) = ops[-1].outputs
    read, left = ctx.shape(ops[-1].inputs[0]), ctx.shape(name)
    along = read[ops[-1].attributes["axis"]] * left[second.attributes["axis"]]
    wide = any(op.kind != "CAST" for op in ops[:-1])
    item = ITEM[ctx.dtype(ops[0].inputs[0])] + (ITEM["int32"] if wide else 0)
    return along * ctx.config.cols * item


def without_casts(ctx: Context, ops: list[Op]) -> list[Op]:
    """`ops` without CASTs to wider types that only elementwise operators of other layers read.

    Those layers compute them as they read their operand, which is narrower in memory.
    """
    made = set(leaving(ctx, ops))
    inside = {name for op in ops for name in data_operands(ctx, op)}
    return [
        op
        for op in ops
        if op.outputs[0] not in made or op.outputs[0] in inside or not _widens(ctx, op)
    ]


def _widens(ctx: Context, op: Op) -> bool:
    """Whether `op` is a CAST to a wider type for elementwise operators."""
    name, out = op.inputs[0], op.outputs[0]
    if op.kind != "CAST" or out in ctx.graph.outputs:
        return False
    wider = ITEM[ctx.dtype(out)] > ITEM[ctx.dtype(name)]
    return wider and all(user.kind in STEPS for user in ctx.fusion.users[out])


def leaving(ctx: Context, ops: list[Op]) -> list[str]:
    """Results of `ops` that others read, or that are outputs."""
    members = {id(op) for op in ops}
    found = []
    for op in ops:
        (name,) = op.outputs
        outside = any(id(user) not in members for user in users(ctx, name))
        if outside or name in ctx.graph.outputs:
            found.append(name)
    return found


def users(ctx: Context, name: str) -> list[Op]:
    """Who reads a tensor; for a RESCALE that its readers compute, those."""
    users = []
    for user in ctx.fusion.users[name]:
        absorbed = user.outputs[0] in ctx.fusion.operand_rescales
        users += ctx.fusion.users[user.outputs[0]] if absorbed else [user]
    return users


def _free(ctx: Context, op: Op) -> bool:
    """Whether a chain may compute `op`, as far as that does not depend on the chain."""
    fusion = ctx.fusion
    if op.kind not in _KINDS or id(op) in fusion.done or id(op) in fusion.deferred:
        return False
    return id(op) not in fusion.sum_at and _simple(ctx, op)


def _stands_beside(ctx: Context, op: Op) -> bool:
    """Whether `op` is elementwise on one tensor that is in memory."""
    alone = op.kind in _ALONE and _free(ctx, op)
    if not alone or op.attributes.get("per_channel"):
        return False
    return bool(ctx.shape(op.outputs[0])) and _ready(ctx, op.inputs[0])


def _joins_chain(ctx: Context, chain: Chain, op: Op) -> bool:
    """Whether `op` can be computed at the end of the chain."""
    if not _free(ctx, op):
        return False
    operands, out = data_operands(ctx, op), ctx.shape(op.outputs[0])
    if not out or (chain.made and not chain.made.intersection(operands)):
        return False
    known = (*chain.made, *chain.beside)
    if any(n not in known and not _ready(ctx, n) for n in operands):
        return False
    if op.kind == "RESHAPE":
        return _packs(ctx, chain, op)
    if chain.packed.intersection(operands):
        # Packed statistics have another shape than the chain: only elements meet elements.
        return op.kind not in REDUCTIONS and all(
            n in chain.packed or ctx.graph.tensors[n].size == 1 for n in operands
        )
    shapes = [*(ctx.shape(n) for n in operands), out]
    if _grows(ctx, chain, shapes):
        return False
    return _rows_fit(ctx, chain, op, shapes) and all(
        _within(shape, chain.shape) for shape in shapes
    )


def _grows(ctx: Context, chain: Chain, shapes: list[tuple[int, ...]]) -> bool:
    """Whether every tile would compute again what takes long and has fewer elements."""
    steps = sum(op.kind not in (*_ALONE, "RESHAPE") for op in chain.ops)
    same_rank = [shape for shape in shapes if len(shape) == len(chain.shape)]
    return (
        steps >= LONG
        and math.prod(chain.shape) >= MANY * ctx.config.cols
        and any(
            size > before
            for shape in same_rank
            for size, before in zip(shape, chain.shape, strict=True)
        )
    )


def _rows_fit(ctx: Context, chain: Chain, op: Op, shapes: list[tuple[int, ...]]) -> bool:
    """Whether a tile holds what the operator needs whole: the axis of a reduction, channels."""
    whole = []
    if op.kind in REDUCTIONS:
        axis = op.attributes["axis"]
        if not chain.product or axis < len(shapes[0]) - 1:
            whole.append(shapes[0][axis])
    if op.attributes.get("per_channel"):
        whole.append(shapes[-1][-1])
    return all(row_fits(size, ctx.config) for size in whole)


def _simple(ctx: Context, op: Op) -> bool:
    """Nothing unsigned, and parameters per channel only if they are known."""
    a = op.attributes
    if a.get("per_channel") and any(ctx.is_runtime(name) for name in op.inputs[1:3]):
        return False
    return not (a.get("input_unsigned") or a.get("output_unsigned"))


def _ready(ctx: Context, name: str) -> bool:
    """Whether a tensor is in memory before the chain runs."""
    return name in ctx.storage.placed or ctx.graph.tensors[name].is_constant


def _packs(ctx: Context, chain: Chain, op: Op) -> bool:
    """Whether a RESHAPE turns row statistics of the chain into channels, or back."""
    name = op.inputs[0]
    if name not in chain.made or not chain.shape:
        return False
    rows = (*chain.shape[:-1], 1)
    size = 1
    for n in rows:
        size *= n
    packed = (*(1 for _ in rows[:-1]), size)
    before = ctx.shape(name)
    after = ctx.shape(op.outputs[0])
    if name in chain.packed:
        return after == rows
    return before == rows and after == packed


def _join(ctx: Context, chain: Chain, op: Op) -> None:
    (out,) = op.outputs
    operands = data_operands(ctx, op)
    if op.kind == "RESHAPE":
        if operands[0] not in chain.packed:
            chain.packed.add(out)
    elif chain.packed.intersection(operands):
        chain.packed.add(out)
    else:
        shapes = [ctx.shape(n) for n in (*operands, out)]
        chain.shape = tuple(
            max(sizes) for sizes in zip(*(*shapes, chain.shape or shapes[0]), strict=True)
        )
    chain.ops.append(op)
    chain.made.add(out)


def _within(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether shapes of one rank broadcast."""
    if not whole:
        return True
    return len(shape) == len(whole) and all(
        a == b or 1 in (a, b) for a, b in zip(shape, whole, strict=True)
    )
