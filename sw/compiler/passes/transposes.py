"""Fewer TRANSPOSEs: they move behind what follows them, where they meet others and cancel.

A frontend brings a tensor into the order of its framework around every operator that has an order.
`sink_transposes` moves every TRANSPOSE as far back as it goes: over RESHAPE, SLICE, CONCAT and
elementwise operators. Two that meet become one, or none; equal ones are computed once. The result
is taken if it transposes fewer bytes. `narrow_transposes` moves what is left before a RESCALE that
makes elements wider. `reshape_transposes` finds those that move nothing.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace

from sw.compiler.lower.fusion.permutes import Permutes
from sw.compiler.passes.exchange import exchange
from sw.compiler.tosa.graph import Graph, Op

Perm = tuple[int, ...]
Shape = tuple[int, ...]

KEPT_LAST = 0.25
"""What a byte of a TRANSPOSE that keeps the last dimension counts: its runs are long."""

_UNARY = ("CLAMP", "TABLE", "CAST", "ABS", "NEGATE", "RESCALE")
_VIEWS = ("RESHAPE", "SLICE")
_BINARY = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")


def reshape_transposes(graph: Graph) -> None:
    """A TRANSPOSE that only moves dimensions of one element is a RESHAPE."""
    for op in graph.ops:
        if op.kind == "TRANSPOSE":
            shape = graph.tensors[op.inputs[0]].shape
            order = [p for p in op.attributes["perms"] if shape[p] > 1]
            if order == sorted(order):
                result = graph.tensors[op.outputs[0]]
                target = graph.add_constant(f"{result.name}_shape", list(result.shape), "shape")
                op.kind, op.attributes, op.inputs = "RESHAPE", {}, [op.inputs[0], target]


def sink_transposes(graph: Graph) -> None:
    """Rewrite the whole graph if that leaves less to transpose."""
    if sum(op.kind == "TRANSPOSE" for op in graph.ops) < 2:
        return
    trial = sunk(graph)
    if _transposed_bytes(trial) < _transposed_bytes(graph):
        graph.ops, graph.tensors = trial.ops, trial.tensors


def sunk(graph: Graph) -> Graph:
    """A copy of `graph` with every TRANSPOSE as far back as it goes."""
    trial = graph.copy()
    _Sinker(trial).run()
    return trial


def narrow_transposes(graph: Graph) -> None:
    """TRANSPOSE and RESHAPE before a RESCALE or a CAST to a wider type that nobody else reads, so
    that a reduction or a sum behind has it in its layer.
    """
    readers, producers = graph.consumers(), graph.producers()
    for op in [op for op in graph.ops if op.kind in ("TRANSPOSE", "RESHAPE")]:
        before = producers.get(op.inputs[0])
        if before is None or before.kind not in ("RESCALE", "CAST"):
            continue
        narrow, wide = (graph.tensors[n] for n in (before.inputs[0], before.outputs[0]))
        alone = len(readers[wide.name]) == 1 and wide.name not in graph.outputs
        if not alone or narrow.nbytes >= wide.nbytes or before.attributes.get("per_channel"):
            continue
        result = graph.tensors[op.outputs[0]]
        early = replace(narrow, name=graph.fresh_name(f"{result.name}_narrow"), shape=result.shape)
        exchange(graph, before, op, early)
        # A TRANSPOSE behind a RESHAPE that has moved finds the RESCALE before it now.
        producers[early.name], producers[result.name] = op, before
        readers[early.name] = [before]
        readers[narrow.name] = [op if user is before else user for user in readers[narrow.name]]


def _transposed_bytes(graph: Graph) -> float:
    """Bytes of the TRANSPOSEs that products do not read or write in place."""
    permutes = Permutes(graph, graph.consumers())
    total = 0.0
    for op in graph.ops:
        if op.kind != "TRANSPOSE" or permutes.only_products(op.outputs[0]):
            continue
        if permutes.ahead(op.inputs[0]) is not None:
            continue
        shape, perms = graph.tensors[op.inputs[0]].shape, op.attributes["perms"]
        order = [p for p in perms if shape[p] > 1]
        same = not order or order[-1] == max(order)
        total += graph.tensors[op.outputs[0]].nbytes * (KEPT_LAST if same else 1)
    return total


class _Sinker:
    """Rebuilds `graph` operator by operator.

    late: by tensor, what it is a TRANSPOSE of, and how; nothing has been made of it yet. names: by
    tensor, the one that took its place.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops: list[Op] = []
        self.late: dict[str, tuple[str, Perm]] = {}
        self.names: dict[str, str] = {}
        self._known: dict[Hashable, str] = {}

    def run(self) -> None:
        """Replace the graph's operators."""
        for op in self.graph.ops:
            op.inputs = [self.names.get(name, name) for name in op.inputs]
            rule = _RULES.get(op.kind)
            if rule is None or not any(n in self.late for n in op.inputs) or not rule(self, op):
                self._keep(op)
        for name in self.graph.outputs:
            if name in self.late:
                self._write(name)
        self.graph.ops = self.ops
        used = {name for op in self.ops for name in (*op.inputs, *op.outputs)}
        used |= {*self.graph.inputs, *self.graph.outputs}
        self.graph.tensors = {n: t for n, t in self.graph.tensors.items() if n in used}

    def _keep(self, op: Op) -> None:
        """The operator as it is; what it reads must be there."""
        if op.kind == "TRANSPOSE":
            self.late[op.outputs[0]] = (op.inputs[0], tuple(op.attributes["perms"]))
            return
        op.inputs = [self.there(name) for name in op.inputs]
        (name,) = op.outputs
        if op.kind in _VIEWS and name not in self.graph.outputs:
            self.names[name] = self.made(op, name, self.shape(name), name)
        else:
            self.ops.append(op)

    def shape(self, name: str) -> Shape:
        return self.graph.tensors[name].shape

    def there(self, name: str) -> str:
        """Tensor `name`, or an equal one that has been made."""
        if name not in self.late:
            return name
        base, perm = self.late[name]
        if list(perm) == sorted(perm):
            return base
        if name in self.graph.outputs:
            # It is made under its own name at the end.
            return self.transposed(base, perm)
        return self.transposed(base, perm, name)

    def _write(self, name: str) -> None:
        base, perm = self.late[name]
        kind = "IDENTITY" if list(perm) == sorted(perm) else "TRANSPOSE"
        attributes = {"perms": perm} if kind == "TRANSPOSE" else {}
        self.ops.append(
            Op(kind=kind, name=name, inputs=[base], outputs=[name], attributes=attributes)
        )

    def transposed(self, base: str, perm: Perm, name: str = "") -> str:
        """A TRANSPOSE of `base`, which may be there already."""
        if list(perm) == sorted(perm):
            return base
        shape = tuple(self.shape(base)[p] for p in perm)
        op = Op(kind="TRANSPOSE", name=name, inputs=[base], outputs=[], attributes={"perms": perm})
        return self.made(op, name, shape, base, f"{base}_transposed")

    def made(self, op: Op, name: str, shape: Shape, like: str, fresh: str = "") -> str:
        """The result of `op`, which is appended unless an equal one is known.

        name: the tensor that it is, or "" for a new one called `fresh`, of the type of `like`.
        """
        kind = self.graph.tensors[like].dtype
        attributes = tuple(sorted((k, str(v)) for k, v in op.attributes.items()))
        data = tuple(self._value(n) for n in op.inputs)
        key = (op.kind, data, attributes, shape, kind)
        if key not in self._known:
            if not name:
                name = self.graph.fresh_name(fresh)
                tensor = replace(self.graph.tensors[like], name=name, shape=shape, data=None)
                self.graph.add_tensor(tensor)
            op.name, op.outputs = op.name or name, [name]
            self.ops.append(op)
            self._known[key] = name
        return self._known[key]

    def _value(self, name: str) -> Hashable:
        """What an operand is: shapes by their values, everything else by name."""
        tensor = self.graph.tensors[name]
        if tensor.data is not None and tensor.dtype == "shape":
            return tuple(tensor.data.reshape(-1).tolist())
        return name

    def moved(self, op: Op, inputs: list[str], shape: Shape, perm: Perm) -> None:
        """`op` reads `inputs` and gives `shape`; its former result is a TRANSPOSE of that."""
        (name,) = op.outputs
        fresh = replace(op, inputs=inputs, outputs=[], attributes=dict(op.attributes))
        self.late[name] = (self.made(fresh, "", shape, name, f"{name}_first"), perm)

    def constant(self, values: list[int], name: str) -> str:
        return self.graph.add_constant(name, values, "shape")


