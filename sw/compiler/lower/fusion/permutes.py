"""TRANSPOSEs that cost nothing: matrix products read and write what is permuted where it lies.

Readers: a TRANSPOSE that only MATMULs read is a view with its strides permuted; a product loads
its operands by strides, and its weights either way round. Writers: what only a TRANSPOSE reads is
written where the TRANSPOSE's result has it.
"""

from dataclasses import dataclass, replace

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
        ops = self._up_to_transpose(name)
        if not ops or self.only_products(ops[-1].outputs[0]):
            return None
        placed: Placed | None = self._before(ops[-1])
        for op in reversed(ops[:-1]):
            # What a view makes of the tensor is known; the tensor's own strides follow backwards.
            placed = None if placed is None else _restrided(placed, self._shape(op.inputs[0]))
        if placed is None or not _has_channels_together(placed):
            return None
        return Ahead(placed.root, placed, tuple(ops))

    def _shape(self, name: str) -> tuple[int, ...]:
        return self._graph.tensors[name].shape

    def _up_to_transpose(self, name: str) -> list[Op]:
        """The views behind tensor `name` and the TRANSPOSE behind them; [] if others read any."""
        ops: list[Op] = []
        while not ops or ops[-1].kind != "TRANSPOSE":
            users = self._users[name]
            if len(users) != 1 or name in self._graph.outputs:
                return []
            if users[0].kind not in (*_VIEWS, "TRANSPOSE"):
                return []
            ops.append(users[0])
            name = users[0].outputs[0]
        return ops

    def _before(self, transpose: Op) -> Placed:
        """The operand of a TRANSPOSE, written so that the result is dense."""
        result = self._graph.tensors[transpose.outputs[0]]
        item, perms = ITEM[result.dtype], transpose.attributes["perms"]
        strides = row_major(result.shape, item)
        dense = Placed(root=result.name, shape=result.shape, strides=strides, offset=0, item=item)
        return dense.permuted(tuple(perms.index(axis) for axis in range(len(perms))))


def _restrided(placed: Placed, shape: tuple[int, ...]) -> Placed | None:
    """The same elements under another shape; None if no strides do that."""
    strides = reshaped(placed, shape)
    return None if strides is None else replace(placed, shape=shape, strides=strides)


def _has_channels_together(placed: Placed) -> bool:
    """Whether the elements of the last dimension are neighbours, as STORE writes them."""
    inner = [s for n, s in zip(placed.shape, placed.strides, strict=True) if n > 1]
    return not inner or inner[-1] == placed.item
