"""CONCATs that cost nothing: the layers that make their operands write them where they are joined.

An operand then is a strided piece of the result; all its readers read it there. What is joined
again, by a RESHAPE or by another CONCAT, lies within that result.
"""

from dataclasses import dataclass, replace

from sw.compiler.kernels.views import ITEM, Placed, reshaped, row_major
from sw.compiler.tosa.graph import Graph, Op

_VIEWS = ("RESHAPE", "IDENTITY")


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where a tensor lies: a piece of `whole` from `start` on along `axis`; None: all of it, in
    another shape."""

    whole: str
    start: int
    axis: int | None


class Joins:
    """Finds them in `graph`; a tensor that several CONCATs join is in the place of the first.

    Without `producers`, the operators that make the tensors, there are none.
    """

    def __init__(self, graph: Graph, producers: dict[str, Op] | None) -> None:
        self._graph = graph
        self._slots: dict[str, _Slot] = {}
        for op in graph.ops:
            if op.kind == "CONCAT" and producers is not None:
                self._add(op, producers)

    def _add(self, op: Op, producers: dict[str, Op]) -> None:
        (out,) = op.outputs
        axis, to = op.attributes["axis"], 0
        for name in op.inputs:
            slot = _Slot(out, to, axis)
            to += self._graph.tensors[name].shape[axis]
            if op.inputs.count(name) > 1:
                continue
            while name in producers and name not in self._slots:
                self._slots[name] = slot
                before = producers[name]
                if before.kind not in _VIEWS:
                    break
                slot, name = _Slot(name, 0, None), before.inputs[0]

    def place(self, name: str) -> Placed | None:
        """Where to write tensor `name` if it is joined with others, else None."""
        slot, tensor = self._slots.get(name), self._graph.tensors[name]
        if slot is None:
            return None
        whole = self.place(slot.whole) if slot.whole in self._slots else self._root(slot.whole)
        if whole is None:
            return None
        if slot.axis is not None:
            # The whole may itself be a piece of something larger, with strides of that.
            offset = whole.offset + slot.start * whole.strides[slot.axis]
            return replace(whole, shape=tensor.shape, offset=offset)
        strides = reshaped(whole, tensor.shape)
        return None if strides is None else replace(whole, shape=tensor.shape, strides=strides)

    def _root(self, name: str) -> Placed:
        tensor = self._graph.tensors[name]
        item = ITEM[tensor.dtype]
        strides = row_major(tensor.shape, item)
        return Placed(root=name, shape=tensor.shape, strides=strides, offset=0, item=item)
