"""Graph passes."""

from sw.compiler.tosa import Graph


def run_passes(graph: Graph) -> Graph:
    """All passes in order."""
    return graph
