"""Chains of elementwise operators and reductions that become one MapLayer.

What one operator of a chain writes the next ones read on chip, tile by tile; only the last result
goes to memory. A reduction keeps its axis whole in a tile. Row statistics that a RESHAPE packs as
channels ([…, rows, 1] to [1, …, rows]) stay as they are: one element a row lies densely anyway.
"""

from dataclasses import dataclass, field

from spec.isa import DType, Scale, Table
from spec.numerics import RANGES
from sw.compiler.errors import CompileError
from sw.compiler.fusion import ALU
from sw.compiler.layers import DTYPE, ITEM, dense
from sw.compiler.lower_map import BINARY, STEPS
from sw.compiler.lower_reduce import REDUCTIONS, ReduceLowering
from sw.compiler.map_builder import MapBuilder, Target
from sw.compiler.map_layer import MapLayer
from sw.compiler.map_plan import plan_map
from sw.compiler.residency import Room
from sw.compiler.storage import row_major, to_nhwc
from sw.compiler.tosa import Op

WINDOW = 48
"""Operators behind the first that are looked at."""

SHARE = 3
"""A chain must fit in this part of the scratchpad: the rest is for tensors that stay on chip."""

_SINGLE = ("RESCALE", "CLAMP", "TABLE", *ALU)
"""Operators that other layers compute as well: alone they make no chain."""

_KINDS = {*BINARY, *STEPS, *REDUCTIONS, *_SINGLE, "RESHAPE"} - {"INTDIV"}


@dataclass(slots=True)
class _Chain:
    """Operators of a chain in order; names of what they make, and which of it is packed."""

    ops: list[Op] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    packed: set[str] = field(default_factory=set)
    shape: tuple[int, ...] = ()


