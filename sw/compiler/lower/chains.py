"""Chains of elementwise operators and reductions that become one MapLayer.

What one operator of a chain writes the next ones read on chip, tile by tile; only the last result
goes to memory. A reduction keeps its axis whole in a tile. Row statistics that a RESHAPE packs as
channels ([…, rows, 1] to [1, …, rows]) stay as they are: one element a row lies densely anyway.
"""

import math
from dataclasses import dataclass, field, replace

from spec.isa import DType, Scale, Table
from spec.numerics import RANGES
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.fused.builder import Factors, MapBuilder, Target, Value
from sw.compiler.kernels.fused.layer import MapLayer
from sw.compiler.kernels.fused.plan import plan_fused
from sw.compiler.kernels.fused.simplify import simplify
from sw.compiler.kernels.layers import Epilogue
from sw.compiler.kernels.views import DTYPE, ITEM, Placed, dense, row_major, to_nhwc
from sw.compiler.lower.elementwise import BINARY, STEPS
from sw.compiler.lower.fusion import ALU
from sw.compiler.lower.permutes import Ahead
from sw.compiler.lower.reductions import REDUCTIONS, ReduceLowering
from sw.compiler.lower.runtime_weights import RuntimeOperands
from sw.compiler.tosa.graph import Op

WINDOW = 48
"""Operators behind the first that are looked at."""

SHARE = 3
"""A chain must fit in this part of the scratchpad: the rest is for tensors that stay on chip."""

RESULTS = 3
"""What a chain makes for others, at most."""

_SINGLE = ("RESCALE", "CLAMP", "TABLE", *ALU)
"""Operators that other layers compute as well: alone they make no chain."""

_KINDS = {*BINARY, *STEPS, *REDUCTIONS, *_SINGLE, "RESHAPE"} - {"INTDIV"}


@dataclass(slots=True)
class _Chain:
    """Operators of a chain in order; names of what they make, and which of it is packed.

    `beside`: operators that could be computed but read nothing of the chain, by what they make;
    they join it with the first one that reads them.
    """

    ops: list[Op] = field(default_factory=list)
    beside: dict[str, Op] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    packed: set[str] = field(default_factory=set)
    shape: tuple[int, ...] = ()


