"""What every lowering function works on: the graph, the layers so far, and where tensors lie."""

from collections.abc import Callable

from spec.config import NpuConfig
from spec.isa import DType
from spec.numerics import keeps_values
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
from sw.compiler.lower.fusion.epilogues import integer, zero_point
from sw.compiler.lower.fusion.fusion import Fusion
from sw.compiler.lower.fusion.joins import Joins
from sw.compiler.lower.fusion.padded import padded_averages
from sw.compiler.lower.fusion.permutes import Ahead, Permutes
from sw.compiler.lower.narrow import narrowed
from sw.compiler.lower.storage import Storage
from sw.compiler.tosa.graph import Graph, Op


class Context:
    """The layers of `graph` for `config`, as far as they are made.

    fold: constants may be packed beforehand; otherwise they are read like tensors of run time.
    join: operands of a CONCAT may be pieces of its result.
    """

    def __init__(
        self, graph: Graph, config: NpuConfig, fold: bool = True, *, join: bool = True
    ) -> None:
        self.graph, self.config, self.fold = graph, config, fold
        self.fusion = Fusion(graph)
        self.storage = Storage(graph)
        self.layers: list[Layer] = []
        self.permutes = Permutes(graph, self.fusion.users)
        self.padded = padded_averages(graph)
        self.fusion.done.update(id(op) for found in self.padded.values() for op in found.ops)
        self.joins = Joins(graph, self.fusion.producers if join else None)
        self.place = {id(op): i for i, op in enumerate(graph.ops)}
        # RESHAPEs that need a copy, by their results, which products alone read: some can read the
        # operand as it lies.
        self.late: dict[str, Op] = {}
        self._narrow: dict[str, str] = {}

    # Facts of a tensor ------------------------------------------------------------------------

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.tensors[name].shape

    def dtype(self, name: str) -> str:
        return self.graph.tensors[name].dtype

    def kind(self, name: str) -> DType:
        """The element type as instructions name it, signed."""
        return DTYPE[self.graph.tensors[name].dtype]

    def integer(self, name: str) -> int:
        """The value of a one-element constant."""
        return integer(self.graph, name)

    def is_runtime(self, name: str) -> bool:
        """Whether the values of tensor `name` are only known when the program runs."""
        return not self.fold or not self.graph.tensors[name].is_constant

    # Where results go -------------------------------------------------------------------------

    def output(self, name: str, shape: Shape4) -> View:
        """The tensor in memory for the result `name`: a new one, or a piece of a CONCAT's."""
        joined = self.joins.place(name)
        view = None if joined is None else view_of(joined, self.dtype(name), shape)
        if joined is None or view is None:
            return dense(self.storage.add(name), self.dtype(name), shape)
        self.storage.add_piece(name, joined)
        return view

    def output_of_product(self, name: str, shape: Shape4) -> View:
        """The same for the result of a product, which may be written permuted: see `Permutes`."""
        ahead = self.permutes.ahead(name)
        if ahead is not None:
            view = view_of(ahead.placed, self.dtype(name), shape)
            if view is not None:
                self.write_ahead(name, ahead)
                return view
        return self.output(name, shape)

    def write_ahead(self, name: str, ahead: Ahead) -> None:
        """From now on tensor `name` and its permutation are in memory."""
        self.storage.add(ahead.result)
        self.storage.placed[name] = ahead.placed
        self.fusion.done.update(id(op) for op in ahead.ops)

    # How operands are read --------------------------------------------------------------------

    def view(self, name: str, shape: Shape4) -> View:
        """Tensor `name` as an NHWC view; a piece that cannot be seen so is copied first."""
        if not self.storage.fits(name, shape):
            self.copy(name, f"{name}.copy", "")
        return self.storage.view(name, shape)

    def image(self, name: str) -> View:
        """NHWC tensor `name`."""
        n, h, w, c = self.shape(name)
        return self.view(name, (n, h, w, c))

    def narrow(self, name: str) -> str:
        """The tensor to read for operand `name` of int32: a constant may have fewer bits."""
        if name not in self._narrow:
            self._narrow[name] = narrowed(self.graph, name) if self.fold else name
        return self._narrow[name]

    def operand(self, name: str, shape: Shape4) -> Operand:
        """Operand `name` of an elementwise operator, with the RESCALE before it."""
        rescale = self.fusion.operand_rescales.get(name)
        if rescale is None:
            name = self.narrow(name)
            return Operand(view=self.view(name, shape), dtype=self.kind(name))
        return self.rescaled(rescale, self.view(rescale.inputs[0], shape))

    def rescaled(self, rescale: Op, view: View) -> Operand:
        """`view` as the operand that `rescale`, which the vector engine computes, makes of it."""
        unsigned = rescale.attributes["input_unsigned"]
        multiplier, shift = (self.integer(name) for name in rescale.inputs[1:3])
        # A product with 1 keeps every value, and need not be computed.
        same = keeps_values(multiplier, shift)
        return Operand(
            view=view,
            dtype=(UNSIGNED if unsigned else DTYPE)[self.dtype(rescale.inputs[0])],
            zero_point=zero_point(self.graph, rescale.inputs[3], unsigned),
            multiplier=1 if same else multiplier,
            shift=0 if same else shift,
        )

    # Copies -----------------------------------------------------------------------------------

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
        dtype = self.dtype(name)
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


Lower = Callable[[Context, Op], None]
"""What the table of lowerings holds: a function that adds the layers of one operator."""