class ChainLowering(ReduceLowering):
    """Finds chains and adds their layers."""

    def chain(self, op: Op) -> bool:
        """Lower the longest chain that begins with `op`; False if there is none."""
        found = self._longest_chain(op)
        while len(found) > 1:
            layer = self._chained(found)
            if layer is not None:
                self.layers.append(layer)
                self.fusion.done.update(id(member) for member in found)
                return True
            found = self._closed(found[:-1])
        return False

    # Which operators --------------------------------------------------------------------------

    def _longest_chain(self, op: Op) -> list[Op]:
        chain, best = _Chain(), 0
        if not self._joins_chain(chain, op):
            return []
        start = self.place[id(op)]
        for other in self.graph.ops[start : start + WINDOW]:
            if other is not op and not self._joins_chain(chain, other):
                continue
            self._join(chain, other)
            if self._leaving(chain.ops) == {other.outputs[0]}:
                best = len(chain.ops)
        found = chain.ops[:best]
        return found if any(o.kind not in (*_SINGLE, "RESHAPE") for o in found) else []

    def _closed(self, ops: list[Op]) -> list[Op]:
        """The longest beginning of `ops` of which only the last result is used elsewhere."""
        while len(ops) > 1 and self._leaving(ops) != {ops[-1].outputs[0]}:
            ops = ops[:-1]
        new = any(o.kind not in (*_SINGLE, "RESHAPE") for o in ops)
        return ops if new else []

    def _leaving(self, ops: list[Op]) -> set[str]:
        """Results of `ops` that others read, or that are outputs."""
        members = {id(op) for op in ops}
        found = set()
        for op in ops:
            (name,) = op.outputs
            outside = any(id(user) not in members for user in self._users(name))
            if outside or name in self.graph.outputs:
                found.add(name)
        return found

    def _users(self, name: str) -> list[Op]:
        """Who reads a tensor; for a RESCALE that its readers compute, those."""
        users = []
        for user in self.fusion.users[name]:
            absorbed = user.outputs[0] in self.fusion.operand_rescales
            users += self.fusion.users[user.outputs[0]] if absorbed else [user]
        return users

    def _operands(self, op: Op) -> list[str]:
        """Tensors that an operator reads as data, through the RESCALEs that it computes."""
        count = 2 if op.kind in BINARY or op.kind == "MUL" else 3 if op.kind == "SELECT" else 1
        rescales = self.fusion.operand_rescales
        return [rescales[n].inputs[0] if n in rescales else n for n in op.inputs[:count]]

    def _joins_chain(self, chain: _Chain, op: Op) -> bool:
        """Whether `op` can be computed at the end of the chain."""
        fusion = self.fusion
        if op.kind not in _KINDS or id(op) in fusion.done or id(op) in fusion.deferred:
            return False
        if id(op) in fusion.sum_at or not self._simple(op):
            return False
        operands, out = self._operands(op), self.graph.tensors[op.outputs[0]].shape
        if not out or (chain.ops and not chain.made.intersection(operands)):
            return False
        if any(n not in chain.made and not self._ready(n) for n in operands):
            return False
        if op.kind == "RESHAPE":
            return self._packs(chain, op)
        if chain.packed.intersection(operands):
            return op.kind not in REDUCTIONS and all(
                n in chain.packed or self.graph.tensors[n].size == 1 for n in operands
            )
        shapes = [self.graph.tensors[n].shape for n in operands]
        if op.kind in REDUCTIONS and not self._whole(shapes[0], op):
            return False
        return all(_within(shape, chain.shape) for shape in (*shapes, out))

    def _simple(self, op: Op) -> bool:
        """No parameters per channel, and nothing unsigned."""
        a = op.attributes
        flags = ("per_channel", "input_unsigned", "output_unsigned")
        return not any(a.get(flag) for flag in flags)

    def _ready(self, name: str) -> bool:
        """Whether a tensor is in memory before the chain runs."""
        return name in self.storage.placed or self.graph.tensors[name].is_constant

    def _whole(self, shape: tuple[int, ...], op: Op) -> bool:
        """Whether a tile can hold the axis."""
        size = shape[op.attributes["axis"]]
        return 4 * size <= self.config.spad_bytes // (2 * SHARE)

    def _packs(self, chain: _Chain, op: Op) -> bool:
        """Whether a RESHAPE turns row statistics of the chain into channels, or back."""
        name = op.inputs[0]
        if name not in chain.made or not chain.shape:
            return False
        rows = (*chain.shape[:-1], 1)
        size = 1
        for n in rows:
            size *= n
        packed = (*(1 for _ in rows[:-1]), size)
        before = self.graph.tensors[name].shape
        after = self.graph.tensors[op.outputs[0]].shape
        if name in chain.packed:
            return after == rows
        return before == rows and after == packed

    def _join(self, chain: _Chain, op: Op) -> None:
        (out,) = op.outputs
        operands = self._operands(op)
        if op.kind == "RESHAPE":
            if operands[0] not in chain.packed:
                chain.packed.add(out)
        elif chain.packed.intersection(operands):
            chain.packed.add(out)
        else:
            shapes = [self.graph.tensors[n].shape for n in (*operands, out)]
            chain.shape = tuple(
                max(sizes) for sizes in zip(*(*shapes, chain.shape or shapes[0]), strict=True)
            )
        chain.ops.append(op)
        chain.made.add(out)

    # Their layer ------------------------------------------------------------------------------

    def _chained(self, ops: list[Op]) -> MapLayer | None:
        """The layer of a chain; None if no tile of it fits."""
        builder = MapBuilder()
        for op in ops:
            self._emit(builder, op, ops)
        if not builder.steps:
            return None
        out = ops[-1].outputs[0]
        tensor, result = self.graph.tensors[out], builder.made[out]
        if builder.steps[-1].out is not result:
            return None
        view = dense(out, tensor.dtype, to_nhwc(tensor.shape))
        target = Target(view, 0, row_major(result.shape, ITEM[tensor.dtype]))
        main = next(op for op in ops if op.kind not in ("RESHAPE", "RESCALE"))
        layer = builder.layer(
            target, name=main.name, ops=tuple(op.kind for op in ops), source=main.source
        )
        try:
            plan_map(layer, self.config, Room(self.config.spad_bytes // SHARE))
        except CompileError:
            return None
        self.storage.add(out)
        return layer

    def _emit(self, builder: MapBuilder, op: Op, ops: list[Op]) -> None:
        out = op.outputs[0]
        kind = DTYPE[self.graph.tensors[out].dtype]
        if op.kind == "RESHAPE":
            builder.made[out] = builder.made[op.inputs[0]]
            return
        if op.kind in BINARY:
            self._binary_step(builder, op, kind)
        elif op.kind in REDUCTIONS:
            self._reduce(builder, op, kind)
        elif op.kind in ("RESCALE", "CLAMP", "TABLE"):
            self._finish(builder, op, kind, len(self._users(op.inputs[0])) == 1)
        else:
            operands = [self.value(builder, name) for name in self._operands(op)]
            self._recipe(op)(builder, op, operands, kind)
        builder.made[out] = builder.steps[-1].out

    def _reduce(self, builder: MapBuilder, op: Op, kind: DType) -> None:
        value, axis = self.value(builder, op.inputs[0]), op.attributes["axis"]
        builder.step(value, None, kind, reduce=REDUCTIONS[op.kind][0], axis=axis)

    def _finish(self, builder: MapBuilder, op: Op, kind: DType, alone: bool) -> None:
        """RESCALE, CLAMP or TABLE: behind the last step if only this reads it, or as a step."""
        value = self.value(builder, op.inputs[0])
        low, high = RANGES[value.kind]
        fields: dict[str, int] = {"o_min": low, "o_max": high}
        busy = {"table"}
        if op.kind == "RESCALE":
            busy |= {"o_scale", "o_zp", "o_min", "o_max"}
            values = self.fusion.rescale_values(op)
            fields = {
                "o_scale": Scale.TENSOR,
                "o_mult": int(values["multiplier"][0]),
                "o_shift": int(values["shift"][0]),
                "o_zp": values["zero_point"],
                "o_min": values["low"],
                "o_max": values["high"],
            }
            zero_point = self.fusion.zero_point(op.inputs[3], unsigned=False)
        else:
            zero_point = 0
            if op.kind == "CLAMP":
                at = (op.attributes["min_val"], op.attributes["max_val"])
                fields = {"o_min": max(low, at[0]), "o_max": min(high, at[1])}
        last = builder.steps[-1] if builder.steps else None
        if (
            last is None
            or last.out is not value
            or not alone
            or zero_point
            or busy & set(last.values)
        ):
            builder.step(value, None, kind, values={"a_zp": zero_point, **fields})
            self._look_up(builder, op, value.kind)
            return
        if op.kind != "RESCALE" and "o_min" in last.values:
            # Nested clamps: the second bounds what the first leaves.
            lows, highs = (
                (last.values["o_min"], fields["o_min"]),
                (last.values["o_max"], fields["o_max"]),
            )
            fields["o_min"] = min(max(lows), highs[1])
            fields["o_max"] = max(min(highs), lows[1])
        elif op.kind != "RESCALE" and value.kind is not DType.I32:
            # A result that wraps to a narrow type cannot be clamped before it does.
            builder.step(value, None, kind, values=fields)
            self._look_up(builder, op, value.kind)
            return
        self._look_up(builder, op, value.kind)
        last.values |= fields
        last.out.kind = kind

    def _look_up(self, builder: MapBuilder, op: Op, kind: DType) -> None:
        """Let the last step do what a TABLE of `kind` does."""
        if op.kind == "TABLE":
            table = self.graph.constant(op.inputs[1])
            builder.look_up(builder.steps[-1], table, Table.I8 if kind is DType.I8 else Table.I16)


def _within(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether shapes of one rank broadcast."""
    if not whole:
        return True
    return len(shape) == len(whole) and all(
        a == b or 1 in (a, b) for a, b in zip(shape, whole, strict=True)
    )
