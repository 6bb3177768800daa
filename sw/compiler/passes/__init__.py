"""Stage `passes`: rewrites of the TOSA graph, as a list in one place.

Every pass takes a graph that it may change and leaves one that verifies and computes the same:
merge_groups.py, merge_pixels.py, fold_constants.py, identities.py, duplicates.py, broadcasts.py,
transposes.py, early_rescales.py, rotations.py, fold_tables.py, fold_pads.py, late_reshapes.py,
late_concats.py, nest_concats.py, dead_code.py, group_tables.py, shuffles.py, split_products.py,
early_slices.py, split_heads.py.
Behind them the pipeline cuts layers into stripes of rows where a prediction says that it pays:
stripe_regions.py, row_stripes.py.
"""

from collections.abc import Callable

from spec.config import NpuConfig
from sw.compiler.passes.broadcasts import broadcast_tiles
from sw.compiler.passes.dead_code import remove_dead_code
from sw.compiler.passes.duplicates import remove_duplicates
from sw.compiler.passes.early_rescales import early_rescales
from sw.compiler.passes.early_slices import early_slices
from sw.compiler.passes.fold_constants import fold_constants
from sw.compiler.passes.fold_pads import fold_pads
from sw.compiler.passes.fold_tables import fold_tables
from sw.compiler.passes.group_tables import group_tables
from sw.compiler.passes.identities import remove_identities
from sw.compiler.passes.late_concats import late_concats
from sw.compiler.passes.late_reshapes import late_reshapes
from sw.compiler.passes.merge_groups import merge_groups
from sw.compiler.passes.merge_pixels import merge_pixels
from sw.compiler.passes.nest_concats import nest_concats
from sw.compiler.passes.rotations import early_rotations
from sw.compiler.passes.shuffles import absorb_shuffles
from sw.compiler.passes.split_heads import split_heads
from sw.compiler.passes.split_products import split_products
from sw.compiler.passes.transposes import (
    narrow_transposes,
    reshape_transposes,
    sink_transposes,
)
from sw.compiler.tosa.graph import Graph

Pass = Callable[[Graph], None]

PASSES: tuple[Pass, ...] = (
    fold_constants,
    remove_identities,
    remove_duplicates,
    broadcast_tiles,
    reshape_transposes,
    sink_transposes,
    narrow_transposes,
    early_rescales,
    early_rotations,
    fold_tables,
    reshape_transposes,
    fold_pads,
    remove_dead_code,
    late_reshapes,
    late_concats,
    nest_concats,
    remove_dead_code,
    group_tables,
)


def run_passes(graph: Graph, config: NpuConfig, *, fold: bool = True) -> Graph:
    """A rewritten copy of `graph`; each pass's result is verified.

    config: what convolutions are merged and split for, and shuffles absorbed. `fold`:
    whether operators of constants may be computed beforehand, and weights rearranged.
    """
    graph = graph.copy()
    if fold:
        merge_groups(graph, config)
        merge_pixels(graph, config)
        graph.verify()
    for rewrite in PASSES if fold else [p for p in PASSES if p is not fold_constants]:
        rewrite(graph)
        graph.verify()
    if fold:
        absorb_shuffles(graph, config)
        split_products(graph, config)
        early_slices(graph, config)
        late_reshapes(graph)
        split_heads(graph, config)
        graph.verify()
    return graph