class ChainLowering(ReduceLowering, RuntimeOperands):
    """Finds chains and adds their layers."""

    def chain(self, op: Op) -> bool:
        """Lower the longest chain that begins with `op`; False if there is none."""
        if op.kind == "MATMUL":
            return self._chain_of_product(op)
        found = self._longest_chain(_Chain(), op)
        while len(found) > 1:
            layer = self._chained(found, MapBuilder())
            if layer is not None:
                self._append_chain(layer, found)
                return True
            found = self._closed(found[:-1])
        return False

    def _append_chain(self, layer: MapLayer, ops: list[Op]) -> None:
        self.layers.append(layer)
        self.fusion.done.update(id(member) for member in ops)

    # Products ---------------------------------------------------------------------------------

    def _chain_of_product(self, op: Op) -> bool:
        """Lower a MATMUL together with a chain that is more than an epilogue."""
        product, before = op.outputs[0], [op]
        users = self.fusion.users[product]
        if len(users) == 1 and users[0].kind == "RESHAPE" and product not in self.graph.outputs:
            before.append(users[0])
            product = users[0].outputs[0]
        factors = self._factors(op, product)
        if factors is None or id(op) in self.fusion.sum_of or product in self.graph.outputs:
            return False
        chain = _Chain(made={product}, shape=self.graph.tensors[product].shape)
        found = self._longest_chain(chain, before[-1])
        members = {id(member) for member in found}
        if not found or any(id(user) not in members for user in self._users(product)):
            return False
        if self._is_epilogue(found):
            return False
        builder = MapBuilder()
        value = Value(DType.I32, self.graph.tensors[product].shape)
        builder.made[product] = value
        builder.product = (value, factors)
        layer = self._chained(found, builder)
        if layer is None:
            return False
        self._append_chain(layer, [*before, *found])
        return True

    def _is_epilogue(self, ops: list[Op]) -> bool:
        """Whether the layer of the product itself can do as much: a factor a row, and RESCALEs."""
        first, *others = [op for op in ops if op.kind != "RESHAPE"]
        rows = any(self.graph.tensors[name].shape[-1:] == (1,) for name in first.inputs[:2])
        return first.kind == "MUL" and rows and all(op.kind in _SINGLE for op in others)

    def _factors(self, op: Op, product: str) -> Factors | None:
        """The operands of a MATMUL whose result has the shape of `product`, if rows and columns
        are still its last dimensions, and tiles can be made of it.
        """
        shape = self.graph.tensors[product].shape
        a, b = (self.storage.get(name) for name in op.inputs[:2])
        n, m, depth = a.shape
        if len(shape) < 3 or shape[-2:] != (m, b.shape[2]) or math.prod(shape[:-2]) != n:
            return None
        if min(m, shape[-1], depth) < self.config.cols or a.strides[2] != 1:
            return None
        if self.graph.tensors[op.inputs[0]].dtype != "int8" or 1 not in b.strides[1:]:
            return None
        lead = row_major(shape[:-2], 1)

        def spread(placed: Placed) -> Placed:
            outer = tuple(placed.strides[0] * step for step in lead)
            return replace(
                placed,
                shape=(*shape[:-2], *placed.shape[1:]),
                strides=(*outer, *placed.strides[1:]),
            )

        zero_points = (self.fusion.integer(op.inputs[2]), self.fusion.integer(op.inputs[3]))
        found = Factors(spread(a), spread(b), zero_points)
        return None if found.transposed and not self.config.transposed_weights else found

    # Which operators --------------------------------------------------------------------------

    def _longest_chain(self, chain: _Chain, op: Op) -> list[Op]:
        """The longest chain from `op` on; what `chain` has made already is read by it."""
        best, begun = 0, bool(chain.made)
        if not begun and not self._joins_chain(chain, op):
            return []
        start = self.place[id(op)]
        for other in self.graph.ops[start : start + WINDOW]:
            if (other is not op or begun) and not self._joins_chain(chain, other):
                if self._stands_beside(other):
                    chain.beside[other.outputs[0]] = other
                continue
            for name in self._operands(other):
                if name in chain.beside:
                    self._join(chain, chain.beside.pop(name))
            self._join(chain, other)
            if len(self._leaving(chain.ops)) <= RESULTS:
                best = len(chain.ops)
        found = chain.ops[:best]
        return found if any(o.kind not in (*_SINGLE, "RESHAPE") for o in found) else []

    def _closed(self, ops: list[Op]) -> list[Op]:
        """The longest beginning of `ops` of which few enough results are used elsewhere."""
        while len(ops) > 1 and len(self._leaving(ops)) > RESULTS:
            ops = ops[:-1]
        new = any(o.kind not in (*_SINGLE, "RESHAPE") for o in ops)
        return ops if new else []

    def _leaving(self, ops: list[Op]) -> list[str]:
        """Results of `ops` that others read, or that are outputs."""
        members = {id(op) for op in ops}
        found = []
        for op in ops:
            (name,) = op.outputs
            outside = any(id(user) not in members for user in self._users(name))
            if outside or name in self.graph.outputs:
                found.append(name)
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

    def _free(self, op: Op) -> bool:
        """Whether a chain may compute `op`, as far as that does not depend on the chain."""
        fusion = self.fusion
        if op.kind not in _KINDS or id(op) in fusion.done or id(op) in fusion.deferred:
            return False
        return id(op) not in fusion.sum_at and self._simple(op)

    def _stands_beside(self, op: Op) -> bool:
        """Whether `op` is elementwise on one tensor that is in memory."""
        alone = op.kind in ("CAST", "RESCALE", "ABS", "NEGATE", "CLAMP") and self._free(op)
        if not alone or op.attributes.get("per_channel"):
            return False
        return bool(self.graph.tensors[op.outputs[0]].shape) and self._ready(op.inputs[0])

    def _joins_chain(self, chain: _Chain, op: Op) -> bool:
        """Whether `op` can be computed at the end of the chain."""
        if not self._free(op):
            return False
        operands, out = self._operands(op), self.graph.tensors[op.outputs[0]].shape
        if not out or (chain.made and not chain.made.intersection(operands)):
            return False
        known = (*chain.made, *chain.beside)
        if any(n not in known and not self._ready(n) for n in operands):
            return False
        if op.kind == "RESHAPE":
            return self._packs(chain, op)
        if chain.packed.intersection(operands):
            return op.kind not in REDUCTIONS and all(
                n in chain.packed or self.graph.tensors[n].size == 1 for n in operands
            )
        shapes = [self.graph.tensors[n].shape for n in operands]
        if op.kind in REDUCTIONS and not self._whole(shapes[0][op.attributes["axis"]]):
            return False
        if op.attributes.get("per_channel") and not self._whole(out[-1]):
            return False
        return all(_within(shape, chain.shape) for shape in (*shapes, out))

    def _simple(self, op: Op) -> bool:
        """Nothing unsigned, and parameters per channel only if they are known."""
        a = op.attributes
        if a.get("per_channel") and any(self.is_runtime(name) for name in op.inputs[1:3]):
            return False
        return not (a.get("input_unsigned") or a.get("output_unsigned"))

    def _ready(self, name: str) -> bool:
        """Whether a tensor is in memory before the chain runs."""
        return name in self.storage.placed or self.graph.tensors[name].is_constant

    def _whole(self, size: int) -> bool:
        """Whether a tile can hold so many elements along one dimension."""
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

    def _chained(self, ops: list[Op], builder: MapBuilder) -> MapLayer | None:
        """The layer of a chain; None if no tile of it fits."""
        for op in ops:
            self._emit(builder, op)
        names = self._leaving(ops)
        results = [builder.made[name] for name in names]
        made = {id(step.out) for step in builder.steps}
        if len({id(v) for v in results} & made) < len(results):
            return None
        simplify(builder, results, self.config.cols)
        if builder.product is not None and not builder.keeps_product():
            return None
        targets: list[Target] = []
        ahead: dict[str, Ahead] = {}
        for name, value in zip(names, results, strict=True):
            tensor, found = self.graph.tensors[name], self.permutes.ahead(name)
            strides = row_major(value.shape, ITEM[tensor.dtype])
            if found is not None and value.shape == tensor.shape:
                ahead[name], strides = found, found.placed.strides
                tensor = self.graph.tensors[found.result]
            view = dense(tensor.name, tensor.dtype, to_nhwc(tensor.shape))
            targets.append(Target(view, 0, strides))
        main = next(op for op in ops if op.kind not in ("RESHAPE", "RESCALE"))
        layer = builder.layer(
            *targets,
            results=results,
            name=main.name,
            ops=tuple(op.kind for op in ops),
            source=main.source,
        )
        try:
            plan_fused(layer, self.config, MemoryBudget(self.config.spad_bytes // SHARE))
        except CompileError:
            return None
        for name in names:
            if name in ahead:
                self.write_ahead(name, ahead[name])
            else:
                self.storage.add(name)
        return layer

    def _emit(self, builder: MapBuilder, op: Op) -> None:
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
            self._finish(builder, op, kind)
        else:
            operands = [self.value(builder, name) for name in self._operands(op)]
            self._recipe(op)(builder, op, operands, kind)
        builder.made[out] = builder.steps[-1].out

    def _reduce(self, builder: MapBuilder, op: Op, kind: DType) -> None:
        value, axis = self.value(builder, op.inputs[0]), op.attributes["axis"]
        builder.step(value, None, kind, reduce=REDUCTIONS[op.kind][0], axis=axis)

    def _finish(self, builder: MapBuilder, op: Op, kind: DType) -> None:
        """RESCALE, CLAMP or TABLE, as a step."""
        value = self.value(builder, op.inputs[0])
        low, high = RANGES[value.kind]
        if op.kind == "RESCALE":
            self._rescale_step(builder, op, value, kind)
            return
        if op.kind == "CLAMP":
            at = (op.attributes["min_val"], op.attributes["max_val"])
            low, high = max(low, at[0]), min(high, at[1])
        builder.step(value, None, kind, o_min=low, o_max=high)
        self._look_up(builder, op, value.kind)

    def _rescale_step(self, builder: MapBuilder, op: Op, value: Value, kind: DType) -> None:
        known = self.fusion.rescale_values(op)
        multiplier, shift = known["multiplier"], known["shift"]
        fields = {
            "a_zp": self.fusion.zero_point(op.inputs[3], unsigned=False),
            "o_zp": known["zero_point"],
            "o_min": known["low"],
            "o_max": known["high"],
        }
        if multiplier.size == 1:
            fields |= {"o_mult": int(multiplier[0]), "o_shift": int(shift[0])}
            builder.step(value, None, kind, values=fields, o_scale=Scale.TENSOR)
            return
        builder.step(value, None, kind, values=fields, o_scale=Scale.CHANNEL)
        builder.steps[-1].params = Epilogue(
            dtype=kind, low=known["low"], high=known["high"], multiplier=multiplier, shift=shift
        )

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
