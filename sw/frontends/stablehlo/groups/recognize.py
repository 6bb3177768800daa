"""Groups of operations that are one function of PyTorch, which the importer knows as one."""

from sw.frontends.stablehlo.graph import Graph
from sw.frontends.stablehlo.groups.affine import join_scales
from sw.frontends.stablehlo.groups.averages import averages
from sw.frontends.stablehlo.groups.norms import norms
from sw.frontends.stablehlo.groups.softmaxes import softmaxes
from sw.frontends.stablehlo.groups.takes import takes
from sw.frontends.stablehlo.groups.univariate import univariates


def recognize(graph: Graph) -> None:
    """Put functions in place of groups. The graph computes the same, up to rounding."""
    for each in (takes, univariates, averages, softmaxes, norms, join_scales):
        each(graph)
        graph.clean()
