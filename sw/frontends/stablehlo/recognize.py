"""Groups of operations that are one function of PyTorch, which the importer knows as one."""

from sw.frontends.stablehlo.graph import Graph


def recognize(graph: Graph) -> None:
    pass
