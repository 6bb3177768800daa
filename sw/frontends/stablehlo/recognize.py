"""Groups of operations that are one function of PyTorch, which the importer knows as one."""

from sw.frontends.stablehlo.affine import join_scales
from sw.frontends.stablehlo.averages import averages
from sw.frontends.stablehlo.graph import Graph
from sw.frontends.stablehlo.norms import norms
from sw.frontends.stablehlo.softmaxes import softmaxes
from sw.frontends.stablehlo.takes import takes
from sw.frontends.stablehlo.univariate import univariates


def recognize(graph: Graph) -> None:
    """Put functions in place of groups. The graph computes the same, up to rounding."""
    for each in (takes, univariates, averages, softmaxes, norms, join_scales):
        each(graph)
        graph.clean()