def _transpose(sink: _Sinker, op: Op) -> bool:
    base, perm = sink.late[op.inputs[0]]
    sink.late[op.outputs[0]] = (base, tuple(perm[p] for p in op.attributes["perms"]))
    return True


def _identity(sink: _Sinker, op: Op) -> bool:
    sink.late[op.outputs[0]] = sink.late[op.inputs[0]]
    return True


def _reshape(sink: _Sinker, op: Op) -> bool:
    base, perm = sink.late[op.inputs[0]]
    before, after = sink.shape(base), sink.shape(op.outputs[0])
    blocks = _blocks(tuple(before[p] for p in perm), after)
    # The blocks in the order of the source; within a block all stays.
    first = [min(perm[i] for i in old) for old, _ in blocks]
    order = sorted(range(len(blocks)), key=lambda k: first[k])
    inner = tuple(perm[i] for k in order for i in blocks[k][0])
    shape = tuple(after[i] for k in order for i in blocks[k][1])
    places = [i for k in order for i in blocks[k][1]]
    ready = sink.transposed(base, inner)
    target = sink.constant(list(shape), f"{op.name}_shape")
    outer = tuple(places.index(i) for i in range(len(after)))
    sink.moved(op, [ready, target], shape, outer)
    return True


def _blocks(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of dimensions of both shapes that have as many elements."""
    out: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        old, new, a, b = [i], [j], before[i], after[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                old.append(i)
                a, i = a * before[i], i + 1
            else:
                new.append(j)
                b, j = b * after[j], j + 1
        out.append((old, new))
    if out:
        # What is left has one element.
        out[-1][0].extend(range(i, len(before)))
        out[-1][1].extend(range(j, len(after)))
    return out


def _back(perm: Perm, values: list[int]) -> list[int]:
    """Values by dimension of the TRANSPOSE's result, by dimension of its operand."""
    out = [0] * len(perm)
    for i, p in enumerate(perm):
        out[p] = values[i]
    return out


def _slice(sink: _Sinker, op: Op) -> bool:
    base, perm = sink.late[op.inputs[0]]
    rows = [_back(perm, sink.graph.constant(n).reshape(-1).tolist()) for n in op.inputs[1:3]]
    names = [
        sink.constant(r, f"{op.name}_{k}") for r, k in zip(rows, ("start", "size"), strict=True)
    ]
    sink.moved(op, [base, *names], tuple(rows[1]), perm)
    return True


def _concat(sink: _Sinker, op: Op) -> bool:
    found = [sink.late.get(name) for name in op.inputs]
    known = [f for f in found if f is not None]
    if len(known) < len(found) or len({perm for _, perm in known}) > 1:
        return False
    perm, result = known[0][1], sink.shape(op.outputs[0])
    op.attributes["axis"] = perm[op.attributes["axis"]]
    sink.moved(op, [base for base, _ in known], tuple(_back(perm, list(result))), perm)
    return True


def _elementwise(sink: _Sinker, op: Op) -> bool:
    """Operands are transposed alike, or have one element; the others are tables and scales."""
    count = 2 if op.kind in _BINARY else 1
    operands, perms = [], set()
    for name in op.inputs[:count]:
        if name in sink.late:
            base, perm = sink.late[name]
            operands.append(base)
            perms.add(perm)
        elif sink.graph.tensors[name].size == 1:
            operands.append(name)
        else:
            return False
    if len(perms) != 1:
        return False
    (perm,) = perms
    # Scales of channels are those of the last dimension.
    if op.attributes.get("per_channel") and perm[-1] != len(perm) - 1:
        return False
    shapes = {sink.shape(n) for n in operands if sink.graph.tensors[n].size > 1}
    if len(shapes) > 1:
        return False
    result = tuple(_back(perm, list(sink.shape(op.outputs[0]))))
    sink.moved(op, [*operands, *op.inputs[count:]], result, perm)
    return True


_RULES: dict[str, Callable[[_Sinker, Op], bool]] = {
    "TRANSPOSE": _transpose,
    "IDENTITY": _identity,
    "RESHAPE": _reshape,
    "SLICE": _slice,
    "CONCAT": _concat,
    **dict.fromkeys((*_UNARY, *_BINARY), _elementwise),
}
"""How a TRANSPOSE goes behind an operator; False if it must stay before it."""
