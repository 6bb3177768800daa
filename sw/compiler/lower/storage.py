"""Gives every tensor a place in memory: a root of its own, or a piece of a root that exists."""

from spec.program import REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP
from sw.compiler.errors import CompileError
from sw.compiler.kernels.views import (
    ITEM,
    MemoryMap,
    Placed,
    Shape4,
    View,
    reshaped,
    row_major,
    view_of,
)
from sw.compiler.tosa.graph import Graph, Op


class Storage:
    """The roots made so far (`memory`), and in which of them each known tensor lies (`placed`)."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.placed: dict[str, Placed] = {}
        self.memory = MemoryMap()
        for name in graph.inputs:
            self._root(name, name, REGION_INPUT)

    def _reserve(self, root: str, tensor: str, region: int) -> None:
        self.memory.nbytes[root] = self.graph.tensors[tensor].nbytes
        self.memory.region[root] = region

    def _root(self, root: str, tensor: str, region: int) -> str:
        self._reserve(root, tensor, region)
        if tensor not in self.placed:
            t = self.graph.tensors[tensor]
            item = ITEM[t.dtype]
            self.placed[tensor] = Placed(
                root=root, shape=t.shape, strides=row_major(t.shape, item), offset=0, item=item
            )
        return root

    def add(self, name: str) -> str:
        """A new root for the tensor that a layer writes."""
        return self._root(name, name, REGION_TEMP)

    def add_piece(self, name: str, placed: Placed) -> None:
        """Place tensor `name` within the root of another tensor, which is made with its first.

        The other tensor has no place yet: it is not there before all of its pieces are.
        """
        if placed.root not in self.memory.nbytes:
            self._reserve(placed.root, placed.root, REGION_TEMP)
        self.placed[name] = placed

    def add_temp(self, root: str, nbytes: int) -> str:
        """A new root of the temporary region for bytes that are no tensor of the graph.

        Its name is `root` with a mark that sets it apart from the tensors' names.
        """
        root += "~"
        while root in self.memory.nbytes or root in self.graph.tensors:
            root += "~"
        self.memory.nbytes[root] = nbytes
        self.memory.region[root] = REGION_TEMP
        return root

    def add_copy(self, name: str) -> str:
        """A new root for a contiguous copy of tensor `name`."""
        root = f"{name}.copy"
        self.memory.nbytes[root] = self.graph.tensors[name].nbytes
        self.memory.region[root] = REGION_TEMP
        return root

    def redirect(self, name: str, root: str) -> None:
        """From now on `name` is the whole of `root`."""
        tensor = self.graph.tensors[name]
        item = ITEM[tensor.dtype]
        self.placed[name] = Placed(
            root=root,
            shape=tensor.shape,
            strides=row_major(tensor.shape, item),
            offset=0,
            item=item,
        )

    def claim_output(self, name: str) -> bool:
        """Turn the root of graph output `name` into an output; False if it needs a copy."""
        # Inputs, constants and pieces of another tensor's root are no places of their own.
        placed = self.get(name)
        whole = placed.is_dense and placed.offset == 0
        whole = whole and self.memory.nbytes[placed.root] == self.graph.tensors[name].nbytes
        if not whole or self.memory.region[placed.root] != REGION_TEMP:
            return False
        self.memory.region[placed.root] = REGION_OUTPUT
        self.memory.outputs[name] = placed.root
        return True

    def add_output(self, name: str) -> str:
        """A new output root for a copy of tensor `name`."""
        root = f"{name}.output"
        self.memory.nbytes[root] = self.graph.tensors[name].nbytes
        self.memory.region[root] = REGION_OUTPUT
        self.memory.outputs[name] = root
        return root

    def alias(self, op: Op) -> bool:
        """Place the output of RESHAPE, IDENTITY or SLICE; False if a reshape needs a copy."""
        source = self.get(op.inputs[0])
        out = op.outputs[0]
        shape = self.graph.tensors[out].shape
        if op.kind == "SLICE":
            start = [int(v) for v in self.graph.constant(op.inputs[1])]
            offset = source.offset + sum(a * s for a, s in zip(start, source.strides, strict=True))
            self.placed[out] = Placed(
                root=source.root,
                shape=shape,
                strides=source.strides,
                offset=offset,
                item=source.item,
            )
            return True
        strides: tuple[int, ...] | None = source.strides
        if op.kind == "RESHAPE":
            strides = reshaped(source, shape)
        if strides is None:
            return False
        self.placed[out] = Placed(
            root=source.root, shape=shape, strides=strides, offset=source.offset, item=source.item
        )
        return True

    def permute(self, op: Op) -> None:
        """Place the output of a TRANSPOSE: the strides of its input in another order."""
        source = self.get(op.inputs[0])
        self.placed[op.outputs[0]] = source.permuted(tuple(op.attributes["perms"]))

    def get(self, name: str) -> Placed:
        """Where tensor `name` lies; constants get a place when they are first asked for."""
        if name not in self.placed:
            if not self.graph.tensors[name].is_constant:
                raise CompileError(f"tensor {name!r} has no place in memory: read before written")
            self._root(name, name, REGION_CONST)
        return self.placed[name]

    def merged(
        self, name: str, perms: tuple[int, ...] = ()
    ) -> tuple[int, tuple[int, ...], tuple[int, ...], str]:
        """(offset, shape, strides, root) of a tensor, its dimensions permuted by `perms`.

        Dimensions of size 1 and dimensions that lie contiguously in one another are merged; at
        least four are returned.
        """
        placed = self.get(name)
        order = perms or tuple(range(len(placed.shape)))
        dims: list[tuple[int, int]] = []
        for axis in order:
            size, stride = placed.shape[axis], placed.strides[axis]
            if size == 1:
                continue
            if dims and dims[-1][1] == size * stride:
                dims[-1] = (dims[-1][0] * size, stride)
            else:
                dims.append((size, stride))
        dims = [(1, 0)] * (4 - len(dims)) + dims
        sizes, strides = zip(*dims, strict=True)
        return placed.offset, sizes, strides, placed.root

    def fits(self, name: str, shape: Shape4) -> bool:
        """Whether `view` can show tensor `name` as `shape` without a copy."""
        return view_of(self.get(name), "", shape) is not None

    def view(self, name: str, shape: Shape4) -> View:
        """Tensor `name` as an NHWC view of `shape` (the same elements in the same order)."""
        placed = self.get(name)
        found = view_of(placed, self.graph.tensors[name].dtype, shape)
        if found is None:
            raise CompileError(
                f"tensor {name!r}: a piece of shape {list(placed.shape)} cannot be read as "
                f"{list(shape)} without a copy"
            )
        return found
