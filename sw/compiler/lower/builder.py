"""What lowering is built on: the graph, the layers so far, views of tensors, operands."""

from spec.config import NpuConfig
from sw.compiler.kernels.layers import Layer, MoveLayer, Operand
from sw.compiler.kernels.views import (
    DTYPE,
    ITEM,
    UNSIGNED,
    Shape4,
    View,
    dense,
    row_major,
    to_nhwc,
    view_of,
)
from sw.compiler.lower.fusion import Fusion
from sw.compiler.lower.permutes import Ahead, Permutes
from sw.compiler.lower.storage import Storage
from sw.compiler.tosa.graph import Graph


class LayerBuilder:
    """Collects the layers of `graph` for `config`; `fold`: constants may be packed beforehand."""

    def __init__(self, graph: Graph, config: NpuConfig, fold: bool = True) -> None:
        self.graph, self.config, self.fold = graph, config, fold
        self.fusion = Fusion(graph)
        self.storage = Storage(graph)
        self.layers: list[Layer] = []
        self.permutes = Permutes(graph, self.fusion.users)
        self.place = {id(op): i for i, op in enumerate(graph.ops)}

    def output(self, name: str, shape: tuple[int, int, int, int]) -> View:
        """A new tensor in memory for the result `name`."""
        return dense(self.storage.add(name), self.graph.tensors[name].dtype, shape)

    def product(self, name: str, shape: tuple[int, int, int, int]) -> View:
        """The same for the result of a product, which may lie permuted: see `Permutes`."""
        ahead = self.permutes.ahead(name)
        if ahead is not None:
            view = view_of(ahead.placed, self.graph.tensors[name].dtype, shape)
            if view is not None:
                self.write_ahead(name, ahead)
                return view
        return self.output(name, shape)

    def write_ahead(self, name: str, ahead: Ahead) -> None:
        """From now on tensor `name` and its permutation are in memory."""
        self.storage.add(ahead.result)
        self.storage.placed[name] = ahead.placed
        self.fusion.done.update(id(op) for op in ahead.ops)

    def view(self, name: str, shape: Shape4) -> View:
        """Tensor `name` as an NHWC view; a piece that cannot be seen so is copied first."""
        if not self.storage.fits(name, shape):
            self.copy(name, f"{name}.copy", "")
        return self.storage.view(name, shape)

    def copy(self, name: str, label: str, source: str) -> None:
        """From now on tensor `name` is a dense copy of itself."""
        copied = self.storage.add_copy(name)
        self.move(name, copied, label, source)
        self.storage.redirect(name, copied)

    def move(
        self, name: str, root: str, label: str, source: str, perms: tuple[int, ...] = ()
    ) -> None:
        """A layer that writes tensor `name`, its dimensions permuted, densely to `root`."""
        offset, shape, strides, tensor = self.storage.merged(name, perms)
        dtype = self.graph.tensors[name].dtype
        self.layers.append(
            MoveLayer(
                name=label,
                output=dense(root, dtype, to_nhwc(shape)),
                ops=("TRANSPOSE" if perms else "IDENTITY",),
                source=source,
                tensor=tensor,
                offset=offset,
                source_shape=shape,
                source_strides=strides,
                before=(0,) * len(shape),
                shape=shape if len(shape) > 4 else (),
                target_strides=row_major(shape, ITEM[dtype]) if len(shape) > 4 else (),
            )
        )

    def image(self, name: str) -> View:
        """NHWC tensor `name`."""
        n, h, w, c = self.graph.tensors[name].shape
        return self.view(name, (n, h, w, c))

    def operand(self, name: str, shape: tuple[int, int, int, int]) -> Operand:
        """Operand `name` of an elementwise operator, with the RESCALE before it."""
        source = self.fusion.operand_rescales.get(name)
        if source is None:
            kind = DTYPE[self.graph.tensors[name].dtype]
            return Operand(view=self.view(name, shape), dtype=kind)
        unsigned = source.attributes["input_unsigned"]
        inner = source.inputs[0]
        kind = (UNSIGNED if unsigned else DTYPE)[self.graph.tensors[inner].dtype]
        return Operand(
            view=self.view(inner, shape),
            dtype=kind,
            zero_point=self.fusion.zero_point(source.inputs[3], unsigned),
            multiplier=int(self.graph.constant(source.inputs[1])[0]),
            shift=int(self.graph.constant(source.inputs[2])[0]),
        )
