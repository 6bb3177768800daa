"""What lowering is built on: the graph, the layers so far, views of tensors, operands."""

from spec.config import NpuConfig
from sw.compiler.fusion import Fusion
from sw.compiler.layers import DTYPE, UNSIGNED, Layer, Operand, View, dense
from sw.compiler.storage import Storage
from sw.compiler.tosa import Graph


class LayerBuilder:
    """Collects the layers of `graph` for `config`."""

    def __init__(self, graph: Graph, config: NpuConfig) -> None:
        self.graph, self.config = graph, config
        self.fusion = Fusion(graph)
        self.storage = Storage(graph)
        self.layers: list[Layer] = []

    def output(self, name: str, shape: tuple[int, int, int, int]) -> View:
        """A new tensor in memory for the result `name`."""
        return dense(self.storage.add(name), self.graph.tensors[name].dtype, shape)

    def image(self, name: str) -> View:
        """NHWC tensor `name`."""
        n, h, w, c = self.graph.tensors[name].shape
        return self.storage.view(name, (n, h, w, c))

    def operand(self, name: str, shape: tuple[int, int, int, int]) -> Operand:
        """Operand `name` of an elementwise operator, with the RESCALE before it."""
        source = self.fusion.operand_rescales.get(name)
        if source is None:
            kind = DTYPE[self.graph.tensors[name].dtype]
            return Operand(view=self.storage.view(name, shape), dtype=kind)
        unsigned = source.attributes["input_unsigned"]
        inner = source.inputs[0]
        kind = (UNSIGNED if unsigned else DTYPE)[self.graph.tensors[inner].dtype]
        return Operand(
            view=self.storage.view(inner, shape),
            dtype=kind,
            zero_point=self.fusion.zero_point(source.inputs[3], unsigned),
            multiplier=int(self.graph.constant(source.inputs[1])[0]),
            shift=int(self.graph.constant(source.inputs[2])[0]),
        )
