"""TRANSPOSEs that cost nothing: matrix products read and write what is permuted where it lies.

Readers: a TRANSPOSE that only MATMULs read is a view with its strides permuted; a product loads
its operands by strides, and its weights either way round. Writers: what only a TRANSPOSE reads is
written where the TRANSPOSE's result has it.
"""

from dataclasses import dataclass

from sw.compiler.kernels.views import ITEM, Placed, reshaped, row_major
from sw.compiler.tosa.graph import Graph, Op

_VIEWS = ("RESHAPE", "IDENTITY")


@dataclass(frozen=True, slots=True)
class Ahead:
    """Where a tensor is written: `placed` in the root that its permutation `result` gets.

    ops: the views and the TRANSPOSE that are between them and that nothing is left of.
    """

    result: str
    placed: Placed
    ops: tuple[Op, ...]


class Permutes:
    """Finds them in `graph`; `users`: the readers of each tensor."""

    def __init__(self, graph: Graph, users: dict[str, list[Op]]) -> None:
        self._graph, self._users = graph, users

    def only_products(self, name: str) -> bool:
        """Whether all that tensor `name` becomes are operands of MATMULs."""
        users = self._users[name]
        if not users or name in self._graph.outputs:
            return False
        return all(
            self.only_products(user.outputs[0])
            if user.kind in (*_VIEWS, "TRANSPOSE")
            else user.kind == "MATMUL"
            for user in users
        )

    def ahead(self, name: str) -> Ahead | None:
        """Where to write tensor `name` if only a TRANSPOSE reads it (or views of it), else None."""
        ops: list[Op] = []
        while not ops or ops[-1].kind != "TRANSPOSE":
            users = self._users[name if not ops else ops[-1].outputs[0]]
            seen = name if not ops else ops[-1].outputs[0]
            if len(users) != 1 or seen in self._graph.outputs:
                return None
            if users[0].kind not in (*_VIEWS, "TRANSPOSE"):
                return None
            ops.append(users[0])
        result = ops[-1].outputs[0]
        if self.only_products(result):
            return None
        tensor = self._graph.tensors[result]
        item, perms = ITEM[tensor.dtype], ops[-1].attributes["perms"]
        shape, strides = [0] * len(perms), [0] * len(perms)
        for axis, size, stride in zip(
            perms, tensor.shape, row_major(tensor.shape, item), strict=True
        ):
            shape[axis], strides[axis] = size, stride
        placed = Placed(
            root=result, shape=tuple(shape), strides=tuple(strides), offset=0, item=item
        )
        for op in reversed(ops[:-1]):
            before = self._graph.tensors[op.inputs[0]].shape
            found = reshaped(placed, before)
            if found is None:
                return None
            placed = Placed(root=result, shape=before, strides=found, offset=0, item=item)
        last = next((i for i in reversed(range(len(placed.shape))) if placed.shape[i] > 1), None)
        if last is not None and placed.strides[last] != item:
            return None
        return Ahead(result, placed, tuple(ops))
