"""What the grids of a quantized graph say of a value on its way from one to the next."""

from torch.fx import Node

from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.quantization.values import Grid


def _grids_behind(im: Importer, node: Node) -> set[Grid | None]:
    """The grids that the readers of `node` round it to; None for those that do not."""
    return {im.planner.grids.get(reader) for reader, _, _ in im.formats.readers(node)}


def keeps_grid(im: Importer, node: Node, source: Node) -> bool:
    """Whether `source` lies on a grid, and every reader of `node` rounds it to the same."""
    grid = im.planner.grid_behind(source)
    return grid is not None and _grids_behind(im, node) == {grid}


def changes_grid(im: Importer, node: Node, source: Node) -> bool:
    """Whether `source` lies on a grid, and some reader of `node` does not round it to the same."""
    return im.planner.grid_behind(source) is not None and not keeps_grid(im, node, source)


def rounded_behind(im: Importer, node: Node) -> bool:
    """Whether every reader of `node` rounds it to a grid, so that nothing before has to."""
    grids = _grids_behind(im, node)
    return bool(grids) and None not in grids
